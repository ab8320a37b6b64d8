"""The hermetic C compiler: clang and lld from the ziglang package, with a chosen glibc floor."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.base.commands import setup_command
from builder.base.disk import SAID_NOTHING
from builder.base.errors import EnvironmentSetupError, LinkError
from builder.base.sandbox.process_output import signal_name
from builder.base.targets import Target

_FLAGS = (
    "-std=c11",
    "-O3",
    "-g0",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-math-errno",
    "-fstack-protector-strong",
    # zig's cache ignores the flag above: without this macro it would return an object that was compiled before the
    # flag was added.
    "-DCF_STACK_PROTECTOR",
    "-fno-sanitize=undefined",
    "-fno-asynchronous-unwind-tables",
    "-Wall",
    "-Wextra",
    "-Werror",
)


@dataclass(frozen=True)
class Toolchain:
    """A C compiler for one target; ``cache`` keeps its compiled C runtime between builds."""

    target: Target
    cache: Path

    def compile_source(
        self,
        source: Path,
        output: Path,
        *,
        include: tuple[Path, ...] = (),
        baseline: bool = False,
        cpu: str | None = None,
        flags: tuple[str, ...] = (),
    ) -> None:
        """Compile one C or assembly file, for ``cpu``, any CPU of the architecture (``baseline``) or the kernels' CPU.

        It runs in the source's folder, so that no path of this machine gets into the object.
        Raises LinkError with the compiler's message.
        """
        cpu = cpu or (self.target.baseline_cpu if baseline else self.target.kernel_cpu)
        common = [f for f in _FLAGS if source.suffix == ".c" or not f.startswith("-std")]
        common += self.target.flags
        includes = [f"-I{folder.resolve()}" for folder in include]
        arguments = ["-target", self.target.triple, f"-mcpu={cpu}", *common, *flags, *includes]
        compile_file(arguments, source, output, self.cache)

    def link_shared_library(self, objects: list[Path], exports: Path, output: Path) -> None:
        """Link a shared library that exports the names in the version script ``exports`` and needs only libc and libm.

        Once loaded it stays: threads of the model that ``run`` shares may be in its code when dlclose is called.
        """
        options = [
            "-target", self.target.triple, "-shared", "-s", "-g0", "-Wl,-soname,libmodel.so", "-Wl,-z,defs",
            "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,nodelete", "-Wl,-z,noexecstack", "-Wl,--gc-sections",
            "-Wl,--as-needed", "-Wl,--build-id=none", f"-Wl,--version-script={exports.resolve()}",
        ]  # fmt: skip
        paths = [str(p.resolve()) for p in objects]
        run_compiler([*options, *paths, "-lm", "-o", str(output.resolve())], output.parent, self.cache)

    def combine_objects(self, objects: list[Path], output: Path) -> None:
        """Combine ``objects`` into one relocatable object. Raises LinkError."""
        paths = [str(p.resolve()) for p in objects]
        run_zig(["ld.lld", "-r", "--strip-debug", *paths, "-o", str(output.resolve())], output.parent, self.cache)

    def compile_builtins(self, output: Path) -> None:
        """Compile the compiler's own library, as for conversions of 16-bit floats, into an object. Raises LinkError."""
        source = output.with_suffix(".c")
        source.touch()
        options = ["-target", self.target.triple, f"-mcpu={self.target.baseline_cpu}", "-fPIC", "-OReleaseFast"]
        options += ["-fstrip", "-ffunction-sections", "-fcompiler-rt", f"-femit-bin={output.resolve()}"]
        run_zig(["build-obj", *options, source.name], output.parent, self.cache)
        source.unlink()

    def create_archive(self, objects: list[Path], output: Path) -> None:
        """Create a static library, with the same bytes for the same objects. Raises LinkError."""
        run_zig(["ar", "rcsD", str(output.resolve()), *(str(p.resolve()) for p in objects)], output.parent, self.cache)

    def compile_program(self, sources: Sequence[Path], output: Path, include: Sequence[Path]) -> None:
        """Compile C and assembly files, in the folder of the first, into a program for any CPU of the architecture.

        Raises LinkError.
        """
        options = [
            "-target",
            self.target.triple,
            f"-mcpu={self.target.baseline_cpu}",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-s",
        ]
        includes = [f"-I{folder.resolve()}" for folder in include]
        paths = [str(source.resolve()) for source in sources]
        tail = ["-Wl,--build-id=none", "-lm", "-ldl", "-o", str(output.resolve())]
        run_compiler([*options, *includes, *paths, *tail], sources[0].parent, self.cache)


def choose_job_count() -> int:
    """Choose how many files to compile at once: at most four, as clang takes some hundred MB for each."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cpus, 4)


def compile_file(options: list[str], source: Path, output: Path, cache: Path) -> None:
    """Compile one file with clang in its own folder, so that no path of this machine gets into the object.

    ``cache`` keeps the object unless it is that of an assembly file, which includes the weights: the cache would grow
    by the size of the model with each build.
    Raises LinkError with the compiler's message.
    """
    arguments = ["cc", *options, "-c", source.name, "-o", str(output.resolve())]
    if source.suffix == ".S":
        with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
            run_zig(arguments, source.parent, cache, objects=Path(scratch))
    else:
        run_zig(arguments, source.parent, cache)


def run_compiler(arguments: list[str], folder: Path, cache: Path) -> None:
    """Run clang in ``folder``, with zig's cache in ``cache``. Raises LinkError with the compiler's message."""
    run_zig(["cc", *arguments], folder, cache)


def run_zig(arguments: list[str], folder: Path, cache: Path, objects: Path | None = None) -> None:
    """Run one of zig's tools (cc, ar, ld.lld) in ``folder``; ``objects`` or else ``cache`` keeps what it compiles.

    Raises LinkError with its message.
    """
    local = objects or cache
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(cache.resolve()), "ZIG_LOCAL_CACHE_DIR": str(local.resolve())}
    command = [*_find_zig(), *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ | caches, capture_output=True, text=True, check=False)
    text = done.stderr.strip()[-4000:]
    if done.returncode < 0 and not text:  # Writing to a mapped file on a full disk raises a signal.
        text = f"it was ended ({signal_name(done.returncode)}) {SAID_NOTHING}. Most likely memory or the disk ran out."
    if done.returncode:
        raise LinkError(f"the C compiler failed on {arguments[-3]}:\n{text}")


@functools.cache
def _find_zig() -> tuple[str, ...]:
    """Find zig's own program: ``-m ziglang`` starts a Python first, which takes as long as zig with a cached object."""
    spec = importlib.util.find_spec("ziglang")
    program = Path(spec.origin).parent / "zig" if spec and spec.origin else Path()
    return (str(program),) if program.is_file() else (sys.executable, "-m", "ziglang")


def zig_version() -> str:
    """Return the version of the ziglang package. Raises EnvironmentSetupError when it is missing."""
    try:
        return importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError as error:
        raise EnvironmentSetupError(f"the ziglang package is not installed here; run `{setup_command()}`.") from error
