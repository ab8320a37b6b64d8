"""What the compiler puts into every library against a wrong write."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import LinkError
from builder.base.targets import ARM64, TARGETS, X86_64, Target
from builder.compiler.emit import emit_sources
from builder.compiler.emit.write_weights import format_weights_source
from builder.compiler.link.shared_library import compile_objects
from builder.compiler.link.static_archive import list_global_symbols
from builder.compiler.link.toolchain import Toolchain, run_compiler
from tests.support.every_step import EVERY_STEP, SPEC
from tests.support.zig import CACHE

SMASH = """
#include <string.h>
__attribute__((visibility("default"))) int smash(const char *from, size_t size) {
    char small[16];
    memcpy(small, from, size);
    return small[3];
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "smash.c"
    path.write_text(SMASH)
    return path


@pytest.mark.parametrize("size", [16, 64])
def test_a_smashed_stack_ends_the_process(source: Path, size: int) -> None:
    """Rather than that it returns to where the data says."""
    toolchain, folder = Toolchain(X86_64, CACHE), source.parent
    (folder / "exports.map").write_text("{ global: smash; local: *; };")
    toolchain.compile_source(source, folder / "smash.o")
    toolchain.link_shared_library([folder / "smash.o"], folder / "exports.map", folder / "smash.so")
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).smash(b'a' * 64, ctypes.c_size_t(int(sys.argv[2])))"
    command = [sys.executable, "-c", code, str(folder / "smash.so"), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if size == 16 else -signal.SIGABRT)
    assert ("stack smashing detected" in done.stderr) == (size > 16)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_an_object_of_before_is_not_taken_for_a_guarded_one(source: Path, target: Target) -> None:
    """zig's cache does not tell the two apart by the flag."""
    flags = ["-target", target.triple, f"-mcpu={target.kernel_cpu}", "-std=c11", "-O3", "-g0", "-fPIC"]
    flags += ["-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-fno-math-errno"]
    flags += ["-fno-stack-protector", "-fno-sanitize=undefined", "-fno-asynchronous-unwind-tables"]
    flags += ["-Wall", "-Wextra", "-Werror", *target.flags]
    output = source.with_suffix(".o")
    run_compiler([*flags, "-c", source.name, "-o", str(output)], source.parent, CACHE)
    assert "__stack_chk_fail" not in list_global_symbols(output.read_bytes()).undefined
    Toolchain(target, CACHE).compile_source(source, output)
    assert "__stack_chk_fail" in list_global_symbols(output.read_bytes()).undefined


def test_the_cache_keeps_no_weights(tmp_path: Path) -> None:
    """They filled a disk: each build left a copy of the model's weights in the cache."""
    source, cache = tmp_path / "weights.S", tmp_path / "cache"
    (tmp_path / "weights").write_bytes(bytes(1 << 20))
    source.write_text(format_weights_source(tmp_path / "weights"))
    Toolchain(X86_64, cache).compile_source(source, tmp_path / "weights.o")
    assert (tmp_path / "weights.o").stat().st_size > 1 << 20
    assert sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) < 1 << 16
    assert {path.name for path in tmp_path.iterdir()} == {"weights", "weights.S", "weights.o", "cache"}


class _Together(Toolchain):
    """Compiles as it should, once two files are at it."""

    met = threading.Barrier(2, timeout=60)

    def compile(self, source: Path, output: Path, **options: Any) -> None:
        if source.stem in ("convolution", "dot"):
            self.met.wait()
        super().compile_source(source, output, **options)


def test_files_are_compiled_side_by_side_and_linked_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = emit_sources(EVERY_STEP, SPEC, X86_64, tmp_path)
    monkeypatch.setattr("builder.compiler.link.shared_library.choose_job_count", lambda: 2)
    objects = compile_objects(sources, _Together(X86_64, CACHE), tmp_path)
    assert not _Together.met.broken
    monkeypatch.setattr("builder.compiler.link.shared_library.choose_job_count", lambda: 1)
    assert compile_objects(sources, Toolchain(X86_64, CACHE), tmp_path) == objects
    assert all(path.is_file() for path in objects)
    assert not list(tmp_path.glob("*_tables.c"))


def test_a_file_that_does_not_compile_is_the_reason(tmp_path: Path) -> None:
    sources = emit_sources(EVERY_STEP, SPEC, X86_64, tmp_path)
    sources.programs[0].write_text("no C")
    with pytest.raises(LinkError, match=r"the C compiler failed on program\.c"):
        compile_objects(sources, Toolchain(X86_64, CACHE), tmp_path)


def test_no_python_starts_before_the_compiler(tmp_path: Path) -> None:
    """It would take as long as the compiler, where that has the object already."""
    source = tmp_path / "empty.c"
    source.touch()
    started: list[str] = []
    sys.addaudithook(lambda name, given: started.append(str(given[0])) if name == "subprocess.Popen" else None)
    Toolchain(X86_64, CACHE).compile_source(source, tmp_path / "empty.o")
    assert [Path(program).name for program in started] == ["zig"]


def test_return_addresses_are_signed_on_arm64(source: Path) -> None:
    output = source.with_suffix(".o")
    Toolchain(ARM64, CACHE).compile_source(source, output)
    assert (0xD503233F).to_bytes(4, "little") in output.read_bytes()  # paciasp
