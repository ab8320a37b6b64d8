"""Complete: what a model says of its strings is settings of its spec, before anything is imported by it.

A build of a model without strings has no such stage.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from builder.base.cache import compute_digest
from builder.base.errors import SandboxError, SpecError
from builder.base.escape import describe_error, escape_invisible
from builder.compiler.xla.descriptors import read_tensorflow_version
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
"""Bytes of each."""


def complete_workspace(ws: Workspace) -> Workspace:
    """``ws`` with a spec that has settings for the pictures and labels of a model that takes or gives strings, and the
    tokenizer that comes with a model.

    Of any other model, ``ws`` itself. Raises ImportModelError where the function cannot do what the model does with
    strings, and as ``locate`` and the sandbox do.
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
    """The spec of the signature of ``variant`` with what was found in it, which goes to the screen."""
    own, of = ws.spec.of_signature(variant.signature), f", of {variant.of}" if variant.of else ""
    folder = ws.build_stage(
        "strings",
        f"what the model does with strings, as settings{of}",
        compute_digest(to_json(own), model, read_tensorflow_version()),
        functools.partial(_find_settings_into, ws.for_spec(own), model),
        variant.suffix,
    )
    spec, lines = load_string_settings(folder, own)
    for line in lines:
        ws.progress.show_once(f"  {line}{of}")
    return spec


def load_string_settings(folder: Path, spec: ModelSpec) -> tuple[ModelSpec, tuple[str, ...]]:
    """``spec`` with what was found, and that in words. Raises SandboxError for what no job should have left.

    It comes from a process that read the model: so it is read as a model.toml, by the same rules.
    """
    try:
        for name in (_FOUND, _LINES):
            if (folder / name).stat().st_size > _LARGEST:
                raise ValueError(name)
        found = read_spec(folder / _FOUND)
        lines = tuple(escape_invisible(str(line)) for line in json.loads((folder / _LINES).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError, SpecError) as error:
        raise SandboxError(
            f"The process that read the model left settings that are not valid: {describe_error(error)}"
        ) from error
    return replace(spec, image=found.image, fetches=found.fetches, outputs=found.outputs), lines


def _find_settings_into(ws: Workspace, model: Path, folder: Path) -> None:
    reads = [model, ws.project.function]  # pictures are read as the function reads them
    ws.run_sandboxed(_find_settings, ws.spec.alone, model, folder=folder, reads=reads, failed=make_import_error)


def _find_settings(spec: ModelSpec, model: Path) -> None:
    write_string_settings(spec, model, Path.cwd())


def write_string_settings(spec: ModelSpec, model: Path, folder: Path) -> Any:
    """Write the completed spec, and what was found in words, into ``folder``."""
    from builder.importers.images.complete_config import complete_spec
    from builder.pipeline.import_model import check_preflight

    try:
        found = complete_spec(open_model(spec, model), spec)
    except UnsupportedOpsError as error:
        require_buildable(check_preflight(spec, error.ops))
        raise
    own = found.spec
    said = ModelSpec(
        folder / "model.toml", own.name, own.version, Source("saved_model", folder / "model"), own.batch,
        image=own.image, fetches=own.fetches, outputs=own.outputs,
    )  # fmt: skip
    (folder / _FOUND).write_text(render_spec(said), encoding="utf-8")
    (folder / _LINES).write_text(json.dumps(found.lines), encoding="utf-8")
    return found
