"""What a bundle can be tried with: a picture, or zeros for the inputs of a model that takes more than a picture."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.base.commands import either
from builder.base.escape import json_line, shell

TEXT = "How long does it take to get there by train?"
"""The text that is sent where none is."""

PICTURE = Path(__file__).parents[1] / "verify" / "photographs" / "face.jpg"
"""The picture that is sent where none is named."""


def how_to_try(models: Sequence[str], described: Mapping[str, Any], folder: Path = Path()) -> str:
    """Lines that name the command for a bundle of ``models``, the first of which has the model.json ``described``.

    ``folder``: the project's, as -C named it.
    """
    given = shell(" ".join(models))
    place = ["-C", str(folder)] if folder != Path() else []
    words = shlex.join(["coldforge", *place, "invoke", *(model for model in models if model != ".")])
    command = f"try it: {either(f'make invoke MODEL={given}', words)}"
    tensors = tensor_feeds(described)
    if not tensors and (described.get("text") or takes_text(described)):
        return f'{command}\n  It sends a text. {either("TEXT=", "--text ")}"..." sends your own.'
    if not tensors and not described.get("strings"):
        return f"{command}\n  It sends a photograph. {either('IMAGE=', '--image ')}FILE sends your own."
    named = [(feed["name"], feed["dtype"], feed["shape"]) for feed in tensors]
    named += [(one["name"], "strings", one["shape"]) for one in described.get("strings", [])]
    shapes = ", ".join(f"{json_line(name)}: <{dtype} {shape}>" for name, dtype, shape in named)
    picture = '"image": "<base64>", ' if described["image"] else ""
    option = either("INPUTS=FILE", "--inputs FILE")
    return f'{command}\n  It sends zeros. {option} sends your own request: {{{picture}"inputs": {{{shapes}}}}}'


def tensor_feeds(described: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The feeds of a model.json that take tensors: all but those of pictures, text and strings."""
    made = {feed for one in described.get("strings", []) for feed in one["feeds"]}
    others = (
        made | {described["image"]["feed"]} if described["image"] else made | {*(described.get("text") or {}).values()}
    )
    return [feed for feed in described["feeds"] if feed["name"] not in others]


def zeros(described: Mapping[str, Any]) -> dict[str, Any]:
    """A request's ``inputs`` for each feed that takes a tensor; none where there is no such feed."""
    feeds = tensor_feeds(described)
    raw = {feed["name"]: {"b64": base64.b64encode(bytes(feed["bytes"])).decode()} for feed in feeds}
    raw |= {one["name"]: _empty(one["shape"]) for one in described.get("strings", []) if not takes_text(described)}
    return {"inputs": raw} if raw else {}


def takes_text(described: Mapping[str, Any]) -> bool:
    """Whether a text alone is enough for a model of strings."""
    strings = described.get("strings", [])
    return len(strings) == 1 and math.prod(strings[0]["shape"][1:]) == 1 and not tensor_feeds(described)


def _empty(shape: Sequence[int]) -> Any:
    return [_empty(shape[1:]) for _ in range(shape[0])] if shape else ""
