"""What a model may give, of any bytes, for a picture or a text of any size, as each kind of output answers it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from handler.answer import compute_min_predictions_length, make_predictions
from handler.answers.embedding import FORMATS as VECTORS
from handler.answers.segmentation import FORMATS as MAPS
from handler.budget import RequestLimits
from handler.description import Description, parse_description
from handler.options import AnswerOptions, apply_options
from handler.text import LocatedText
from tests.support import abi_library

KINDS = ("embedding", "detection", "segmentation", "tokens", "label")
FITS = ("stretch", "cover", "contain", "square", "short", "short_rounded", "short_exact", "stretch_exact")
BOXES = ("xyxy", "yxyx", "xywh", "cxcywh")
MOST = 1_500
"""Pixels of a picture's side."""
LENGTH, LABELS = 64, ("O", "B-a", "I-a", "B-b", "b")
HEAD = 8


def look(data: bytes, texts: Any, limits: RequestLimits) -> int:
    """The answer to an item whose fetches hold what follows after eight bytes that choose everything else; how long it
    is. ``texts``: of the function, for ``LENGTH`` tokens. Raises HandlerError.
    """
    kind, how, fit, crop, *sides = data[:HEAD]
    width, height = (1 + (sides[at] << 8 | sides[at + 1]) % MOST for at in (0, 2))
    description = described(KINDS[kind % len(KINDS)], how, fit, crop)
    content = data[HEAD:]
    fetches = []
    for port in description.fetches:
        found = (content * (port.size // max(1, len(content)) + 1))[: port.size].ljust(port.size, b"\0")
        content = content[port.size :] or content
        fetches.append(memoryview(found).cast(port.format))
    sizes = [(width, height)] if how & 64 and description.image else []
    located: Sequence[LocatedText] = ()
    if description.text and how & 64:
        _, located = texts.locate_texts([(data[HEAD:].decode(errors="replace") or " ",)], limits, lambda: 10.0)
    answers = make_predictions(description, fetches, 1, sizes, located)
    told = json.dumps(answers, allow_nan=False)
    assert compute_min_predictions_length(description, 1) <= len(told)
    require_inside(answers[0]["it"], KINDS[kind % len(KINDS)], (width, height) if sizes else (24, 16))
    return len(told)


def require_inside(answer: Any, kind: str, size: tuple[int, int]) -> None:
    """Boxes are in the picture, and every pixel has a class."""
    if kind == "detection":
        for one in answer:
            left, top, right, bottom = one["box"]
            assert 0 <= left < right <= size[0]
            assert 0 <= top < bottom <= size[1]
    if kind == "segmentation":
        assert (answer["width"], answer["height"]) == size
        assert abs(sum(one["share"] for one in answer["classes"]) - 1) < 1e-3
        for one in answer["classes"]:
            assert sum(one.get("rle", {"counts": [size[0] * size[1]]})["counts"]) == size[0] * size[1]


def described(kind: str, how: int, fit: int, crop: int) -> Description:
    """A model with one output of that kind, as a request wants it."""
    port = abi_library._port
    said: dict[str, Any] = {"name": "it", "fetch": "y", "kind": kind, "labels": LABELS, "top_k": None}
    feeds, rest, options = [port("x", "uint8", 1, 16, 24, 3)], {}, AnswerOptions()
    if kind == "embedding":
        fetches = [port("y", ("float32", "float64", "int64")[how % 3], 1, 8)]
        said |= {"format": "float32", "normalise": bool(how & 8)}
        options = AnswerOptions(format=VECTORS[how >> 4 & 3], dimensions=fit % 9 or None)
    elif kind == "detection":
        each = how & 8
        fetches = [port("y", "float32", 1, 6, 4), port("scores", "float32", 1, 6, *((5,) if each else ()))]
        fetches += [port("classes", "float32", 1, 6), port("counts", ("float32", "int32")[how & 1], 1)]
        said |= {"scores": "scores", "classes": "" if each else "classes", "counts": "counts" if how & 2 else ""}
        said |= {"box_format": BOXES[how >> 4 & 3], "box_units": ("relative", "pixels")[how & 1], "threshold": 0.5}
        options = AnswerOptions(top_k=crop % 8 or None, threshold=-1e30 if how & 4 else None)
    elif kind == "segmentation":
        fetches = [port("y", "uint8", 1, 5, 7)]
        said["format"], options = "png", AnswerOptions(format=MAPS[how & 1])
    elif kind == "tokens":
        feeds = [port("x", "int64", 1, LENGTH)]
        fetches = [port("y", "float32", 1, LENGTH, len(LABELS))]
        said |= {"join": bool(how & 1), "ignore": ["O"] if how & 2 else []}
        rest = {"text": {"ids": "x", "mask": "", "types": ""}}
    else:
        fetches = [port("y", ("int64", "int32", "uint8", "int8")[how & 3], 1, 2, 3)]
    image = {
        "feed": "x", "width": 24, "height": 16, "mode": "rgb", "fit": FITS[fit % len(FITS)], "resize": "bilinear",
        "crop": (1 + crop) / 256,
    }  # fmt: skip
    made = abi_library._describe(
        "m", 1, feeds, fetches, image=None if kind == "tokens" else image, outputs=[said], **rest
    )
    return apply_options(parse_description(json.dumps(made)), options)
