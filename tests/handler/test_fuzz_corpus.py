"""Every kept input of the fuzzers, and any JSON at all, without the fuzzer: an answer or a typed error."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import CORPUS, TARGETS

pytestmark = pytest.mark.xdist_group("fuzz")

ELSEWHERE = {"model", "weights"}
"""Replayed where TensorFlow or a library is there: test_hostile_models.py, test_outside_weights.py."""
KEPT = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.parent.name not in ELSEWHERE)


@pytest.fixture(scope="module", autouse=True)
def collections_are_short() -> Iterator[None]:
    """Keep what is imported out of the oracle's collection before each input, which would take most of the time."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("path", KEPT, ids=[f"{path.parent.name}/{path.name}" for path in KEPT])
def test_kept_inputs(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_every_target_has_seeds() -> None:
    assert {path.parent.name for path in CORPUS.rglob("*") if path.is_file()} == set(TARGETS)


SEEDS = {path.name: json.loads(path.read_bytes()) for path in KEPT if path.parent.name == "event"}
names = st.sampled_from(sorted({key for seed in SEEDS.values() for key in seed} | {"model", "Records", "Items"}))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(list(SEEDS.values())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(anything)
@settings(deadline=None)
def test_any_json_is_answered(value: object) -> None:
    for target in ("event", "body"):
        TARGETS[target](json.dumps(value).encode())


@given(st.sampled_from(list(SEEDS.values())), st.data())
@settings(deadline=None)
def test_an_event_with_one_part_changed_is_answered(event: dict[str, object], data: st.DataObject) -> None:
    event = json.loads(json.dumps(event))
    changed: object = event
    while isinstance(changed, dict) and changed:
        key = data.draw(st.sampled_from(sorted(changed)))
        if not isinstance(changed[key], dict) or data.draw(st.booleans()):
            changed[key] = data.draw(anything)
            break
        changed = changed[key]
    TARGETS["event"](json.dumps(event).encode())


@given(
    st.sampled_from(["GET", "POST", "PUT", ""]),
    st.text(max_size=40),
    st.dictionaries(st.text(), st.text()),
    st.binary(),
)
@settings(deadline=None)
def test_any_http_request_is_answered(method: str, path: str, headers: dict[str, str], body: bytes) -> None:
    lines = "".join(f"\n{name}:{value}" for name, value in headers.items())
    TARGETS["http"](f"{method} /{path}{lines}".encode() + b"\n\n" + body)
