"""One text for one spec, for cache keys: the same on every machine and after every move of the project."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from builder.spec.model import ModelSpec, OutputSpec

_LATER = {key: getattr(OutputSpec, key) for key in (
    "format", "dimensions", "normalise", "scores", "classes", "count", "box_format", "box_units", "threshold",
)}  # fmt: skip
"""Keys of outputs that came later: where they say nothing, a spec is what it was without them."""


def to_json(spec: ModelSpec) -> str:
    """Canonical JSON of everything that ``spec`` says of the library; paths are relative to its folder."""
    data = asdict(spec)
    del data["packaging"]  # in a layer or an image, the library is the same
    folder = data.pop("path").parent
    for kind in ("audio", "text"):
        if data[kind] is None:
            del data[kind]
    data.get("text", {}).pop("package", None)
    for key in ("tokenizer", "vocabulary"):
        if path := data.get("text", {}).get(key):
            data["text"][key] = relative(path, folder)
    for own in (data, *data["signatures"]):
        for output in own["outputs"]:
            for key in [key for key, usual in _LATER.items() if output[key] == usual]:
                del output[key]
    for key in ("path", "config"):
        if path := data["source"][key]:
            data["source"][key] = relative(path, folder)
    data["source"]["address"] = spec.source.address and spec.source.address.shown  # a presigned URL is another each day
    for section in ("weights", "activations"):
        if images := data[section]["images"]:
            data[section]["images"] = relative(images, folder)
    if samples := data.pop("samples"):
        data["samples"] = relative(samples, folder)
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def relative(path: Path, folder: Path) -> str:
    """``path`` as model.toml writes it: from ``folder``, with ``/`` between its parts."""
    return Path(os.path.relpath(path, folder)).as_posix()
