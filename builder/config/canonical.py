"""Canonical text of a spec, for cache keys: the same on every machine and after every move of the project."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from builder.config.model_spec import WITH_MODEL, ModelSpec, OutputSpec

_LATER = {key: getattr(OutputSpec, key) for key in (
    "format", "dimensions", "normalise", "scores", "classes", "count", "box_format", "box_units", "threshold",
)}  # fmt: skip
"""Newer keys of outputs: at their defaults, they leave the text of older specs unchanged."""


def to_json(spec: ModelSpec) -> str:
    """Return canonical JSON of all keys of ``spec`` that affect the library; paths are relative to its folder."""
    data = asdict(spec)
    del data["packaging"]  # in a layer or an image, the library is the same
    folder = data.pop("path").parent
    for kind in ("audio", "text"):
        if data[kind] is None:
            del data[kind]
    if text := data.get("text"):
        _convert_text(text, folder)
    for further in data["signatures"]:
        if further["image"] is None:
            del further["image"]
    for own in (data, *data["signatures"]):
        for feed in own["feeds"]:
            for key in ("truncate", "nan", "value"):
                if not feed[key]:
                    del feed[key]
        for output in own["outputs"]:
            for key in [key for key, usual in _LATER.items() if output[key] == usual]:
                del output[key]
    for key in ("path", "config", "weights"):
        if path := data["source"][key]:
            data["source"][key] = make_relative(path, folder)
    for key in ("keras", "weights"):
        if data["source"][key] is None:
            del data["source"][key]
    data["source"]["address"] = spec.source.address and spec.source.address.shown  # a presigned URL changes each day
    for section in ("weights", "activations"):
        if images := data[section]["images"]:
            data[section]["images"] = make_relative(images, folder)
    if samples := data.pop("samples"):
        data["samples"] = make_relative(samples, folder)
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _convert_text(text: dict[str, Any], folder: Path) -> None:
    """Restore text keys as in model.toml, wherever the files were found, and leave out unset newer keys."""
    del text["package"]
    for key in ("tokenizer", "vocabulary"):
        if path := text[key]:
            text[key] = make_relative(path, folder)
    if from_model := text.pop("inside"):
        text[from_model[0]] = WITH_MODEL + from_model[1]
    if text["sha256"] is None:
        del text["sha256"]


def make_relative(path: Path, folder: Path) -> str:
    """Return ``path`` as model.toml writes it: from ``folder``, with ``/`` between its parts."""
    return Path(os.path.relpath(path, folder)).as_posix()
