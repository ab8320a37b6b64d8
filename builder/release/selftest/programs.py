"""``<model>_test`` and ``<model>_benchmark``, built into a bundle and run there."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import VerifyError
from builder.base.files import replace_file
from builder.base.targets import Target
from builder.compiler.link.toolchain import Toolchain, zig_version
from builder.config import ModelSpec, to_json
from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle, find_bundle
from builder.pipeline.compile_graph import make_compiler
from builder.pipeline.import_model import import_variants
from builder.pipeline.lower_program import emit_variants, list_attempts
from builder.pipeline.resolve_options import resolve_spec
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.verify_library import load_roundings
from builder.pipeline.workspace import Workspace
from builder.release.selftest.cases import write_cases
from builder.verify.expected_answers import Rounding, open_expected
from builder.verify.target_runner import INCLUDE, LOADER, Machine, prepare_machine

SOURCES = Path(__file__).parent
KINDS = ("test", "benchmark")
TIMEOUT = 1800
"""Seconds after which a program that does not end is stopped."""


@dataclass(frozen=True)
class SelftestPrograms:
    """The two programs in the bundle's folder, their output, and the machine that ran them."""

    test: Path
    benchmark: Path
    machine: Machine
    said: str


def build_selftest(ws: Workspace) -> SelftestPrograms:
    """Build both programs for the workspace's bundle, and run them where this machine can.

    Raises UsageError where there is no bundle, VerifyError when the test fails.
    """
    ws = complete_workspace(ws)
    spec, target = ws.spec, ws.target
    bundle = find_bundle(ws.project.dist, spec.name, target)
    graph, rounding = import_variants(ws.alone).graph, _find_rounding(ws, bundle)
    golden_files = [rounding.golden] if rounding and rounding.golden else []
    folder = ws.build_stage(
        "selftest",
        f"the test and the benchmark program for {target.name}",
        compute_digest(graph.golden_path, *golden_files, graph.ports_path, to_json(spec), target.name, zig_version()),
        functools.partial(build_programs, spec, graph, target, ws.cache, rounding=rounding),
        target.suffix,
    )
    machine = prepare_machine(target, ws.cache)
    placed = {}
    for kind in KINDS:
        placed[kind] = bundle.folder / f"{spec.name}_{kind}"
        with replace_file(placed[kind]) as fresh:  # The program of an earlier build may be running.
            shutil.copyfile(folder / kind, fresh)
            fresh.chmod(0o755)
    output = ""
    if not machine.missing:
        with ws.progress.show_stage("run", f"both programs, on {machine.name}"):
            output = run_program(placed["test"], machine) + run_program(placed["benchmark"], machine, "--seconds", "1")
    return SelftestPrograms(placed["test"], placed["benchmark"], machine, output)


def _find_rounding(ws: Workspace, bundle: Bundle) -> Rounding | None:
    """Return how the weights in ``bundle`` were rounded; of several variants, in the first."""
    layers = json.loads(bundle.manifest.read_text(encoding="utf-8"))["lowering"]["weights"]["layers"]
    if all(layer["type"] == "float32" for layer in layers):
        return None
    compiled, settled = make_compiler(ws, import_variants(ws)), resolve_spec(ws)
    ws = ws.for_spec(settled.spec)
    attempt = list_attempts(ws.spec)[0]  # Every variant has the same rounded weights.
    emitted = emit_variants(ws, compiled(attempt.in_parts), settled, attempt)
    return load_roundings(ws, emitted.compiled, emitted.folder)[0]


def build_programs(
    spec: ModelSpec, graph: FrozenGraph, target: Target, cache: Path, folder: Path, rounding: Rounding | None = None
) -> None:
    """Write ``test`` and ``benchmark`` into ``folder``; ``rounding``: the rounding of the library's weights.

    Raises LinkError, or VerifyError for unfit golden answers.
    """
    with open_expected(graph, spec, rounding) as expected:
        cases = write_cases(expected, spec.name, folder)
    toolchain = Toolchain(target, cache / "zig")
    for kind in KINDS:
        toolchain.compile_program(
            [cases, SOURCES / f"{kind}.c"], folder / kind, [folder, SOURCES, LOADER.parent, INCLUDE]
        )


def run_program(program: Path, machine: Machine, *arguments: str) -> str:
    """Run ``program`` and return what it prints. Raises VerifyError with the output when it fails."""
    command = [*machine.emulator, str(program), *arguments]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise VerifyError(f"{program.name} did not end in {TIMEOUT} s.") from error
    if run.returncode:
        raise VerifyError(
            f"{program.name} failed (exit code {run.returncode}) on {machine.name}:\n{run.stdout}{run.stderr}"
            "If the model changed since its bundle was made, make the bundle again."
        )
    return run.stdout
