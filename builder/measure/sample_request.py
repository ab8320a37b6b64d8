"""A request to try a bundle with: an image, or zeros for the inputs of a model that takes more than an image."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.base.commands import choose_command
from builder.base.escape import json_line, quote_shell
from builder.base.project import HOME

TEXT = "How long does it take to get there by train?"
"""Text that is sent where a person gives none."""

PICTURE = HOME / "builder" / "importers" / "samples" / "photographs" / "face.jpg"
"""Image that is sent where a person names none."""


def format_try_command(models: Sequence[str], described: Mapping[str, Any], folder: Path = Path()) -> str:
    """Return lines that name the command for a bundle of ``models``; ``described``: the first one's model.json.

    ``folder``: the project's, as -C named it.
    """
    names = quote_shell(" ".join(models))
    options = ["-C", str(folder)] if folder != Path() else []
    words = shlex.join(["coldforge", *options, "invoke", *(model for model in models if model != ".")])
    command = f"try it: {choose_command(f'make invoke MODEL={names}', words)}"
    tensors = tensor_feeds(described)
    if not tensors and (described.get("text") or takes_text(described)):
        return f'{command}\n  It sends a text. {choose_command("TEXT=", "--text ")}"..." sends your own.'
    if not tensors and not described.get("strings"):
        return f"{command}\n  It sends a photograph. {choose_command('IMAGE=', '--image ')}FILE sends your own."
    named = [(feed["name"], feed["dtype"], feed["shape"]) for feed in tensors]
    named += [(text["name"], "strings", text["shape"]) for text in described.get("strings", [])]
    shapes = ", ".join(f"{json_line(name)}: <{dtype} {shape}>" for name, dtype, shape in named)
    picture = '"image": "<base64>", ' if described["image"] else ""
    option = choose_command("INPUTS=FILE", "--inputs FILE")
    return f'{command}\n  It sends zeros. {option} sends your own request: {{{picture}"inputs": {{{shapes}}}}}'


def tensor_feeds(described: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the feeds of a model.json that take tensors: all but those of images, text and strings."""
    used = {feed for text in described.get("strings", []) for feed in text["feeds"]}
    tensors = (
        used | {described["image"]["feed"]} if described["image"] else used | {*(described.get("text") or {}).values()}
    )
    return [feed for feed in described["feeds"] if feed["name"] not in tensors]


def make_zero_inputs(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's ``inputs`` for each feed that takes a tensor; empty where there is no such feed."""
    feeds = tensor_feeds(described)
    raw = {feed["name"]: {"b64": base64.b64encode(bytes(feed["bytes"])).decode()} for feed in feeds}
    raw |= {
        text["name"]: _make_empty_strings(text["shape"])
        for text in described.get("strings", [])
        if not takes_text(described)
    }
    return {"inputs": raw} if raw else {}


def takes_text(described: Mapping[str, Any]) -> bool:
    """Return whether a text alone is enough for a model of strings."""
    strings = described.get("strings", [])
    return len(strings) == 1 and math.prod(strings[0]["shape"][1:]) == 1 and not tensor_feeds(described)


def _make_empty_strings(shape: Sequence[int]) -> Any:
    return [_make_empty_strings(shape[1:]) for _ in range(shape[0])] if shape else ""
