"""Models from MLflow's registry. The answers are those of MLflow 3.17.2's own server, recorded from it."""

from __future__ import annotations

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from builder.base.errors import ColdforgeError, EnvironmentSetupError, ImportModelError
from builder.config import Format, Source
from builder.config.address import parse_address
from builder.sources import Bounds, find_source, locate_model
from builder.sources.mlflow import find_version
from tests.support import s3
from tests.support.sources import QUICK, site, spec_of, unchanged
from tests.support.website import Website, says, website

__all__ = ["site"]

MODEL = bytes(range(256)) * 400
SHA = hashlib.sha256(MODEL).hexdigest()
API, FILES = "/api/2.0/mlflow", "/api/2.0/mlflow-artifacts/artifacts"
ROOT = "0/cecb43a00c854218b069ca70a658c9b7/artifacts/model"
TREE = {
    "": [("MLmodel", 38), ("data", None), ("saved", None)],
    "data": [("model.keras", len(MODEL))],
    "saved": [("saved_model.pb", 5), ("variables", None)],
    "saved/variables": [("variables.index", 5)],
    "net": [("config.json", 2), ("model.safetensors", 4)],
}
ADDRESS = "mlflow:/models:/digits net/2"
SECRET = "s3cr3t"


def missing(message: str) -> bytes:
    answer = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"{message} {SECRET}", "sqlstate": "KAM00"}
    return json.dumps(answer).encode()


@pytest.fixture(autouse=True)
def registry(site: Website, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Where each version's files are, which tests may change."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{site.origin}/")
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    roots = {"1": "runs:/cecb43a00c854218b069ca70a658c9b7/model", "2": f"mlflow-artifacts:/{ROOT}"}

    def asked(to: BaseHTTPRequestHandler) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(to.path).query).items()}

    def version(to: BaseHTTPRequestHandler) -> None:
        query = asked(to)
        root = roots.get(query["version"]) if query["name"] == "digits net" else None
        if root is None:
            says(404, missing("Model Version not found"))(to)
        else:
            says(200, json.dumps({"artifact_uri": root}).encode())(to)

    def alias(to: BaseHTTPRequestHandler) -> None:
        if asked(to)["alias"] == "champion":
            says(200, json.dumps({"model_version": {"name": "digits net", "version": "2"}}).encode())(to)
        else:
            says(400, json.dumps({"error_code": "INVALID_PARAMETER_VALUE", "message": SECRET}).encode())(to)

    def listed(to: BaseHTTPRequestHandler) -> None:
        rows: list[dict[str, Any]] = []
        for name, size in TREE.get(asked(to)["path"].removeprefix(ROOT).strip("/"), []):
            rows.append({"path": name, "is_dir": size is None} | ({} if size is None else {"file_size": size}))
        says(200, json.dumps({"files": rows} if rows else {}).encode())(to)

    info = {"artifact_uri": f"mlflow-artifacts:/{ROOT.removesuffix('/model')}", "lifecycle_stage": "active"}
    site.answers[f"{API}/runs/get"] = says(200, json.dumps({"run": {"info": info}}).encode())
    site.answers[f"{API}/model-versions/get-download-uri"] = version
    site.answers[f"{API}/registered-models/alias"] = alias
    site.answers[FILES] = listed
    site.files[f"{FILES}/{ROOT}/data/model.keras"] = MODEL
    site.files[f"{FILES}/{ROOT}/saved/saved_model.pb"] = b"graph"
    site.files[f"{FILES}/{ROOT}/net/config.json"] = b"{}"
    site.files[f"{FILES}/{ROOT}/net/model.safetensors"] = b"data"
    site.files[f"{FILES}/{ROOT}/saved/variables/variables.index"] = b"index"
    return roots


def located(
    folder: Path,
    address: str = ADDRESS,
    file: str = "data/model.keras",
    form: Format = "keras",
    bounds: Bounds = QUICK,
) -> Path:
    source = Source(form, None, None, file, address=parse_address(address))
    return locate_model(spec_of(folder, source), folder / "cache", bounds=bounds)


def refused(folder: Path, address: str = ADDRESS, file: str = "data/model.keras") -> ColdforgeError:
    with pytest.raises(ColdforgeError) as caught:
        located(folder, address, file)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_file_of_a_version(site: Website, tmp_path: Path, version: str) -> None:
    site.cuts = [1000]
    path = located(tmp_path, f"mlflow:/models:/digits net/{version}")
    assert path == tmp_path / "cache" / "models" / SHA / "model.keras"
    assert path.read_bytes() == MODEL
    asked = len(site.requests)
    assert located(tmp_path, f"mlflow:/models:/digits net/{version}") == path
    assert len(site.requests) == asked, "the version's digest is recorded"


def test_a_saved_model_of_a_version(site: Website, tmp_path: Path) -> None:
    path = located(tmp_path, file="saved", form="saved_model")
    files = {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    assert files == {"saved_model.pb": b"graph", "variables/variables.index": b"index"}
    asked = len(site.requests)
    with unchanged(tmp_path):
        assert located(tmp_path, file="saved", form="saved_model") == path
    assert len(site.requests) == asked
    (path / "saved_model.pb").write_bytes(b"spoilt")
    assert (located(tmp_path, file="saved", form="saved_model") / "saved_model.pb").read_bytes() == b"graph"
    assert list((tmp_path / "cache/models/downloads").iterdir()) == []


def test_a_model_of_transformers_of_a_version(tmp_path: Path) -> None:
    path = located(tmp_path, file="net", form="transformers")
    assert {p.name: p.read_bytes() for p in path.iterdir()} == {"config.json": b"{}", "model.safetensors": b"data"}
    with pytest.raises(ImportModelError, match=r"net of .* is no SavedModel"):
        located(tmp_path / "other", file="net", form="saved_model")


def test_all_files_together_are_limited(site: Website, tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="has more than 2 bytes"):
        located(tmp_path, file="saved", form="saved_model", bounds=Bounds(bytes=7))
    with pytest.raises(ImportModelError, match="has more than 1 files"):
        located(tmp_path, file="saved", form="saved_model", bounds=Bounds(files=1))


def test_a_folder_that_is_no_saved_model(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="data of mlflow:/models:/digits net/2 is no SavedModel"):
        located(tmp_path, file="data", form="saved_model")


def test_an_alias_is_refused_with_the_line_that_pins_it(tmp_path: Path) -> None:
    assert f'source = "{ADDRESS}"' in str(refused(tmp_path, "mlflow:/models:/digits net@champion"))


def test_all_names_of_a_version(site: Website) -> None:
    names = find_version(parse_address(ADDRESS), QUICK).list_files()
    assert names == ["MLmodel", "data/model.keras", "saved/saved_model.pb", "saved/variables/variables.index"]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "..", "a\\b", "\u202e", ""])
def test_a_name_that_leads_elsewhere(site: Website, tmp_path: Path, name: str) -> None:
    site.answers[FILES] = says(200, json.dumps({"files": [{"path": name, "is_dir": False}]}).encode())
    with pytest.raises(ImportModelError, match="name leads elsewhere"):
        located(tmp_path, file="saved", form="saved_model")


def test_folders_without_end(site: Website, tmp_path: Path) -> None:
    site.answers[FILES] = says(200, json.dumps({"files": [{"path": "deeper", "is_dir": True}]}).encode())
    with pytest.raises(ImportModelError, match="is no SavedModel"):
        located(tmp_path, file="saved", form="saved_model")


@pytest.mark.parametrize(
    ("address", "file", "why"),
    [
        ("mlflow:/models:/digits net/9", "data/model.keras", "MLflow has no mlflow:/models:/digits net/9"),
        ("mlflow:/models:/other/1", "data/model.keras", "MLflow has no mlflow:/models:/other/1"),
        ("mlflow:/models:/digits net@old", "data/model.keras", "MLflow has no mlflow:/models:/digits net@old"),
        (ADDRESS, "data/m.keras", r"data/m.keras of mlflow:/models:/digits net/2 is not there"),
    ],
)
def test_what_is_not_there(tmp_path: Path, address: str, file: str, why: str) -> None:
    error = refused(tmp_path, address, file)
    assert isinstance(error, ImportModelError)
    assert why in str(error)


def test_storage_that_is_not_read(registry: dict[str, str], tmp_path: Path) -> None:
    registry["2"] = "gs://bucket/model"
    assert "at gs:, which coldforge does not read" in str(refused(tmp_path))


@pytest.mark.parametrize("host", ["//mlflow.example.com:80/", "//[x/", "/"])
def test_files_are_asked_for_at_the_server_whatever_host_it_names(
    registry: dict[str, str], tmp_path: Path, host: str
) -> None:
    registry["2"] = f"mlflow-artifacts:{host}{ROOT}"
    assert (located(tmp_path, file="saved", form="saved_model") / "saved_model.pb").read_bytes() == b"graph"


def test_storage_in_s3(registry: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry["2"] = "s3://bucket/a/model"
    with s3.serving() as bucket:
        bucket.objects["bucket/a/model/data/model.keras"] = MODEL
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        assert located(tmp_path).read_bytes() == MODEL


@pytest.mark.parametrize("how", ["token", "password"])
def test_credentials_are_sent(site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    wanted = f"Bearer {SECRET}"
    if how == "token":
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", SECRET)
    else:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
        wanted = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    located(tmp_path)
    assert {asked.headers.get("authorization") for asked in site.requests} == {wanted}


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("", "MLFLOW_TRACKING_URI does not name the MLflow server"),
        ("databricks", "MLFLOW_TRACKING_URI does not name the MLflow server"),
        (f"https://me:{SECRET}@localhost", "MLFLOW_TRACKING_USERNAME"),
        ("http://mlflow.example.com", "would be asked without encryption"),
    ],
)
def test_a_server_that_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, why: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    error = refused(tmp_path)
    assert isinstance(error, EnvironmentSetupError)
    assert why in str(error)


def test_a_server_on_this_machine_is_asked_without_encryption_and_by_no_proxy(
    site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", SECRET)
    with website(encrypted=False) as here:
        here.answers, here.files = site.answers, site.files
        monkeypatch.setenv("MLFLOW_TRACKING_URI", here.origin)
        assert located(tmp_path).read_bytes() == MODEL
        here.answers[f"{API}/model-versions/get-download-uri"] = says(302, Location="http://127.0.0.2:9/")
        assert "not encrypted" in str(refused(tmp_path / "again"))


def test_a_server_that_refuses(site: Website, tmp_path: Path) -> None:
    site.answers[f"{API}/model-versions/get-download-uri"] = says(401, SECRET.encode())
    assert "Set MLFLOW_TRACKING_TOKEN" in str(refused(tmp_path))


@pytest.mark.parametrize("answer", [b"[]", b'{"artifact_uri": 1}', b'{"artifact_uri": "a\\u001bb"}', b"{}"])
def test_a_server_that_is_none(site: Website, tmp_path: Path, answer: bytes) -> None:
    site.answers[f"{API}/model-versions/get-download-uri"] = says(200, answer)
    assert "another answer than its API says" in str(refused(tmp_path))


def test_init_names_the_model_in_a_version(site: Website, tmp_path: Path) -> None:
    source, path = find_source("mlflow:/models:/digits net@champion", tmp_path)
    assert (source.address, source.format, source.file) == (parse_address(ADDRESS), "saved_model", "saved")
    assert (path / "saved_model.pb").read_bytes() == b"graph"
