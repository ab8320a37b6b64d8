"""Convert: a model of another framework becomes a StableHLO program, and that framework answers the golden inputs.

Both happen in processes of the framework's own environment, in the sandbox.
"""

from __future__ import annotations

import functools
from pathlib import Path

from builder.base.cache import digest
from builder.base.errors import ImportModelError
from builder.base.project import HOME
from builder.base.sandbox.sandbox_client import crashed
from builder.config import ModelSpec, Variant, to_json
from builder.importers.frameworks import framework_cases, framework_jobs
from builder.importers.frameworks.framework_environment import FRAMEWORKS, Framework, framework_sandbox
from builder.importers.graph import FrozenGraph
from builder.pipeline.compute_answers import failed
from builder.pipeline.workspace import Workspace
from builder.verify import framework_answers as own


def framework_of(spec: ModelSpec) -> Framework | None:
    """The framework that reads the spec's model; None where TensorFlow does."""
    return FRAMEWORKS.get(spec.source.format)


def converted(ws: Workspace, spec: ModelSpec, model: Path, variant: Variant, named: str) -> Path:
    """What the import stage reads: ``model``, or the folder with the program that was made of it for ``spec``.

    ``named``: what tells a further variant's line on the screen. Raises ImportModelError, EnvironmentSetupError.
    """
    framework = framework_of(spec)
    if framework is None:
        return model
    return ws.stage(
        "convert",
        f"{framework.name}'s own export to a StableHLO program{named}",
        digest(to_json(spec), model, HOME / "requirements" / framework.lock),
        functools.partial(convert_into, ws, spec, model),
        variant.suffix,
    )


def convert_into(ws: Workspace, spec: ModelSpec, model: Path, folder: Path) -> None:
    """Write the program of ``model`` into ``folder``. Raises ImportModelError, EnvironmentSetupError."""
    _in_framework(ws, spec).sandboxed(
        framework_jobs.convert, spec, model, folder=folder, reads=[model], failed=unreadable
    )


def answer(ws: Workspace, spec: ModelSpec, model: Path, folder: Path) -> None:
    """Have the golden file of the import stage's ``folder`` hold the framework's own answers.

    Raises VerifyError where TensorFlow's run of the program disagrees with them.
    """
    framework = framework_of(spec)
    if framework is None:
        return
    ws.sandboxed(_ask, folder, folder=folder, reads=[folder], failed=failed)
    asked = _in_framework(ws, spec)
    asked.sandboxed(framework_jobs.answer, spec.source, model, folder=folder, reads=[model], failed=unreadable)
    ws.sandboxed(_adopt, spec, folder, framework.name, folder=folder, reads=[folder], failed=failed)
    for name in (framework_cases.ASKED, framework_cases.ANSWERED):
        (folder / name).unlink()


def unreadable(code: int, said: str) -> ImportModelError:
    """The error for a process that ended while it read a model."""
    return ImportModelError(crashed(code, said, "Reading the model"))


def _in_framework(ws: Workspace, spec: ModelSpec) -> Workspace:
    return ws.in_sandbox(framework_sandbox(ws.sandbox, spec.source.format, ws.progress.say))


def _ask(folder: Path) -> None:
    own.ask(FrozenGraph.load(folder), folder)


def _adopt(spec: ModelSpec, folder: Path, framework: str) -> None:
    own.adopt(spec, FrozenGraph.load(folder), folder, framework)
