"""Conversion: a model of another framework becomes a StableHLO program, and that framework answers the golden inputs.

Both happen in processes of the framework's own environment, in the sandbox.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import ImportModelError
from builder.base.project import HOME
from builder.base.sandbox.sandbox_client import describe_crash
from builder.config import ModelSpec, Variant, to_json
from builder.importers.frameworks import framework_jobs, framework_model
from builder.importers.frameworks.framework_environment import FRAMEWORKS, Framework, framework_sandbox
from builder.importers.graph import FrozenGraph
from builder.importers.onnx_data import list_source_files
from builder.pipeline.compute_answers import make_answers_error
from builder.pipeline.workspace import Workspace
from builder.verify import framework_answers as own


def find_framework(spec: ModelSpec) -> Framework | None:
    """Return the framework that reads the spec's model; None if TensorFlow does."""
    return FRAMEWORKS.get(spec.source.format)


def convert_variants(ws: Workspace, variants: Sequence[Variant], model: Path, words: str = "") -> list[Path]:
    """Return the input of the import stage for each of ``variants``: the folder with its program, made of ``model``.

    It is ``model`` itself where TensorFlow reads that. ``words`` name the variants on the screen, where they are not
    all of the spec. Raises ImportModelError, EnvironmentSetupError.
    """
    framework = find_framework(ws.spec)
    if framework is None:
        return [model] * len(variants)
    specs = [ws.spec.of_variant(variant) for variant in variants]
    folder = ws.build_stage(
        "convert",
        f"{framework.name}'s own export to a StableHLO program{words}",
        compute_digest(
            *map(to_json, specs), *list_source_files(ws.spec.source, model), HOME / "requirements" / framework.lock
        ),
        functools.partial(convert_programs, ws, specs, model),
        variants[0].suffix,
    )
    return [folder / str(number) for number in range(len(specs))]


def convert_programs(ws: Workspace, specs: Sequence[ModelSpec], model: Path, folder: Path) -> None:
    """Write the program of ``model`` for each of ``specs`` into ``folder``/0, 1, ...

    Raises ImportModelError, EnvironmentSetupError.
    """
    reads = list_source_files(ws.spec.source, model)
    _for_framework(ws, ws.spec).run_sandboxed(
        framework_jobs.convert_models, tuple(specs), model, folder=folder, reads=reads, failed=make_import_error
    )


def answer_by_framework(ws: Workspace, spec: ModelSpec, model: Path, folder: Path) -> None:
    """Replace the answers in the golden file of the import stage's ``folder`` by the framework's own.

    Raises VerifyError if TensorFlow's run of the program disagrees with them.
    """
    framework = find_framework(spec)
    if framework is None:
        return
    graph = FrozenGraph.load(folder)
    ws.run_sandboxed(own.write_program_inputs, graph, folder, folder=folder, reads=[folder], failed=make_answers_error)
    reads = list_source_files(spec.source, model)
    _for_framework(ws, spec).run_sandboxed(
        framework_jobs.answer_cases, spec, model, folder=folder, reads=reads, failed=make_import_error
    )
    arguments = spec, graph, folder, framework.name
    ws.run_sandboxed(own.adopt_answers, *arguments, folder=folder, reads=[folder], failed=make_answers_error)
    for name in (framework_model.ASKED, framework_model.ANSWERED):
        (folder / name).unlink()


def make_import_error(code: int, output: str) -> ImportModelError:
    """Return the error for a process that ended while it read a model."""
    return ImportModelError(describe_crash(code, output, "Reading the model"))


def _for_framework(ws: Workspace, spec: ModelSpec) -> Workspace:
    return replace(ws, sandbox=framework_sandbox(ws.sandbox, spec.source.format, ws.progress.show_lines))
