"""Build ``<model>_test`` and ``<model>_benchmark`` into a bundle, and run them there."""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from builder.cache import digest
from builder.errors import UsageError, VerifyError
from builder.importers.graph import FrozenGraph
from builder.link.toolchain import Toolchain, zig_version
from builder.pack.bundle import LIBRARY, bundle_suffix
from builder.pipeline import import_graph, run_stage
from builder.progress import Progress
from builder.project import Project
from builder.selftest.cases import write_cases
from builder.spec import ModelSpec, to_json
from builder.verify.compare import open_golden
from builder.verify.machine import INCLUDE, LOADER, Machine, machine_for

SOURCES = Path(__file__).parent
KINDS = ("test", "benchmark")
TIMEOUT = 1800
"""Seconds after which a program that does not end is given up."""


@dataclass(frozen=True)
class Programs:
    """The two programs in the bundle's folder, what they said when they were run, and on what."""

    test: Path
    benchmark: Path
    machine: Machine
    said: str


def selftest(spec: ModelSpec, project: Project, progress: Progress, target: str) -> Programs:
    """Build both programs for the bundle of ``spec`` and ``target``, and run them where something here can.

    Raises UsageError where there is no bundle, VerifyError when the test fails.
    """
    suffix = bundle_suffix(target)
    bundle = project.dist / f"{spec.name}{suffix}"
    if not (bundle / "layer" / LIBRARY).is_file():
        again = f"make bundle MODEL={spec.name}{' TARGET=' + target if suffix else ''}"
        raise UsageError(f"there is no bundle of {spec.name} for {target}: run `{again}` first.")
    if spec.weight_types != {"float32"}:
        raise UsageError(
            f"{spec.name} has rounded weights ([weights] type, or [[layers]]), and the programs would compare it with "
            "TensorFlow's answers to the weights as they were. `coldforge accuracy` says what rounding costs."
        )
    _, graph = import_graph(spec, project, progress)
    folder = run_stage(
        spec,
        project,
        progress,
        "selftest",
        f"the test and the benchmark program for {target}",
        digest(graph.golden_path, graph.ports_path, to_json(spec), target, zig_version()),
        functools.partial(build_programs, spec, graph, target, project.cache),
        suffix,
    )
    machine = machine_for(target, project.cache)
    placed = {}
    for kind in KINDS:
        placed[kind] = bundle / f"{spec.name}_{kind}"
        placed[kind].unlink(missing_ok=True)  # it may be running
        shutil.copyfile(folder / kind, placed[kind])
        placed[kind].chmod(0o755)
    said = ""
    if not machine.missing:
        with progress.stage("run", f"both programs, on {machine.name}"):
            said = run_program(placed["test"], machine) + run_program(placed["benchmark"], machine, "--seconds", "1")
    return Programs(placed["test"], placed["benchmark"], machine, said)


def build_programs(spec: ModelSpec, graph: FrozenGraph, target: str, cache: Path, folder: Path) -> None:
    """Write ``test`` and ``benchmark`` into ``folder``. Raises LinkError, or VerifyError for unfit golden answers."""
    with open_golden(graph, spec) as golden:
        cases = write_cases(golden, spec.name, folder)
    toolchain = Toolchain(target, cache / "zig")
    for kind in KINDS:
        toolchain.program([cases, SOURCES / f"{kind}.c"], folder / kind, [folder, SOURCES, LOADER.parent, INCLUDE])


def run_program(program: Path, machine: Machine, *arguments: str) -> str:
    """What ``program`` prints. Raises VerifyError with that when it fails."""
    command = [*machine.emulator, str(program), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise VerifyError(f"{program.name} did not end in {TIMEOUT} s.") from error
    if done.returncode:
        raise VerifyError(
            f"{program.name} failed (exit code {done.returncode}) on {machine.name}:\n{done.stdout}{done.stderr}"
            "If the model changed since its bundle was made, make the bundle again."
        )
    return done.stdout
