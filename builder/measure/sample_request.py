"""What a bundle can be tried with: a picture, or zeros for the inputs of a model that takes more than a picture."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.base.commands import choose_command
from builder.base.escape import json_line, quote_shell

TEXT = "How long does it take to get there by train?"
"""The text that is sent where none is."""

PICTURE = Path(__file__).parents[1] / "verify" / "photographs" / "face.jpg"
"""The picture that is sent where none is named."""


def format_try_command(models: Sequence[str], described: Mapping[str, Any], folder: Path = Path()) -> str:
    """Lines that name the command for a bundle of ``models``, the first of which has the model.json ``described``.

    ``folder``: the project's, as -C named it.
    """
    given = quote_shell(" ".join(models))
    place = ["-C", str(folder)] if folder != Path() else []
    words = shlex.join(["coldforge", *place, "invoke", *(model for model in models if model != ".")])
    command = f"try it: {choose_command(f'make invoke MODEL={given}', words)}"
    tensors = tensor_feeds(described)
    if not tensors and (described.get("text") or takes_text(described)):
        return f'{command}\n  It sends a text. {choose_command("TEXT=", "--text ")}"..." sends your own.'
    if not tensors and not described.get("strings"):
        return f"{command}\n  It sends a photograph. {choose_command('IMAGE=', '--image ')}FILE sends your own."
    named = [(feed["name"], feed["dtype"], feed["shape"]) for feed in tensors]
    named += [(one["name"], "strings", one["shape"]) for one in described.get("strings", [])]
    shapes = ", ".join(f"{json_line(name)}: <{dtype} {shape}>" for name, dtype, shape in named)
    picture = '"image": "<base64>", ' if described["image"] else ""
    option = choose_command("INPUTS=FILE", "--inputs FILE")
    return f'{command}\n  It sends zeros. {option} sends your own request: {{{picture}"inputs": {{{shapes}}}}}'


def tensor_feeds(described: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The feeds of a model.json that take tensors: all but those of pictures, text and strings."""
    made = {feed for one in described.get("strings", []) for feed in one["feeds"]}
    others = (
        made | {described["image"]["feed"]} if described["image"] else made | {*(described.get("text") or {}).values()}
    )
    return [feed for feed in described["feeds"] if feed["name"] not in others]


def make_zero_inputs(described: Mapping[str, Any]) -> dict[str, Any]:
    """A request's ``inputs`` for each feed that takes a tensor; none where there is no such feed."""
    feeds = tensor_feeds(described)
    raw = {feed["name"]: {"b64": base64.b64encode(bytes(feed["bytes"])).decode()} for feed in feeds}
    raw |= {
        one["name"]: _make_empty_strings(one["shape"])
        for one in described.get("strings", [])
        if not takes_text(described)
    }
    return {"inputs": raw} if raw else {}


def takes_text(described: Mapping[str, Any]) -> bool:
    """Whether a text alone is enough for a model of strings."""
    strings = described.get("strings", [])
    return len(strings) == 1 and math.prod(strings[0]["shape"][1:]) == 1 and not tensor_feeds(described)


def _make_empty_strings(shape: Sequence[int]) -> Any:
    return [_make_empty_strings(shape[1:]) for _ in range(shape[0])] if shape else ""
