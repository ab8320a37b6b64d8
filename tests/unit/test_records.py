"""Dataclasses that went through JSON are the same again, and what does not fit their types is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest

from builder.base.records import NOT_A_RECORD, dump_record, read_part, read_record


@dataclass(frozen=True)
class Leaf:
    kind: Literal["a", "b"]
    share: float
    value: bool | float | None = None


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    pairs: tuple[tuple[str, int], ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    texts: str | tuple[str, ...] | None = None
    extra: dict[str, Any] | None = None


TREE = Tree((Leaf("a", 0.5, True), Leaf("b", 2.0, 1.0)), (("x", 1),), {"y": 2}, ("z",), {"any": [1, {}]})


def row(tree: Tree) -> Any:
    return json.loads(json.dumps(asdict(tree)))


@pytest.mark.parametrize("tree", [TREE, Tree(()), Tree((), texts="z")])
def test_it_is_read_as_it_was_written(tree: Tree) -> None:
    read = read_record(Tree, row(tree))
    assert read == tree
    assert [type(leaf.value) for leaf in read.leaves] == [type(leaf.value) for leaf in tree.leaves]
    assert read_part(Tree, row(tree) | {"other": 1}) == tree
    assert read_record(Tree, json.loads(json.dumps(dump_record(tree)))) == tree


def test_what_has_its_default_is_not_written() -> None:
    assert dump_record(Tree((Leaf("a", 0.5),))) == {"leaves": ({"kind": "a", "share": 0.5},)}


def test_a_whole_number_is_a_float_too_and_defaults_may_miss() -> None:
    assert read_record(Tree, {"leaves": [{"kind": "a", "share": 1}]}) == Tree((Leaf("a", 1.0),))


@pytest.mark.parametrize(
    "change",
    [
        {"leaves": {}},
        {"leaves": [{"kind": "c", "share": 1}]},
        {"leaves": [{"kind": ["a"], "share": 1}]},
        {"leaves": [{"kind": "a"}]},
        {"leaves": [{"kind": "a", "share": "1"}]},
        {"leaves": [{"kind": "a", "share": True}]},
        {"leaves": [{"kind": "a", "share": 10**400}]},
        {"leaves": [{"kind": "a", "share": 1, "value": 10**400}]},
        {"leaves": [{"kind": "a", "share": 1, "other": 1}]},
        {"pairs": [["x"]]},
        {"pairs": [["x", 1, 2]]},
        {"pairs": [["x", True]]},
        {"sizes": []},
        {"sizes": {"y": 1.5}},
        {"texts": [1]},
        {"extra": []},
        {"other": 1},
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(NOT_A_RECORD):
        read_record(Tree, row(TREE) | change)


@pytest.mark.parametrize("data", [None, [], "leaves", 3, {}])
def test_what_is_no_object_is_refused(data: Any) -> None:
    for read in (read_record, read_part):
        with pytest.raises(NOT_A_RECORD):
            read(Tree, data)
