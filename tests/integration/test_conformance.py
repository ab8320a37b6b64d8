"""The models of tests/conformance that belong to today; ``make conformance`` builds all."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from builder.importers.tf import ENVIRONMENT

os.environ.update(ENVIRONMENT)  # before Keras loads TensorFlow

from tests.conformance import layers
from tests.conformance.case import Case
from tests.conformance.cases import DAYS, sample
from tests.conformance.run import run
from tests.support.days import today

pytestmark = pytest.mark.integration

NOT_IN_A_MODEL = {
    *("Layer", "Wrapper", "InputLayer", "Pipeline"),  # nothing by themselves
    *("GRUCell", "LSTMCell", "SimpleRNNCell"),  # in RNN and StackedRNNCells
    *("FlaxLayer", "JaxLayer", "TorchModuleWrapper", "TFSMLayer", "Lambda"),  # code, which no .keras file may bring
    *("StringLookup", "TextVectorization"),  # take strings
    "MaxNumBoundingBoxes",  # takes a dictionary
}

DO_NOT_BUILD = {
    **dict.fromkeys(("Equalization 1", "Equalization 2"), "error"),  # Keras 3.15.1 does not trace it
    **dict.fromkeys(("HashedCrossing 1", "HashedCrossing 2", "Hashing 1", "Hashing 2"), "refused"),  # strings inside
    # More mel bands than the transform resolves: the last bit of a logarithm decides how much each gets.
    "MelSpectrogram 2": "disagrees",
}


def test_every_layer_of_keras_is_tried() -> None:
    assert set(layers.untried()) == NOT_IN_A_MODEL


def test_every_layer_has_its_day() -> None:
    days = [sample(date.fromordinal(700_000 + day)) for day in range(DAYS)]
    assert sorted(case.name for day in days for case in day) == sorted(case.name for case in layers.cases())


@pytest.mark.parametrize("case", sample(today()), ids=lambda case: case.slug)
def test_a_layer_agrees_with_tensorflow(case: Case, tmp_path: Path) -> None:
    result = run(case, tmp_path)
    assert result.outcome == DO_NOT_BUILD.get(case.name, "agrees"), result.why
