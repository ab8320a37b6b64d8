"""The attempts at a library: in which order, which are passed over, and which one counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builder.compiler.emit import GeneratedSources
from builder.config import ModelSpec, Source
from builder.pipeline.compile_graph import CompiledModel
from builder.pipeline.fallbacks import try_attempts
from builder.pipeline.lower_program import ATTEMPTS, EmittedSources, LoweringAttempt

SPEC = ModelSpec(Path("/model.toml"), "hand", "1", Source("keras", Path("/hand.keras")))


@dataclass(frozen=True)
class Tried:
    """What came of an attempt: whether it agreed."""

    name: str
    final: bool


def went(folder: Path, programs: dict[str, str], agrees: str, spec: ModelSpec = SPEC) -> list[str]:
    """The attempts that were tried, where each comes to the C in ``programs``, and only ``agrees`` agrees."""

    def lowered(attempt: LoweringAttempt) -> EmittedSources | None:
        if attempt.name not in programs:
            return None
        own = folder / f"{attempt.path}{attempt.suffix}"
        own.mkdir(parents=True)
        sources = GeneratedSources(own, ("program.c",), ("x86-64-v3",))
        sources.programs[0].write_text(programs[attempt.name])
        sources.weights.write_bytes(b"weights")
        sources.save()
        return EmittedSources(attempt, own, CompiledModel(Path("/hand.keras"), ()))

    def tried(emitted: EmittedSources) -> Tried:
        return Tried(emitted.attempt.name, emitted.attempt.name == agrees)

    return [one.name for one in try_attempts(spec, lowered, tried)]


IN_PARTS, FAST, DIRECT, FAITHFUL = (attempt.name for attempt in ATTEMPTS)
EACH_ITS_OWN = {FAST: "1", DIRECT: "2", FAITHFUL: "3"}


@pytest.mark.parametrize(
    ("agrees", "expected"),
    [(FAST, [FAST]), (DIRECT, [FAST, DIRECT]), (FAITHFUL, [FAST, DIRECT, FAITHFUL]), ("", [FAST, DIRECT, FAITHFUL])],
)
def test_attempts_end_at_the_first_that_agrees_or_with_the_last(
    agrees: str, expected: list[str], tmp_path: Path
) -> None:
    assert went(tmp_path, EACH_ITS_OWN, agrees) == expected


def test_the_same_program_is_not_tried_twice(tmp_path: Path) -> None:
    assert went(tmp_path, EACH_ITS_OWN | {DIRECT: "1"}, FAITHFUL) == [FAST, FAITHFUL]


def test_a_spec_without_winograd_begins_with_the_direct_algorithm(tmp_path: Path) -> None:
    assert went(tmp_path, EACH_ITS_OWN, DIRECT, replace(SPEC, winograd=False)) == [DIRECT]


def test_batches_are_tried_in_parts_first_whatever_the_spec_says_of_winograd(tmp_path: Path) -> None:
    every = EACH_ITS_OWN | {IN_PARTS: "0"}
    batch = replace(SPEC, batch=4)
    assert went(tmp_path / "a", every, IN_PARTS, batch) == [IN_PARTS]
    assert went(tmp_path / "b", every, "", batch) == [IN_PARTS, FAST, DIRECT, FAITHFUL]
    assert went(tmp_path / "c", every, "", replace(SPEC, batches=(1, 4), winograd=False)) == [
        IN_PARTS,
        DIRECT,
        FAITHFUL,
    ]
    assert went(tmp_path / "d", every, FAST) == [FAST]


def test_an_attempt_that_has_nothing_to_offer_is_passed_over(tmp_path: Path) -> None:
    assert went(tmp_path, EACH_ITS_OWN, FAST, replace(SPEC, batch=4)) == [FAST]
