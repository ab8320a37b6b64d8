"""Custom calls become steps only if they are what a rewrite writes: their text and their shapes are checked."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from builder.base.errors import LowerError
from builder.compiler.lower.steps.base import Buffer, Step
from builder.compiler.lower.steps.custom_call_step import CallTensor, make_step
from builder.compiler.lower.steps.nms_step import CombinedNmsStep, NmsStep
from builder.compiler.lower.steps.trees_step import TreesStep
from builder.importers.rewrites.custom_steps import COMBINED_NMS, NMS, STEPS, TREE_SUMS

CONFIGS: dict[str, dict[str, Any]] = {
    NMS: {"overlap": 0.5, "score": 0.0, "decay": 0.0, "overlaps": False},
    COMBINED_NMS: {"per_class": 3, "overlap": 0.5, "score": 0.0, "clip": True},
    TREE_SUMS: {"most_nodes": 1, "words": False, "wide": False},
}
SHAPES = {
    NMS: ("9x4", "9", "5", "5", ""),
    COMBINED_NMS: ("2x9x1x4", "2x9x3", "2x5x4", "2x5", "2x5", "2"),
    TREE_SUMS: ("5x3", "2x7", "8", "1x5", "8", "0x2", "2x1", "2", "5x2"),
}
DTYPES = {NMS: "ffifi", COMBINED_NMS: "fffffi", TREE_SUMS: "fiiibifff"}
NAMES = {"f": "float32", "i": "int32", "b": "uint8"}
RESULTS = {NMS: 3, COMBINED_NMS: 4, TREE_SUMS: 1}


def made(target: str, config: bytes | None = None, shapes: tuple[str, ...] = (), dtypes: str = "") -> Step:
    text = json.dumps(CONFIGS.get(target, {})).encode() if config is None else config
    tensors = [
        (
            {"f": "float32", "i": "int32", "b": "uint8"}[dtype],
            CallTensor(tuple(map(int, filter(None, shape.split("x")))), place),
        )
        for dtype, shape, place in zip(
            dtypes or DTYPES.get(target, ""),
            shapes or SHAPES.get(target, ()),
            (Buffer("arena", 64 * i, 64) for i in range(10)),
            strict=False,
        )
    ]
    operands = len(tensors) - RESULTS.get(target, 0)
    scratch = partial(Buffer, "arena", 1024)
    return make_step(target, "call", text, tensors[:operands], tensors[operands:], scratch)


def test_a_rewrites_call_is_a_step() -> None:
    nms, combined = made(NMS), made(COMBINED_NMS)
    assert isinstance(nms, NmsStep)
    assert isinstance(combined, CombinedNmsStep)
    assert (nms.count, nms.size, nms.overlap, nms.scratch.size) == (9, 5, 0.5, 12 * 9 + 20 * 5)
    assert (combined.batch, combined.count, combined.classes, combined.per_class, combined.size) == (2, 9, 3, 3, 5)
    assert combined.scratch.size == 8 * 9 + (16 * 3 + 20) * 3


def test_trees_may_return_their_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RESULTS, TREE_SUMS, 2)
    shapes, dtypes = SHAPES[TREE_SUMS], DTYPES[TREE_SUMS] + "i"
    step = made(TREE_SUMS, shapes=(*shapes, "5x1"), dtypes=dtypes)
    assert isinstance(step, TreesStep)
    assert step.indices == Buffer("arena", 64 * len(shapes), 64)
    with pytest.raises(LowerError, match="not coldforge's own"):
        made(TREE_SUMS, shapes=(*shapes, "5x2"), dtypes=dtypes)


def test_any_other_is_refused_by_name() -> None:
    with pytest.raises(LowerError, match=r"no step for a custom call of 'system'"):
        made("system")


@pytest.mark.parametrize("target", STEPS)
@pytest.mark.parametrize("config", [b"", b"\xff", b"[]", b"{}", b'{"overlap": []}', b"3"])
def test_another_text_is_refused(target: str, config: bytes) -> None:
    with pytest.raises(LowerError, match=f"{target}.*not coldforge's own"):
        made(target, config)


@pytest.mark.parametrize(
    ("target", "shapes"),
    [
        (NMS, ("9x5", "9", "5", "5", "")),
        (NMS, ("8x4", "9", "5", "5", "")),
        (NMS, ("9x4", "9", "5", "6", "")),
        (NMS, ("9x4", "9", "5", "5", "1")),
        (NMS, ("9x4", "9x1", "5", "5", "")),
        (COMBINED_NMS, ("2x9x2x4", "2x9x3", "2x5x4", "2x5", "2x5", "2")),
        (COMBINED_NMS, ("2x2x1x4", "2x2x3", "2x5x4", "2x5", "2x5", "2")),
        (COMBINED_NMS, ("2x9x1x4", "2x9x3", "2x5x4", "2x6", "2x5", "2")),
        (COMBINED_NMS, ("2x9x1x4", "2x9x3", "2x5x4", "2x5", "2x5", "1")),
        (TREE_SUMS, ("5x3", "2x7", "8", "1x5", "8", "0x2", "2x1", "2", "5x1")),
        (TREE_SUMS, ("5x3", "2x6", "8", "1x5", "8", "0x2", "2x1", "2", "5x2")),
        (TREE_SUMS, ("5x3", "2x7", "8", "1x5", "8", "0x1", "2x1", "2", "5x2")),
    ],
)
def test_other_shapes_are_refused(target: str, shapes: tuple[str, ...]) -> None:
    with pytest.raises(LowerError, match="not coldforge's own"):
        made(target, shapes=shapes)


def test_other_types_are_refused() -> None:
    with pytest.raises(LowerError, match=r"not coldforge's own \(.*int32"):
        made(NMS, dtypes="fiifi")
