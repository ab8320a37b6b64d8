"""A model.toml for a model that is elsewhere: the address pinned, and the model in its archive named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from builder.base.errors import ImportModelError, UsageError
from builder.base.project import Project
from builder.cli import main
from builder.config import ModelSpec, Source, read_spec
from builder.importers.draft import draft_spec
from builder.importers.ports import ModelPorts, PortInfo
from builder.pipeline.docker.docker_run import build_mounts
from builder.sources import find_source, locate_model, locate_text_file
from tests.support.sources import packed, site
from tests.support.website import Website, says

__all__ = ["site"]

MODEL = b"model" * 1000
SHA = hashlib.sha256(MODEL).hexdigest()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PORTS = ModelPorts((PortInfo("x", "float32", (None, 4)),), (PortInfo("y", "float32", (None, 3)),), None, ())


def written(folder: Path, text: str, wanted: str) -> ModelSpec:
    """The spec that is drafted for the model at ``text``, after its text, with the line ``wanted``, was read back."""
    origin, model = find_source(text, folder / "cache")
    asked: list[tuple[Source, Path]] = []

    def describe(source: Source, path: Path) -> ModelPorts:
        asked.append((source, path))
        return PORTS

    toml = folder / "model.toml"
    toml.write_text(draft_spec(model, describe, toml=toml, origin=origin).format_toml(), encoding="utf-8")
    assert [path for _, path in asked] == [model.resolve()]
    assert wanted in toml.read_text()
    spec = read_spec(toml)
    assert locate_model(spec, folder / "cache") == model, "it is pinned"
    return spec


def test_a_file_on_a_web_server(site: Website, tmp_path: Path) -> None:
    site.files["/net-1.keras"] = MODEL
    spec = written(tmp_path, f"{site.origin}/net-1.keras", f'sha256 = "{SHA}"')
    assert (spec.name, spec.source.format) == ("net-1", "keras")


def test_a_query_is_pointed_at(site: Website, tmp_path: Path) -> None:
    site.files["/net.keras"] = MODEL
    written(tmp_path, f"{site.origin}/net.keras?id=3", "# Check: whoever reads this file sees the query, too")


def test_a_branch_of_the_hub(site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", site.origin)
    site.answers["/api/models/org/cats/revision/main"] = says(200, json.dumps({"sha": COMMIT}).encode())
    site.files[f"/org/cats/resolve/{COMMIT}/model.keras"] = MODEL
    spec = written(tmp_path, "hf://org/cats/model.keras", f'source = "hf://org/cats/model.keras@{COMMIT}"')
    assert spec.name == "cats"


@pytest.mark.parametrize("form", ["onnx", "tflite"])
def test_files_of_other_formats(form: str, site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", site.origin)
    site.answers["/api/models/org/cats/revision/main"] = says(200, json.dumps({"sha": COMMIT}).encode())
    name = f"deep/model.{form}"
    site.files[f"/org/cats/resolve/{COMMIT}/{name}"] = MODEL
    spec = written(tmp_path, f"hf://org/cats/{name}", f'source = "hf://org/cats/{name}@{COMMIT}"')
    assert (spec.name, spec.source.format) == ("cats", form)
    site.files["/nets.tgz"] = packed({"README": b"", name: MODEL})
    assert written(tmp_path, f"{site.origin}/nets.tgz", f'file = "{name}"').source.format == form


def test_a_file_in_an_archive(site: Website, tmp_path: Path) -> None:
    site.files["/nets.tgz"] = packed({"README": b"", "a/net.keras": MODEL})
    spec = written(tmp_path, f"{site.origin}/nets.tgz", 'file = "a/net.keras"')
    assert (spec.name, spec.source.format) == ("nets", "keras")
    spec.path.write_text(spec.path.read_text().replace('file = "a/net.keras"\n', ""))
    with pytest.raises(ImportModelError, match=r'has no SavedModel(.|\n)*file = "a/net.keras"'):
        locate_model(read_spec(spec.path), tmp_path / "cache")


def test_a_saved_model_in_an_archive(site: Website, tmp_path: Path) -> None:
    site.files["/nets.tar.gz"] = packed({"top/saved_model.pb": b"graph"})
    spec = written(tmp_path, f"{site.origin}/nets.tar.gz", "sha256 = ")
    assert (spec.source.format, spec.source.file) == ("saved_model", None)


def test_a_tokenizer_in_an_archive(site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = PortInfo("input_ids", "int64", (None, 8))
    monkeypatch.setattr(f"{__name__}.PORTS", ModelPorts((ids,), PORTS.fetches, None, ()))
    site.files["/nets.tgz"] = packed({"a/net.keras": MODEL, "a/tokenizer.json": b"{}"})
    spec = written(tmp_path, f"{site.origin}/nets.tgz", 'tokenizer = "model:a/tokenizer.json"')
    found = locate_text_file(spec, tmp_path / "cache").text
    assert found
    assert found.tokenizer
    assert found.tokenizer.read_bytes() == b"{}"


def test_what_does_not_tell_its_format(site: Website, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not tell its format"):
        find_source(f"{site.origin}/get?token=s3cr3t", tmp_path)
    assert site.requests == []


def test_the_commands_name_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "http://me:s3cr3t@a.b/m.keras", "--output", "nowhere/model.toml"]) == UsageError.exit_code
    assert main(["bundle", "https://a.b/m.keras?s3cr3t"]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "the address http:// is not encrypted" in said
    assert "`coldforge init ADDRESS` writes one" in said
    assert "s3cr3t" not in said


def test_a_container_gets_its_own_model_to_read_and_no_other(
    site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    site.files["/net.keras"], site.files["/other.keras"] = MODEL, b"another project's"
    project = Project(tmp_path)
    locate_model(
        written(tmp_path, f"{site.origin}/other.keras", hashlib.sha256(b"another project's").hexdigest()), project.cache
    )
    spec = written(tmp_path, f"{site.origin}/net.keras", SHA)
    model = locate_model(spec, project.cache)
    (tmp_path / "scratch").mkdir()
    mounts = build_mounts(spec, project, model, tmp_path, tmp_path / "scratch")
    fetched = [mount for mount in mounts if mount.source.is_relative_to(project.cache)]
    assert {mount.source.name for mount in fetched} <= {SHA, "revisions"}
    beside = project.cache / "models" / ("f" * 64) / "tokenizer.json"
    beside.parent.mkdir()
    more = build_mounts(spec, project, model, tmp_path, tmp_path / "scratch", [beside])
    assert [mount for mount in more if mount.source == beside.parent and not mount.writable]
    assert [mount.writable for mount in fetched if mount.source.name == SHA] == [False]
