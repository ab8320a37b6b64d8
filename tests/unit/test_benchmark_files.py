"""Published files as networks of the benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import models
from benchmarks.find_network import find_network
from benchmarks.model_files import ModelFile
from benchmarks.transformers_networks import TransformersNetwork
from benchmarks.untuned import UNTUNED_SET
from tests.conftest import ROOT

PUBLISHED = sorted((ROOT / "benchmarks" / "published").glob("*.toml"))
RECURRENT = """\
[model]
source = "voice.onnx"

[[feeds]]
name = "sound"
shape = [1, 576]

[[feeds]]
name = "state"
shape = [2, 1, 128]

[[feeds]]
name = "rate"
value = 16000
"""


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_each_published_file_is_pinned(path: Path) -> None:
    network = find_network(str(path))
    assert isinstance(network, ModelFile)
    source = network.read_spec().source
    assert "==" in (source.package or "")
    assert source.sha256


def test_a_batch_is_put_where_the_file_has_one_item(tmp_path: Path) -> None:
    toml = tmp_path / "voice.toml"
    toml.write_text(RECURRENT)
    network = find_network(f"{toml}-batch8")
    assert isinstance(network, ModelFile)
    spec = network.read_spec()
    assert (network.key, spec.name, spec.batch) == ("voice-batch8", "voice-batch8", 8)
    assert [feed.shape for feed in spec.feeds] == [(8, 576), (2, 8, 128), None]
    assert spec.feeds[2].value == (16000,)


def test_a_file_is_a_network_without_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "FOLDER", tmp_path / "bench")
    network = find_network(str(tmp_path / "PP-OCRv4 det.onnx"))
    assert isinstance(network, ModelFile)
    assert network.key == "pp-ocrv4-det"
    spec = network.read_spec()
    assert spec.source.format == "onnx"
    assert spec.path is not None
    assert spec.path.is_file(), "the build reads it again"
    assert network.preparation == ("benchmarks.prepare_file", f"{network.path}-batch1")


def test_other_names_are_those_of_networks() -> None:
    assert find_network("lstm-batch16").key == "lstm-batch16"
    with pytest.raises(KeyError):
        find_network("unknown")


def test_a_network_of_transformers_has_its_length_in_its_name() -> None:
    network = find_network("bert_base-64-batch16")
    assert isinstance(network, TransformersNetwork)
    assert (network.key, network.architecture) == ("bert_base-64-batch16", "bert_base")
    assert (network.length, network.batch, network.width) == (64, 16, 768)
    with pytest.raises(KeyError):
        find_network("bert_large-64")


def test_each_network_that_was_never_profiled_is_known() -> None:
    networks = [find_network(argument).batched(8) for argument in UNTUNED_SET]
    assert len({network.key for network in networks}) == len(UNTUNED_SET)
    assert all(network.batch == 8 for network in networks)
