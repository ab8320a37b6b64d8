"""The fuzzers run, reach the code and find nothing in the time that a test may take; ``make fuzz`` goes on longer."""

from __future__ import annotations

import pytest

from tests.fuzz import __main__ as fuzzing
from tests.fuzz.targets import TARGETS, servers, sound_decoders, text_servers

pytestmark = pytest.mark.xdist_group("fuzz")

SECONDS = 3


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    servers()  # compiled before the clock starts
    text_servers()
    sound_decoders()


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_found(target: str) -> None:
    outcome = fuzzing.fuzz(target, SECONDS, seed=1)
    assert not outcome.finding, outcome.finding
    assert outcome.executions > 10
    assert outcome.covered > 10
