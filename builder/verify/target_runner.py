"""The machines that can run a library of each target: this one, or QEMU's emulation of another processor."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import compute_digest, run_cached
from builder.base.project import RUNTIME
from builder.base.targets import QemuEmulator, Target
from builder.compiler.link.toolchain import Toolchain, zig_version
from builder.verify import library

RUNNER = Path(library.__file__).with_name("runner.c")
LOADER = RUNNER.with_name("library.h")
INCLUDE = RUNTIME / "abi"


@dataclass(frozen=True)
class Machine:
    """A machine that runs a library: this one (``runner`` empty), or the one that the command ``runner`` emulates.

    ``name`` goes into the manifest. ``missing`` explains why no machine here can run it, with advice.
    """

    name: str
    runner: tuple[str, ...] = ()
    missing: str = ""

    @property
    def emulator(self) -> tuple[str, ...]:
        """The command that runs a program of the machine's architecture; empty for this machine's own."""
        return self.runner[:-1]


HERE = Machine("this machine")


def prepare_machine(target: Target, cache: Path) -> Machine:
    """Return the machine that runs a library for ``target`` here; build the runner that it may need in ``cache``.

    Raises LinkError when that fails. If $QEMU_LD_PREFIX is set, it is the folder of the C library.
    """
    if platform.machine().lower() in target.machines:
        return HERE
    emulator = target.emulator
    if emulator is None:
        return Machine("", missing=f"this machine is no {target.name}, and none is emulated; build on one to verify it")
    program, root = find_emulator(emulator)
    install = f"`apt-get install {emulator.packages}` makes up for that, then run the same command again"
    if program is None:
        missing = f"this machine is no {target.name}, and {emulator.programs[0]} is not on PATH; {install}"
        return Machine("", missing=missing)
    if not has_c_library(root):
        return Machine("", missing=f"{program} is here, but no C library for {target.name} in {root}; {install}")
    models = _run_program(program, "-cpu", "help").split()
    cpu = next((cpu for cpu in emulator.cpus if cpu.split(",")[0] in models), emulator.cpus[-1])
    words = _run_program(program, "--version").split()
    version = words[words.index("version") + 1] if "version" in words[:-1] else "of unknown version"
    name = f"{Path(program).name} {version} as {cpu}"
    return Machine(name, (program, "-cpu", cpu, "-L", str(root), str(build_runner(target, cache))))


def find_emulator(emulator: QemuEmulator) -> tuple[str | None, Path]:
    """Return the first of the programs on PATH, and the folder of the target's C library, which need not exist."""
    program = next(filter(None, map(shutil.which, emulator.programs)), None)
    return program, Path(os.environ.get("QEMU_LD_PREFIX") or emulator.root)


def has_c_library(root: Path) -> bool:
    """Return whether the folder ``root`` holds a C library."""
    return (root / "lib").is_dir()


def build_runner(target: Target, cache: Path) -> Path:
    """Build runner.c as a program for ``target``, in ``cache``. Raises LinkError."""
    folder = cache / f"runner-{target.name}"
    key = compute_digest(RUNNER, LOADER, INCLUDE / "model.h", target.name, zig_version())
    toolchain = Toolchain(target, cache / "zig")
    run_cached(folder, key, lambda fresh: toolchain.compile_program([RUNNER], fresh / "runner", [INCLUDE]))
    return folder / "runner"


def _run_program(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
