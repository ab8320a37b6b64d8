"""Models of scikit-learn as ONNX, and a function for one whose columns are numbers and strings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from builder.cli import main
from builder.package.bundle import Bundle
from handler.budget import RequestLimits
from handler.errors import make_refusal
from handler.model import Model
from handler.protocols import predict
from handler.server import Invocation, Server
from tests.support.framework_scripts import run_script
from tests.support.models import empty_project

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]


def test_models_that_skl2onnx_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them answer as ONNX Runtime, and the function does for rows of numbers and strings, known or not."""
    assert run_script("onnx", "sklearn_onnx_cases.py", tmp_path) == "25 of 25 agree\n"

    project = empty_project(tmp_path, monkeypatch)
    (tmp_path / "model.toml").write_text('[model]\nsource = "one-hot-columns.onnx"\nname = "columns"\nbatch = [1, 4]\n')
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    model = Model(str(Bundle.load(project.dist / "columns").library))
    server = Server({model.description.name: model}, RequestLimits())
    invocation = Invocation("1", False, lambda: 60_000, lambda _: None, lambda error: make_refusal(error, "1"))
    recorded = json.loads((tmp_path / "one-hot-columns.json").read_text())
    found = predict.answer_event({"rows": recorded["rows"]}, server, invocation)["predictions"]
    assert [int(np.argmax(row["probabilities"])) for row in found] == [row["label"] for row in recorded["answers"]]
    for ours, theirs in zip(found, recorded["answers"], strict=True):
        np.testing.assert_allclose(ours["probabilities"], theirs["probabilities"], rtol=1e-4, atol=1e-5)
