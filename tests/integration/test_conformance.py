"""The models of tests/conformance that belong to today; ``make conformance`` builds all."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.tf import ENVIRONMENT

os.environ.update(ENVIRONMENT)  # before Keras loads TensorFlow

import tensorflow as tf

from builder.verify.reference_graph import UNLIKE, read_type
from tests.conformance import applications, keras2, layers, results, special, special_ops
from tests.conformance.case import Case
from tests.conformance.cases import DAYS, GROUPS, sample
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

FOUND = results.read()


def on_its_day(case: Case) -> Any:
    """A network that takes minutes is built only where slow tests are wanted."""
    takes_minutes = case.group == applications.GROUP and case.name not in applications.SMALL
    return pytest.param(case, marks=pytest.mark.slow if takes_minutes else (), id=case.slug)


def test_every_layer_of_keras_is_tried() -> None:
    assert set(layers.untried()) == NOT_IN_A_MODEL


def test_every_layer_of_keras_2_is_tried() -> None:
    assert set(keras2.untried()) - NOT_IN_A_MODEL == {"AbstractRNNCell", "DenseFeatures"}  # take cells and columns


def test_every_case_of_keras_has_its_day() -> None:
    days = [sample(date.fromordinal(700_000 + day)) for day in range(DAYS)]
    every = [*layers.cases(), *applications.cases()]
    assert sorted(case.slug for day in days for case in day) == sorted(case.slug for case in every)


def test_the_page_has_every_layer_and_what_was_found() -> None:
    assert set(FOUND) <= {(case.group, case.name) for cases in GROUPS.values() for case in cases()}
    assert {(case.group, case.name) for case in layers.cases()} <= set(FOUND)
    made = "run `python -m tests.conformance --missing keras.layers`"
    assert results.PAGE.read_text(encoding="utf-8") == results.text(), made


@pytest.mark.parametrize("case", [on_its_day(case) for case in sample(today())])
def test_does_what_the_page_says(case: Case, tmp_path: Path) -> None:
    found = FOUND.get((case.group, case.name))
    result = run(case, tmp_path)
    assert result.outcome == (found.outcome if found else "agrees"), result.why


def test_a_build_names_the_ops_that_differ_on_the_page() -> None:
    """Each of them, by its op in a graph, and no other op."""
    probes = {probe.name: probe for probe in special_ops.probes()}
    named: set[str] = set()
    for row in results.read_special():
        if row.outcome == "differs" and row.value in ("NaN", "+inf", "-inf"):
            graph = tf.function(probes[row.op].function).get_concrete_function(tf.constant(probes[row.op].usual)).graph
            kinds = {read_type(op) for op in graph.get_operations()} & UNLIKE.keys()
            assert any(UNLIKE[kind](np.array(special.FLOATS[row.value])).any() for kind in kinds), row
            named |= kinds
    assert named == UNLIKE.keys()


def test_casts_of_special_values_do_what_the_page_says(tmp_path: Path) -> None:
    rows = {(row.op, row.value): row.outcome for row in special.rows(tmp_path, ["casts"])}
    page = {(row.op, row.value): row.outcome for row in results.read_special()}
    assert len(rows) > 30
    assert rows == {key: page.get(key) for key in rows}, "run `python -m tests.conformance special`"
