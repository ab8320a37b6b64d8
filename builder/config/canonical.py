"""Canonical text of a spec, for cache keys: the same on every machine and after every move of the project."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from builder.base.records import dump_record
from builder.config.model_spec import ModelSpec
from builder.config.schema import WITH_MODEL


def to_json(spec: ModelSpec) -> str:
    """Return canonical JSON of all keys of ``spec`` that affect the library; paths are relative to its folder."""
    data = dump_record(replace(spec, packaging="zip"))  # in a layer or an image, the library is the same
    folder = data.pop("path").parent
    if spec.source.address:
        data["source"]["address"] = spec.source.address.shown  # a presigned URL changes each day
    if spec.text:
        data["text"].pop("package", None)
        if from_model := data["text"].pop("inside", None):  # as in model.toml, wherever the file was found
            data["text"][from_model[0]] = WITH_MODEL + from_model[1]
    return json.dumps(data, sort_keys=True, separators=(",", ":"), default=lambda path: make_relative(path, folder))


def make_relative(path: Path, folder: Path) -> str:
    """Return ``path`` as model.toml writes it: from ``folder``, with ``/`` between its parts."""
    return Path(os.path.relpath(path, folder)).as_posix()
