"""Completion of a spec by the settings that its model has for strings, before the import.

A build of a model without strings has no such stage.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import SandboxError, SpecError
from builder.base.escape import describe_error, escape_invisible
from builder.compiler.xla.compilation_result import read_tensorflow_version
from builder.config import ModelSpec, Source, Variant, read_spec, render_spec, to_json
from builder.importers.allowed_ops import UnsupportedOpsError
from builder.importers.model_import import open_model
from builder.importers.signatures import has_strings
from builder.pipeline.convert_framework import make_import_error
from builder.pipeline.preflight import require_buildable
from builder.pipeline.workspace import Workspace
from builder.sources import locate_model, locate_text_file

_FOUND, _LINES = "found.toml", "lines.json"
_LARGEST = 16 << 20
"""Limit in bytes of each file."""


def complete_workspace(ws: Workspace) -> Workspace:
    """Complete the spec by settings for images and labels of a model with strings, and by a model's own tokenizer.

    For any other model, return ``ws`` itself. Raises ImportModelError if the function cannot do the model's work with
    strings, and as ``locate_model`` and the sandbox do.
    """
    ws = ws.for_spec(locate_text_file(ws.spec, ws.cache, ws.progress.show_transfer))
    if ws.spec.source.format != "saved_model":
        return ws
    model = locate_model(ws.spec, ws.cache, ws.progress.show_transfer)
    if not has_strings(model):
        return ws
    spec = _complete_signature(ws, model, Variant(ws.spec.batch))
    further = []
    firsts = {variant.signature: variant for variant in reversed(ws.spec.variants)}
    for number, signature in enumerate(ws.spec.signatures, 1):
        own = _complete_signature(ws, model, firsts[number])
        further.append(replace(signature, image=own.image, fetches=own.fetches, outputs=own.outputs))
    return ws.for_spec(replace(spec, signatures=tuple(further)))


def _complete_signature(ws: Workspace, model: Path, variant: Variant) -> ModelSpec:
    """Return the spec of the signature of ``variant``, completed; print the settings that were found."""
    own, of = ws.spec.of_signature(variant.signature), f", of {variant.of}" if variant.of else ""
    reads = [model, ws.project.function]  # the import decodes images with the function's own code
    folder = ws.build_stage(
        "strings",
        f"what the model does with strings, as settings{of}",
        compute_digest(to_json(own), model, read_tensorflow_version()),
        lambda folder: ws.run_sandboxed(
            write_string_settings, own.alone, model, folder, folder=folder, reads=reads, failed=make_import_error
        ),
        variant.suffix,
    )
    spec, lines = load_string_settings(folder, own)
    for line in lines:
        ws.progress.show_once(f"  {line}{of}")
    return spec


def load_string_settings(folder: Path, spec: ModelSpec) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the completed ``spec``, and the findings in words. Raises SandboxError for files that no job should leave.

    They come from a process that read the model, so they are read as a model.toml, by the same rules.
    """
    try:
        for name in (_FOUND, _LINES):
            if (folder / name).stat().st_size > _LARGEST:
                raise ValueError(name)
        settings = read_spec(folder / _FOUND)
        lines = tuple(escape_invisible(str(line)) for line in json.loads((folder / _LINES).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError, SpecError) as error:
        raise SandboxError(
            f"The process that read the model left settings that are not valid: {describe_error(error)}"
        ) from error
    return replace(spec, image=settings.image, fetches=settings.fetches, outputs=settings.outputs), lines


def write_string_settings(spec: ModelSpec, model: Path, folder: Path) -> None:
    """Write the completed spec, and the findings in words, into ``folder``."""
    from builder.importers.images.complete_config import complete_spec
    from builder.pipeline.import_model import check_preflight

    try:
        completed = complete_spec(open_model(spec, model), spec)
    except UnsupportedOpsError as error:
        require_buildable(check_preflight(spec, error.ops))
        raise
    own = completed.spec
    settings = ModelSpec(
        folder / "model.toml", own.name, own.version, Source("saved_model", folder / "model"), own.batch,
        image=own.image, fetches=own.fetches, outputs=own.outputs,
    )  # fmt: skip
    (folder / _FOUND).write_text(render_spec(settings), encoding="utf-8")
    (folder / _LINES).write_text(json.dumps(completed.lines), encoding="utf-8")
