"""Build ``<model>_test`` and ``<model>_benchmark`` into a bundle, and run them there."""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from builder.cache import digest
from builder.errors import VerifyError
from builder.importers.graph import FrozenGraph
from builder.library.machine import INCLUDE, LOADER, Machine, machine_for
from builder.link.toolchain import Toolchain, zig_version
from builder.pack.bundle import find_bundle
from builder.pipeline import import_graph, rounding_of_bundle, run_stage
from builder.progress import Progress
from builder.project import Project
from builder.selftest.cases import write_cases
from builder.spec import ModelSpec, to_json
from builder.targets import Target
from builder.verify.expected import open_expected
from builder.verify.rounding import Rounding

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


def selftest(spec: ModelSpec, project: Project, progress: Progress, target: Target) -> Programs:
    """Build both programs for the bundle of ``spec`` and ``target``, and run them where something here can.

    Raises UsageError where there is no bundle, VerifyError when the test fails.
    """
    suffix = target.suffix
    bundle = find_bundle(project.dist, spec.name, target)
    _, graph = import_graph(spec, project, progress)
    rounding = rounding_of_bundle(bundle, spec, project, progress, target)
    same = [rounding.golden] if rounding and rounding.golden else []
    folder = run_stage(
        spec,
        project,
        progress,
        "selftest",
        f"the test and the benchmark program for {target.name}",
        digest(graph.golden_path, *same, graph.ports_path, to_json(spec), target.name, zig_version()),
        functools.partial(build_programs, spec, graph, target, project.cache, rounding=rounding),
        suffix,
    )
    machine = machine_for(target, project.cache)
    placed = {}
    for kind in KINDS:
        placed[kind] = bundle.folder / f"{spec.name}_{kind}"
        placed[kind].unlink(missing_ok=True)  # it may be running
        shutil.copyfile(folder / kind, placed[kind])
        placed[kind].chmod(0o755)
    said = ""
    if not machine.missing:
        with progress.stage("run", f"both programs, on {machine.name}"):
            said = run_program(placed["test"], machine) + run_program(placed["benchmark"], machine, "--seconds", "1")
    return Programs(placed["test"], placed["benchmark"], machine, said)


def build_programs(
    spec: ModelSpec, graph: FrozenGraph, target: Target, cache: Path, folder: Path, rounding: Rounding | None = None
) -> None:
    """Write ``test`` and ``benchmark`` into ``folder``; ``rounding``: of the library's weights.

    Raises LinkError, or VerifyError for unfit golden answers.
    """
    with open_expected(graph, spec, rounding) as expected:
        cases = write_cases(expected, spec.name, folder)
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
