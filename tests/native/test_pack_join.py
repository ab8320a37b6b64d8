"""Several bundles in one layer, opened by name in one function."""

from __future__ import annotations

import base64
import importlib
import io
import json
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from builder.base.cache import file_digest
from builder.base.errors import SizeLimitError, UsageError
from builder.base.targets import ARM64
from builder.package.bundle import Bundle, activate_layer, find_bundle
from builder.package.components import LicensedPart, ShippedFile, list_shipped_files
from builder.package.join_bundles import combine_bundles, join_names
from builder.package.lambda_limits import Component, SizeTable
from builder.package.layer import files_of
from builder.package.sbom import sbom_json
from handler.errors import StartupError, UnknownModelError
from handler.model import Models
from handler.server import Server
from tests.support import abi_library

CONTEXT = SimpleNamespace(
    function_name="f",
    memory_limit_in_mb="128",
    invoked_function_arn="arn:aws:lambda:us-east-1:1:function:f",
    aws_request_id="request-1",
    get_remaining_time_in_millis=lambda: 15_000,
)
ROOM = 262_144_000


def bundle(dist: Path, compiled: Path, description: dict[str, Any], name: str, limit: int = ROOM) -> Bundle:
    """A bundle with everything that joining reads, around a real library."""
    description = description | {"model": {"name": name, "version": "7"}}
    layer = abi_library.layer(compiled / name, description)
    folder = dist / name
    shutil.copytree(layer, folder / "layer")
    library = (folder / "layer/lib/libmodel.so").stat().st_size
    manifest = {
        "model": description["model"],
        "target": {"arch": "x86_64"},
        "files": {"lib/libmodel.so": {"bytes": library, "sha256": "ab"}},
    }
    (folder / "layer/model/manifest.json").write_text(json.dumps(manifest))
    for file in ("model.h", "NOTICE", "provenance.json"):
        (folder / file).write_text(f"{file} of {name}")
    (folder / "model.json").write_text(json.dumps(description))
    (folder / "sbom.cdx.json").write_text(bill(folder / "layer", description))
    sizes = SizeTable((Component("model layer", library, 1), Component("function", 10_000, 5_000, False)), limit, ROOM)
    (folder / "manifest.json").write_text(json.dumps(manifest | {"sizes": sizes.to_dict()}))
    return Bundle.load(folder)


def bill(layer: Path, description: dict[str, Any]) -> str:
    """As ``pack`` writes it: the model's layer, what is compiled into the library, and the function."""
    names = ["lib/libmodel.so", "model/manifest.json"]
    inside = LicensedPart("openxla:xla", "XLA", "2.21.0", "Apache-2.0", inside=("/opt/lib/libmodel.so",))
    code = LicensedPart(
        "coldforge:handler", "handler", "1", "MIT", files=(ShippedFile("/var/task/handler/app.py", "ab"),)
    )
    return sbom_json(
        description=description,
        source={"sha256": "ab" * 32, "format": "keras"},
        files=list_shipped_files("/opt", [(name, layer / name) for name in names]),
        parts=[inside, code],
        versions={"coldforge": "0", "tensorflow": "0", "zig": "0"},
    )


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[Bundle]:
    root = tmp_path_factory.mktemp("join")
    picture, tensors = abi_library.picture_description, abi_library.tensor_description
    descriptions = {"faces": picture(batch=2), "product": tensors(), "digits": picture(width=2, height=2)}
    return [bundle(root / "dist", root / "compiled", text, name) for name, text in descriptions.items()]


@pytest.fixture(scope="module")
def joined(three: list[Bundle]) -> Bundle:
    return combine_bundles(three, three[0].folder.parent, epoch=315_532_800)


@pytest.fixture
def app(joined: Bundle, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("COLDFORGE_LIBRARY", str(joined.library))
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "f")
    sys.modules.pop("handler.app", None)
    yield importlib.import_module("handler.app")
    sys.modules.pop("handler.app", None)


def test_the_layer_holds_the_first_where_one_alone_would_be(joined: Bundle, three: list[Bundle]) -> None:
    with zipfile.ZipFile(joined.archive) as archive:
        assert archive.namelist() == [
            "lib/digits/libmodel.so",
            "lib/docs.html",
            "lib/libmodel.so",
            "lib/openapi.json",
            "lib/product/libmodel.so",
            "model/manifest.json",
        ]
        served = json.loads(archive.read("lib/openapi.json"))["paths"]
        assert archive.read("lib/libmodel.so") == three[0].library.read_bytes()
        assert archive.read("lib/product/libmodel.so") == three[1].library.read_bytes()
    assert {f"/v2/models/{name}/infer" for name in ("faces", "product", "digits")} <= served.keys()


def test_manifests_list_every_model(joined: Bundle) -> None:
    inside = json.loads((joined.layer / "model/manifest.json").read_text())
    assert [m["model"]["name"] for m in inside["models"]] == ["faces", "product", "digits"]
    assert [list(m["files"]) for m in inside["models"]] == [
        ["lib/libmodel.so"],
        ["lib/product/libmodel.so"],
        ["lib/digits/libmodel.so"],
    ]
    assert (joined.folder / "product" / "model.h").read_text() == "model.h of product"
    whole = json.loads(joined.manifest.read_text())
    assert whole["files"]["layer.zip"]["bytes"] == joined.archive.stat().st_size
    assert Bundle.load(joined.folder).sizes == joined.sizes


def test_the_bill_of_all_has_every_file_where_it_is_now(joined: Bundle) -> None:
    whole = json.loads(joined.sbom.read_text())
    files = {f["name"]: f["hashes"][0]["content"] for c in whole["components"] for f in c.get("components", [])}
    assert files.pop("/var/task/handler/app.py") == "ab"
    assert files == {f"/opt/{name}": file_digest(path) for name, path in files_of(joined.layer)}
    assert [c["bom-ref"] for c in whole["components"]].count("openxla:xla") == 1
    xla = next(c for c in whole["components"] if c["bom-ref"] == "openxla:xla")
    assert [p["value"] for p in xla["properties"]] == [
        "/opt/lib/libmodel.so",
        "/opt/lib/product/libmodel.so",
        "/opt/lib/digits/libmodel.so",
    ]
    references = {c["bom-ref"] for c in whole["components"]} | {"bundle:faces-product-digits"}
    for entry in whole["dependencies"]:
        assert {entry["ref"], *entry["dependsOn"]} <= references


def test_the_statement_of_all_names_those_of_each(joined: Bundle) -> None:
    statement = json.loads(joined.statement.read_text())
    named = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    files = dict(files_of(joined.folder))
    assert named == {name: file_digest(path) for name, path in files.items() if name != "provenance.json"}
    inputs = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [entry["name"] for entry in inputs] == [f"{n}/provenance.json" for n in ("faces", "product", "digits")]
    assert inputs[1]["digest"] == {"sha256": file_digest(joined.folder / "product" / "provenance.json")}
    assert "NOTICE of" not in joined.notice.read_text()  # their first lines


def test_the_same_models_give_the_same_bytes(joined: Bundle, three: list[Bundle]) -> None:
    before = joined.archive.read_bytes()
    assert combine_bundles(three, three[0].folder.parent, epoch=315_532_800).archive.read_bytes() == before


def test_sizes_are_of_all_together(joined: Bundle, three: list[Bundle]) -> None:
    (layer, function) = joined.sizes.components
    assert layer.unzipped > sum(b.library.stat().st_size for b in three)
    assert function == three[0].sizes.components[1]


def test_too_much_together_leaves_the_last_one_as_it_was(tmp_path: Path) -> None:
    one, two = (
        bundle(tmp_path / "dist", tmp_path / "compiled", abi_library.tensor_description(), name, 18_000)
        for name in ("a", "b")
    )
    limit = one.library.stat().st_size + 12_000
    tight = [Bundle(b.folder, SizeTable(b.sizes.components, limit, ROOM)) for b in (one, two)]
    with pytest.raises(SizeLimitError, match="Unzipped, all together"):
        combine_bundles(tight, tmp_path / "dist")
    assert not (tmp_path / "dist" / "a-b").exists()


def test_one_stays_as_it_is_and_none_comes_twice(three: list[Bundle]) -> None:
    assert combine_bundles(three[:1], three[0].folder.parent) is three[0]
    with pytest.raises(UsageError, match="faces is named twice"):
        join_names(["faces", "digits", "faces"])


def test_the_active_layer_has_all(joined: Bundle, tmp_path: Path) -> None:
    content = activate_layer(joined, tmp_path)
    assert (content / "lib/digits/libmodel.so").samefile(joined.layer / "lib/digits/libmodel.so")


def square(level: int) -> str:
    buffer = io.BytesIO()
    Image.new("L", (2, 2), level).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def test_a_request_chooses_its_model(app: ModuleType) -> None:
    first = app.lambda_handler({"image": square(9)}, CONTEXT)
    other = app.lambda_handler({"model": "digits", "image": square(9)}, CONTEXT)
    assert [a["model"]["name"] for a in (first, other)] == ["faces", "digits"]
    assert [len(a["predictions"][0]["pixels"]) for a in (first, other)] == [8, 2]
    assert app.lambda_handler({"model": "faces", "image": square(9)}, CONTEXT)["predictions"] == first["predictions"]
    tensors = {"a": [1, 2, 3, 4, 5, 6], "n": {"b64": base64.b64encode(b"\2" + bytes(7) + b"\1" + bytes(7)).decode()}}
    answer = app.lambda_handler({"model": "product", "inputs": tensors}, CONTEXT)
    assert answer["predictions"][0]["product"] == [2, 4, 6]
    assert answer["predictions"][1]["product"] == [4, 5, 6]


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"model": "none", "image": ""}, "unknown_model"),
        ({"model": "../digits", "image": ""}, "unknown_model"),
        ({"model": 1, "image": ""}, "wrong_type"),
        ({"model": "product", "image": ""}, "wrong_field"),
        ({"model": "digits"}, "wrong_field"),
    ],
)
def test_a_wrong_choice_is_an_error(app: ModuleType, event: object, code: str) -> None:
    assert app.lambda_handler(event, CONTEXT)["error"]["code"] == code


def test_only_the_first_is_opened_at_the_start(joined: Bundle, tmp_path: Path) -> None:
    copy = tmp_path / "lib"
    shutil.copytree(joined.library.parent, copy)
    (copy / "digits" / "libmodel.so").write_bytes(b"not ELF")
    models = Models(str(copy / "libmodel.so"))
    assert list(models) == ["faces", "digits", "product"]
    assert models["product"].description.name == "product"
    assert models["product"] is models["product"]
    with pytest.raises(StartupError, match="cannot be loaded"):
        models["digits"]
    with pytest.raises(UnknownModelError, match="choose from digits, faces, product"):
        Server(models, limits=None).find_model("x")  # type: ignore[arg-type]


def test_a_bundle_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no bundle of a-b for arm64: run `make bundle MODEL='a b' TARGET=arm64`"):
        find_bundle(tmp_path, "a-b", ARM64, "a b")
