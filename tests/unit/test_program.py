"""A model as a program in a folder: what one process writes and another reads. Names of ports; environments."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from builder.base.errors import EnvironmentSetupError, ImportModelError, UsageError
from builder.base.project import Project
from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment
from builder.importers.frameworks.framework_model import FrameworkModel, distinct_names, open_rows
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.stablehlo_program import StableHloProgram, open_program
from builder.pipeline.docker.docker_run import bundle_in_docker
from tests.conftest import ROOT
from tests.support.models import spec_for

PROGRAM = StableHloProgram(
    b"module",
    10,
    {"weight_0": np.arange(6.0).reshape(2, 3)},
    ModelPorts((PortInfo("x", "float32", (None, 2)),), (PortInfo("y", "float32", (None, 3)),)),
    (PortInfo("x", "float32", (4, 2)),),
    (PortInfo("y", "float32", (4, 3)),),
    states={"block/total": np.ones((2, 3), np.int8)},
    vocabularies={"x": ("", "red", "ÄÖ")},
)


def test_a_program_comes_back_as_it_was(tmp_path: Path) -> None:
    PROGRAM.save(tmp_path)
    found = StableHloProgram.load(tmp_path)
    plain = {"weights": {}, "states": {}}
    assert dataclasses.replace(found, **plain) == dataclasses.replace(PROGRAM, **plain)
    for ours, theirs in ((found.weights, PROGRAM.weights), (found.states, PROGRAM.states)):
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert open_program(tmp_path).ports == PROGRAM.ports


def test_a_file_that_the_other_process_did_not_write(tmp_path: Path) -> None:
    PROGRAM.save(tmp_path)
    (tmp_path / "program.mlir").unlink()
    with pytest.raises(ImportModelError):
        StableHloProgram.load(tmp_path)


@pytest.mark.parametrize("name", ["weights.npz", "states.npz", "ports.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\x80\x05.", b"PK\x03\x04", b"\x93NUMPY"])
def test_what_the_other_process_should_not_have_written(tmp_path: Path, name: str, content: bytes) -> None:
    PROGRAM.save(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ImportModelError):
        StableHloProgram.load(tmp_path)


def summing(*shapes: tuple[int | None, ...], **options: Any) -> FrameworkModel:
    """A model that sums each of its inputs over all dimensions; the output is [1]."""
    feeds = tuple(PortInfo(f"x{i}", "float32", shape) for i, shape in enumerate(shapes))
    ports = ModelPorts(feeds, (PortInfo("y", "float32", (1,)),))
    return FrameworkModel(
        ports, lambda: lambda *_: (), lambda feeds: [sum(x.sum() for x in feeds).reshape(1)], **options
    )


def test_each_row_of_a_batch_is_a_run_of_a_model_for_one_row() -> None:
    model = open_rows(lambda: summing((1, 2), (1, 3)), 4)
    assert [port.shape for port in (*model.ports.feeds, *model.ports.fetches)] == [(None, 2), (None, 3), (None,)]
    feeds = [np.arange(8.0).reshape(4, 2), np.ones((4, 3))]
    (answer,) = model.answer(feeds)
    np.testing.assert_array_equal(answer, feeds[0].sum(1) + 3)


def test_each_row_of_a_batch_has_states_of_its_own() -> None:
    def open_total() -> FrameworkModel:
        total = np.zeros(1)

        def answer(feeds: Any) -> list[Any]:
            total[:] += feeds[0].sum()
            return [total.copy()]

        return dataclasses.replace(summing((1, 2)), answer=answer, states={"total": np.zeros(1)})

    model = open_rows(open_total, 3)
    assert model.states["total"].shape == (3, 1)
    feeds = np.arange(6.0).reshape(3, 2)
    for run in (1, 2):
        np.testing.assert_array_equal(model.answer([feeds])[0], run * feeds.sum(1))


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (summing((1, 2)), 1),
        (summing((2, 2)), 4),
        (summing((None, 2)), 4),
        (summing((1, 2), ()), 4),
    ],
    ids=["a batch of 1", "made for 2 rows", "open", "a scalar"],
)
def test_a_model_whose_rows_are_not_runs(model: FrameworkModel, batch: int) -> None:
    assert open_rows(lambda: model, batch) is model


def position(number: int) -> Any:
    """A key of a sequence, as JAX has it."""
    return SimpleNamespace(idx=number)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([[position(0)]], ["input"]),
        ([[]], ["input"]),
        ([[position(0)], [position(1)]], ["input_0", "input_1"]),
        ([["x"]], ["x"]),
        ([["tokens"], [position(1)], ["masks", position(0)]], ["tokens", "input_1", "masks_0"]),
        ([["a-b"], ["a_b"]], ["a-b", "a_b_2"]),
    ],
)
def test_names_of_ports(paths: list[list[Any]], names: list[str]) -> None:
    assert distinct_names(paths, "input") == names


@pytest.mark.parametrize("form", FRAMEWORKS)
def test_the_lock_of_an_environment_is_installed_with_coldforge(form: Any) -> None:
    lock = f"requirements/{FRAMEWORKS[form].lock}"
    assert (ROOT / lock).is_file()
    assert f'"/{lock}"' in (ROOT / "pyproject.toml").read_text()


def test_an_environment_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without venv: its own words, and nothing is left that passes for an environment."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho there is no venv >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said: list[str] = []
    with pytest.raises(EnvironmentSetupError, match=r"JAX's environment cannot be made[\s\S]*there is no venv"):
        ensure_environment(FRAMEWORKS["jax"], said.append)
    assert said == ["setting up JAX in an environment of its own (once; about 140 MB to fetch, minutes)"]
    assert not list((tmp_path / "cache" / "coldforge" / "frameworks").glob("jax-*/*"))


def test_the_builder_image_has_no_framework(tmp_path: Path) -> None:
    spec = spec_for(tmp_path / "model.jax")
    with pytest.raises(UsageError, match=r"model\.jax is read by JAX, which the builder image does not have"):
        bundle_in_docker(spec, Project(tmp_path))
