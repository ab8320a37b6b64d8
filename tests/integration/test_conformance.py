"""The models of tests/conformance that belong to today; ``make conformance`` builds all."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from builder.importers.tf import ENVIRONMENT

os.environ.update(ENVIRONMENT)  # before Keras loads TensorFlow

from tests.conformance import applications, layers, page
from tests.conformance.case import Case
from tests.conformance.cases import DAYS, GROUPS, sample
from tests.conformance.run import Result, run
from tests.support.days import today

pytestmark = pytest.mark.integration

NOT_IN_A_MODEL = {
    *("Layer", "Wrapper", "InputLayer", "Pipeline"),  # nothing by themselves
    *("GRUCell", "LSTMCell", "SimpleRNNCell"),  # in RNN and StackedRNNCells
    *("FlaxLayer", "JaxLayer", "TorchModuleWrapper", "TFSMLayer", "Lambda"),  # code, which no .keras file may bring
    *("StringLookup", "TextVectorization"),  # take strings
    "MaxNumBoundingBoxes",  # takes a dictionary
}

PUBLISHED = page.outcomes(page.PAGE.read_text(encoding="utf-8"))


def on_its_day(case: Case) -> Any:
    """A network that takes minutes is built only where slow tests are wanted."""
    takes_minutes = case.group == applications.GROUP and case.name not in applications.SMALL
    return pytest.param(case, marks=pytest.mark.slow if takes_minutes else (), id=case.slug)


def test_every_layer_of_keras_is_tried() -> None:
    assert set(layers.untried()) == NOT_IN_A_MODEL


def test_every_case_of_keras_has_its_day() -> None:
    days = [sample(date.fromordinal(700_000 + day)) for day in range(DAYS)]
    every = [*layers.cases(), *applications.cases()]
    assert sorted(case.slug for day in days for case in day) == sorted(case.slug for case in every)


def test_the_page_is_of_these_cases() -> None:
    assert set(PUBLISHED) <= {(case.group, case.name) for cases in GROUPS.values() for case in cases()}
    assert {case.name for case in layers.cases()} <= {name for _, name in PUBLISHED}
    sizes = {name: len(cases()) for name, cases in GROUPS.items()}
    assert page.summary(PUBLISHED, sizes) in page.PAGE.read_text(encoding="utf-8")


def test_a_page_says_what_came_of_a_case() -> None:
    found = [
        Result("a", "1", "agrees", "", 2.0, 10**6, 0.5, "optimised"),
        Result("a", "2", "disagrees", "off by 2 | 3", 2.0, 10**6, 4.0, "faithful"),
        Result("b", "1", "refused", "XLA cannot:\n  Op x1: none\n", 1.0, 0, 0.0, ""),
    ]
    text = page.text(found, {"a": 3, "b": 1})
    assert page.outcomes(text) == {("a", "1"): "agrees", ("a", "2"): "disagrees", ("b", "1"): "refused"}
    assert "| a | 3 | 2 | 1 (50.0%) | 0 | 0 | 1 |\n| b | 1 | 1 | 0 (0.0%) | 1 | 0 | 0 |\n" in text


@pytest.mark.parametrize("case", [on_its_day(case) for case in sample(today())])
def test_does_what_the_page_says(case: Case, tmp_path: Path) -> None:
    result = run(case, tmp_path)
    assert result.outcome == PUBLISHED.get((case.group, case.name), "agrees"), result.why
