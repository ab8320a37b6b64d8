"""A bundle of a model whose output's size the data decides: built as a user does, and called by the function."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.tf import import_tensorflow
from builder.cli import main
from builder.verify.golden import GoldenFile
from handler.budget import RequestLimits
from handler.model import Model
from handler.server import Server
from tests.support.http import Client
from tests.support.models import empty_project

pytestmark = pytest.mark.integration

SPEC = """\
[model]
source = "rows.pb"
name = "rows"
version = "1"

[[feeds]]
name = "x"

[[fetches]]
name = "y"
alias = "rows"
max_size = 4

[[fetches]]
name = "sum"

[[outputs]]
fetch = "rows"

[[outputs]]
name = "kinds"
fetch = "rows"
labels = ["a", "b", "c"]
top_k = 2

[[outputs]]
fetch = "sum"
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of ``x`` [6, 3] that begin with a positive number, of which four are taken at most, and their sum."""
    root, tf = tmp_path_factory.mktemp("rows"), import_tensorflow()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [6, 3], name="x")
        kept = tf.identity(tf.boolean_mask(x, x[:, 0] > 0), name="y")
        tf.reduce_sum(kept, name="sum")
        tf.transpose(kept, name="turned")
        (root / "rows.pb").write_bytes(graph.as_graph_def().SerializeToString())
    (root / "model.toml").write_text(SPEC)
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(root, patch)
        assert main(["bundle", "model.toml", "--in", "host"]) == 0
    return project.root


def inputs(kept: list[int]) -> np.ndarray[Any, Any]:
    x = np.arange(18, dtype=np.float32).reshape(6, 3) + 1
    x[:, 0] *= np.where(np.isin(np.arange(6), kept), 1, -1)
    return x


def test_golden_inputs_give_nothing_some_and_all_that_is_taken(bundle: Path) -> None:
    with GoldenFile.open(bundle / "build" / "rows" / "import" / "golden.npz") as golden:
        sizes = {golden.read_fetch(case, "rows").shape[0] for case in golden.cases}
        assert all(
            tuple(golden.read_fetch(c, "rows_shape")) == golden.read_fetch(c, "rows").shape for c in golden.cases
        )
    assert 0 in sizes
    assert len(sizes) > 1
    assert max(sizes) <= 4  # others are the library's to refuse
    manifest = json.loads((bundle / "dist" / "rows" / "manifest.json").read_text())
    assert manifest["fetches"][0] == {
        "name": "rows", "dtype": "float32", "shape": [4, 3], "bytes": 48, "dynamic": [0], "shape_fetch": "rows_shape",
    }  # fmt: skip


@pytest.mark.parametrize("kept", [[], [1], [0, 2, 5], [0, 1, 3, 4]])
def test_the_function_answers_the_rows_that_are_there(bundle: Path, kept: list[int]) -> None:
    x = inputs(kept)
    answers = {"rows": x[kept].tolist(), "sum": float(x[kept].sum())}
    kinds = [[{"label": "c", "probability": float(row[2])}, {"label": "b", "probability": float(row[1])}] for row in x]
    client = opened(bundle)
    status, answer = client.post("/predict", {"inputs": {"x": x.tolist()}})
    assert (status, answer["predictions"]) == (200, [answers | {"kinds": [kinds[row] for row in kept]}])
    assert client.post("/v1/models/rows:predict", {"inputs": x.tolist()}) == (200, {"outputs": answers})


def test_inspecting_says_how_large_it_can_be(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bundle)
    assert main(["inspect", "model.toml"]) == 0
    assert "the data decides the size of rows [<=4, 3]\n" in capsys.readouterr().out


def test_a_classification_needs_a_fixed_number_of_classes(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bundle)
    (bundle / "wrong.toml").write_text(SPEC.replace('"y"', '"turned"'))
    assert main(["inspect", "wrong.toml"]) == 11
    says = (
        "[[outputs]] kinds: the data decides how many numbers the last dimension of 'rows' has, so they are no classes"
    )
    assert says in capsys.readouterr().err


def test_an_export_is_imported_again(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing adds the fetch of the shape, so the export does not name it."""
    monkeypatch.chdir(bundle)
    assert main(["export", "model.toml", "--out", "exported"]) == 0
    assert tomllib.loads((bundle / "exported" / "model.toml").read_text())["fetches"] == [
        {"name": "rows", "max_size": 4},
        {"name": "sum"},
    ]
    assert main(["inspect", "exported/model.toml"]) == 0


def test_more_rows_than_are_taken(bundle: Path) -> None:
    status, answer = opened(bundle).post("/predict", {"inputs": {"x": inputs([0, 1, 2, 3, 4]).tolist()}})
    assert (status, answer["error"]["code"]) == (422, "result_too_large")
    assert "fetch rows has the shape [5, 3] here; at most [4, 3] is taken" in answer["error"]["message"]


def opened(bundle: Path) -> Client:
    library = bundle / "dist" / "rows" / "layer" / "lib" / "libmodel.so"
    return Client(Server({"rows": Model(str(library))}, RequestLimits()))
