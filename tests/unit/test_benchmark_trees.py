"""Ensembles of trees in the benchmarks: their rows, and what an engine is given and asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.engines import TREES, TREES_AVX2, TREES_OURS
from benchmarks.engines import trees as engines
from benchmarks.tree_cases import CLASSES, FEATURES, NAMES, SINGLE, find_case, find_model
from benchmarks.trees import RUNS, text


@pytest.mark.parametrize("name", NAMES)
def test_rows_suit_the_task_and_are_the_same_every_time(name: str) -> None:
    case = find_case(name)
    assert name in {f"{case.framework}-{case.trees}x{case.size}-{case.task}"}
    x, y = case.draw_rows(500, 1)
    np.testing.assert_array_equal(x, case.draw_rows(500, 1)[0])
    np.testing.assert_array_equal(y, case.draw_rows(500, 1)[1])
    assert not np.array_equal(x, case.draw_rows(500, 2)[0])
    assert (x.dtype, x.shape) == (np.float32, (500, FEATURES))
    assert np.isnan(x).any() == (case.task == "mixed")
    if case.task != "regression":
        classes = CLASSES if case.task == "classes" else 2
        assert np.bincount(y).tolist() == [500 // classes] * classes


def test_models_are_shared_by_samples_of_rows_and_of_a_row() -> None:
    one, many = find_case(NAMES[0]), find_case(NAMES[0], 2500)
    assert one.folder != many.folder
    for kind in TREES.values():
        assert (one.folder / kind.model).resolve() == (many.folder / kind.model).resolve()
    assert find_model(NAMES[0], "gtil") == (one.folder / TREES["gtil"].model).resolve()


@pytest.mark.parametrize(("count", "shapes"), [(SINGLE, [(1, FEATURES)] * SINGLE), (130, [(130, FEATURES)])])
def test_an_engine_has_all_rows_or_each_and_answers_with_the_second_class(
    count: int, shapes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def open_model(model: Path, threads: int) -> Any:
        assert (model.name, threads) == ("model.any", 2)
        return np.float64, given.append, lambda _: np.stack([given[0][:, 1], given[0][:, 0]], 1)

    monkeypatch.setattr(engines, "open_engine", open_model)
    engine = engines.Trees(Path("model.any"), 2)
    rows = np.tile(np.arange(FEATURES, dtype=np.float32), (count, 1))
    (raw,) = engine.raw(engine.run(engine.feed(rows.tobytes())))
    assert [part.shape for part in given] == shapes
    assert {part.dtype for part in given} == {np.dtype(np.float64)}
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32), rows[:, 0])


def test_the_tables_show_times_ratios_and_reasons() -> None:
    times = {TREES_OURS: 5.0, TREES_AVX2: 10.0, "lightgbm": 20.0}
    run = {
        "engines": {name: {"median_ms": time} for name, time in times.items()},
        "excluded": {"gtil": "wrong: off"},
        **{"best_peer": "lightgbm", "ratio": 4.0, "ratio_p10": 3.5, "ratio_p90": 4.5},
    }
    made = {"lightgbm": "3, 5.0"}
    machine = {"processor": "x", "family_model_stepping": [], "cpus": 2, "instruction_sets": [], "system": "Linux"}
    shown = text({"machine": machine, "versions": {}, "cases": {NAMES[0]: {"made": made} | dict.fromkeys(RUNS, run)}})
    assert shown.count("**4.00** (3.50–4.50) | **2.00**") == len(RUNS)
    assert "3, 5.0" in shown
    assert "gtil is left out: wrong: off" in shown
