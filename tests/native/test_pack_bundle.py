"""Packing a real library, and what happens to the previous bundle."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from builder.base import files
from builder.base.cache import file_digest
from builder.base.errors import AuditError, SizeLimitError, VerifyError
from builder.base.project import Project
from builder.base.targets import ARM64, X86_64
from builder.compiler.audit import audit_file
from builder.compiler.emit import GeneratedSources
from builder.compiler.lower.decisions import LoweringReport
from builder.compiler.xla.tfcompile import CompiledGraph
from builder.config import ModelSpec, Source
from builder.package.bundle import Bundle, activate_layer, list_bundle_files
from builder.package.dependencies import read_lock
from builder.pipeline.compile_graph import CompiledModel, CompiledVariant
from builder.pipeline.fallbacks import VerifiedLibrary
from builder.pipeline.lower_program import ATTEMPTS, EmittedSources
from builder.pipeline.pack_bundle import write_bundle
from builder.pipeline.workspace import Workspace
from builder.verify.compare_answers import verify_library
from builder.verify.quantise.precision import Precision, PrecisionChoice, Ratio, Timing, TriedPrecision
from tests.support import needs
from tests.support.hand_model import CASES, HAND_MODEL, model_spec, write_golden
from tests.support.wheels import install
from tests.support.zig import shared_library

DESCRIPTION = {
    "abi": 1,
    "coldforge": "0.1.0",
    "model": {"name": "hand", "version": "1"},
    "target": {"arch": "x86_64", "isa": ["x86-64-v3"]},
    "batch": 1,
    "feeds": [
        {"name": "x", "dtype": "float32", "shape": [1, 4], "bytes": 16},
        {"name": "n", "dtype": "int32", "shape": [2], "bytes": 8},
    ],
    "fetches": [
        {"name": "y", "dtype": "float32", "shape": [1, 3], "bytes": 12},
        {"name": "k", "dtype": "int64", "shape": [2], "bytes": 16},
        {"name": "b", "dtype": "bool", "shape": [3], "bytes": 3},
    ],
    "image": None,
    "outputs": [{"name": "class", "fetch": "y", "kind": "classification", "labels": ["a", "b", "c"], "top_k": None}],
}
LOCK = f"""# locked
--only-binary :all:
Pillow==13.0.0 \\
    --hash=sha256:{"1" * 64} \\
    --hash=sha256:{"2" * 64}
aws_lambda.powertools[all]==3.37.0 ; python_version >= "3.9" --hash=sha256:{"3" * 64}  # logging
cffi==2.1.1
"""

Packer = Callable[..., Bundle]


@dataclass(frozen=True)
class Made:
    """A library that passed everything, and the folder of a project with what else goes into a function."""

    spec: ModelSpec
    library: VerifiedLibrary
    parts: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, parts = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("parts")
    path = shared_library(folder / "libmodel.so", HAND_MODEL, "-lm", "-Wl,-soname,libmodel.so")
    model = folder / "secret" / "hand.keras"
    model.parent.mkdir()
    model.write_bytes(b"trained")
    (folder / "hand.toml").write_text("")
    spec = replace(model_spec(), path=folder / "hand.toml", source=Source("keras", model))
    os.environ.pop("COLDFORGE_TEST_BEHAVIOUR", None)
    for name, content in (
        ("layers/dependencies/requirements.txt", LOCK.encode()),
        ("handler/app.py", bytes(2_000)),
    ):
        (parts / name).parent.mkdir(parents=True)
        (parts / name).write_bytes(content)
    install(parts / "build/dependencies/python", "pillow", "13.0.0", {"PIL/image.so": bytes(50_000)})
    graph = write_golden(folder, CASES)
    kernels = CompiledGraph(folder, X86_64, "--xla_cpu_multi_thread_eigen=false", "2.21.0", 0.0)
    library = VerifiedLibrary(
        path=path,
        emitted=emitted(folder / "lower", CompiledModel(model, (CompiledVariant(graph, kernels),))),
        lowering=LoweringReport("optimised", 0, ()),
        audit=audit_file(path, X86_64),
        roundings=(None,),
        verification=verify_library(path, graph, spec),
        versions={"coldforge": "0.1.0", "python": "3.13.1", "tensorflow": "2.21.0", "zig": "0.17.0"},
    )
    return Made(spec, library, parts)


@pytest.fixture
def packer(made: Made, tmp_path: Path) -> Packer:
    """Packs in the project at ``root``, ``without`` some of its parts, the library with ``changes``."""

    def packed(
        root: Path = tmp_path, spec: ModelSpec = made.spec, without: Sequence[str] = (), **changes: Any
    ) -> Bundle:
        for part in ("layers", "build", "handler"):
            shutil.rmtree(root / part, ignore_errors=True)
            if part not in without:
                shutil.copytree(made.parts / part, root / part)
        return write_bundle(Workspace(spec, Project(root), X86_64), replace(made.library, **changes))

    return packed


def emitted(
    folder: Path, compiled: CompiledModel, description: Any = DESCRIPTION, *, header: bool = True
) -> EmittedSources:
    """Sources in ``folder``, as the lower stage leaves them."""
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(description))
    GeneratedSources(folder, ("program.c",), ("x86-64-v3",)).save()
    if header:
        (folder / "model.h").write_text("/* header */\n")
    return EmittedSources(ATTEMPTS[0], folder, compiled)


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_bundle_holds_what_the_handler_and_sam_look_for(packer: Packer, made: Made) -> None:
    bundle = packer()
    assert bundle.folder.name == "hand"
    assert set(content(bundle.folder)) == {
        "layer/lib/libmodel.so",
        "layer/lib/openapi.json",
        "layer/lib/docs.html",
        "layer/model/manifest.json",
        "layer.zip",
        "manifest.json",
        "sbom.cdx.json",
        "NOTICE",
        "provenance.json",
        "model.h",
        "model.json",
    }
    required, optional = list_bundle_files("hand")  # of which a container's bundle is taken
    assert set(content(bundle.folder)) - {"layer.zip"} == set(required)
    assert "layer.zip" in optional
    assert bundle.library.read_bytes() == made.library.path.read_bytes()
    assert json.loads(bundle.description.read_text()) == DESCRIPTION
    with zipfile.ZipFile(bundle.archive) as archive:
        assert {n: archive.read(n) for n in archive.namelist()} == content(bundle.layer)
    assert [c.name for c in bundle.sizes.components] == ["model layer", "dependencies layer", "function"]
    assert bundle.sizes.components[0].zipped == bundle.archive.stat().st_size
    assert bundle.sizes.components[0].unzipped == sum(map(len, content(bundle.layer).values()))
    assert Bundle.load(bundle.folder) == bundle
    assert list(bundle.folder.parent.iterdir()) == [bundle.folder]


def test_what_does_not_change_is_not_zipped_again_for_its_size(made: Made, tmp_path: Path) -> None:
    for part in ("build", "handler", "layers"):
        shutil.copytree(made.parts / part, tmp_path / part)
    ws = Workspace(made.spec, Project(tmp_path, tmp_path), X86_64)

    def sizes() -> tuple[int, int]:
        _, dependencies, function = write_bundle(ws, made.library).sizes.components
        return dependencies.zipped, function.zipped

    before = sizes()
    for kept in tmp_path.glob("build/size-of-*/size.json"):  # another number of the same length: so it was read
        kept.write_text(re.sub(r'("zipped": )\d', r"\g<1>9", kept.read_text()))
    again = sizes()
    assert [str(n)[0] for n in again] == ["9", "9"]
    assert [str(n)[1:] for n in again] == [str(n)[1:] for n in before]
    (tmp_path / "handler" / "__pycache__").mkdir()
    (tmp_path / "handler" / "__pycache__" / "app.pyc").write_bytes(b"bytecode")  # no part of the zip
    assert sizes() == again
    (tmp_path / "handler" / "app.py").write_bytes(os.urandom(2_000))
    assert sizes()[0] == again[0]
    assert 2_000 < sizes()[1] < 2_500


def test_the_manifest_tells_everything_and_hashes_are_right(packer: Packer, made: Made) -> None:
    bundle = packer()
    manifest = json.loads(bundle.manifest.read_text())
    assert manifest["schema"] == 1
    assert manifest["model"] == {
        "name": "hand",
        "version": "1",
        "source": {"format": "keras", "sha256": file_digest(made.library.compiled.path), "file": "hand.keras"},
    }
    assert manifest["built_with"]["python"] == "3.13.1"
    assert manifest["xla_flags"] == "--xla_cpu_multi_thread_eigen=false"
    assert manifest["outputs"][0]["labels"] == ["a", "b", "c"]
    assert manifest["verification"]["outputs"][0]["max_absolute"] == 0.0
    assert manifest["audit"]["passed"] is True
    assert manifest["audit"]["facts"]["relro"] == "full"
    assert manifest["sizes"] == bundle.sizes.to_dict()
    for name, entry in manifest["files"].items():
        data = (bundle.folder / name).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert set(manifest["files"]) == set(content(bundle.folder)) - {"manifest.json", "provenance.json"}
    assert "secret" not in "".join(p.read_text() for p in (bundle.manifest, bundle.sbom, bundle.statement))


def test_packing_twice_gives_the_same_bytes(packer: Packer, tmp_path: Path) -> None:
    previous = os.umask(0o077)
    try:
        first = content(packer(tmp_path / "one").folder)
    finally:
        os.umask(previous)
    assert content(packer(tmp_path / "two").folder) == first


def test_the_layer_does_not_depend_on_the_machine_that_built_it(packer: Packer, made: Made) -> None:
    here = packer().archive.read_bytes()
    timing = Timing((Ratio("x86-64-v3", 1, 0.8),))
    choice = PrecisionChoice(0.99, "pictures", (TriedPrecision(Precision("int8"), 1.0, timing),))
    elsewhere = packer(versions={**made.library.versions, "python": "3.12.9"}, without=["handler"], choice=choice)
    assert elsewhere.archive.read_bytes() == here
    assert json.loads(elsewhere.manifest.read_text())["auto"] == json.loads(json.dumps(choice.to_dict()))
    in_layer = json.loads((elsewhere.layer / "model" / "manifest.json").read_text())
    assert not {"verification", "sizes", "audit", "auto"} & set(in_layer)


def test_modes_do_not_follow_the_umask(packer: Packer) -> None:
    previous = os.umask(0o077)
    try:
        folder = packer().folder
    finally:
        os.umask(previous)
    for path in (folder, *folder.rglob("*")):
        wanted = 0o755 if path.is_dir() or path.suffix == ".so" else 0o644
        if path.suffix != ".zip":
            assert path.stat().st_mode & 0o777 == wanted, path


def test_a_failed_build_leaves_the_last_bundle_alone(packer: Packer, made: Made, tmp_path: Path) -> None:
    bundle = packer()
    before = content(bundle.folder)
    worse = replace(made.library.verification, failures=("it sulks",))
    failing = replace(made.library.audit, violations=audit_file(made.library.path, ARM64).violations)
    for error, changes in (
        (VerifyError, {"verification": worse}),
        (AuditError, {"audit": failing}),
        (SizeLimitError, {"spec": replace(made.spec, max_unzipped=1000)}),
        (FileNotFoundError, {"path": tmp_path / "absent.so"}),
        (FileNotFoundError, {"emitted": emitted(tmp_path / "no header", made.library.compiled, header=False)}),
    ):
        with pytest.raises(error):
            packer(**changes)
        assert content(bundle.folder) == before
        assert list(bundle.folder.parent.iterdir()) == [bundle.folder]


def test_a_new_build_takes_the_place_of_the_old_one(packer: Packer, made: Made, tmp_path: Path) -> None:
    packer()
    second = emitted(
        tmp_path / "second", made.library.compiled, DESCRIPTION | {"model": {"name": "hand", "version": "2"}}
    )
    bundle = packer(emitted=second)
    assert json.loads(bundle.manifest.read_text())["model"]["version"] == "2"
    assert list(bundle.folder.parent.iterdir()) == [bundle.folder]


def test_activating_puts_the_layer_where_sam_builds_it(packer: Packer, tmp_path: Path) -> None:
    bundle = packer()
    layers = tmp_path / "layers"
    stale = layers / "model" / "content" / "lib" / "stale.so"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"")
    assert activate_layer(bundle, layers) == layers / "model" / "content"
    assert content(layers / "model" / "content") == content(bundle.layer)
    assert (layers / "model" / "content" / "lib" / "libmodel.so").samefile(bundle.library)
    assert [p.name for p in (layers / "model").iterdir()] == ["content"]


def test_activating_copies_where_links_are_not_possible(
    packer: Packer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("cross-device link")

    bundle = packer()
    monkeypatch.setattr(os, "link", refuse)
    activate_layer(bundle, tmp_path / "layers")
    assert content(tmp_path / "layers" / "model" / "content") == content(bundle.layer)


def interrupted(target: Path) -> None:
    with files.replace_folder(target) as fresh:
        (fresh / "value").write_text("half")
        raise KeyboardInterrupt


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_changes_place_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool) -> None:
    if not exchange:
        monkeypatch.setattr(files, "_exchange_paths", lambda *_: False)
    target = tmp_path / "target"
    for value in ("old", "new"):
        with files.replace_folder(target) as fresh:
            (fresh / "value").write_text(value)
    assert content(target) == {"value": b"new"}
    with pytest.raises(KeyboardInterrupt):
        interrupted(target)
    assert content(target) == {"value": b"new"}
    assert list(tmp_path.iterdir()) == [target]


def test_when_the_last_step_fails_the_old_folder_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_exchange_paths", lambda *_: False)
    target = tmp_path / "target"
    target.mkdir()
    (target / "value").write_text("old")
    with pytest.raises(OSError, match="No such file"):
        files.swap_folders(tmp_path / "never made", target)
    assert content(target) == {"value": b"old"}


def test_readers_never_find_nothing(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with files.replace_folder(target) as fresh:
        (fresh / "value").write_text("0")
    probe = [tmp_path / "a", tmp_path / "b"]
    for path in probe:
        path.mkdir()
    if not files._exchange_paths(*probe):
        pytest.skip("this file system cannot exchange two folders")
    done, missing = threading.Event(), []

    def read() -> None:
        while not done.is_set():
            if not target.is_dir():
                missing.append(1)

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(100):
        with files.replace_folder(target) as fresh:
            (fresh / "value").write_text(str(i))
    done.set()
    reader.join()
    assert not missing


def test_the_lock_file_gives_names_versions_and_hashes(made: Made, tmp_path: Path) -> None:
    packages = read_lock(made.parts / "layers" / "dependencies" / "requirements.txt")
    assert [(p.name, p.version, len(p.hashes)) for p in packages] == [
        ("aws-lambda-powertools", "3.37.0", 1),
        ("cffi", "2.1.1", 0),
        ("pillow", "13.0.0", 2),
    ]
    (tmp_path / "loose.txt").write_text("pillow>=12\n")
    with pytest.raises(Exception, match=r"loose\.txt: 'pillow>=12' is not pinned"):
        read_lock(tmp_path / "loose.txt")


def test_the_bill_of_materials_is_valid_and_complete(packer: Packer) -> None:
    text = packer().sbom.read_text()
    bill = json.loads(text)
    assert [c["name"] for c in bill["components"]] == [
        "hand",
        "libmodel.so",
        "coldforge runtime",
        "XLA",
        "Eigen",
        "compiler-rt",
        "pillow",
        "coldforge handler",
    ]
    assert "serialNumber" not in bill
    assert "timestamp" not in bill["metadata"]
    references = {c["bom-ref"] for c in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    for entry in bill["dependencies"]:
        assert {entry["ref"], *entry["dependsOn"]} <= references
    assert valid(text)


def valid(text: str) -> bool:
    """Whether CycloneDX's own library takes the bill."""
    json_validation = needs.needs_module("cyclonedx.validation.json")
    schema = needs.needs_module("cyclonedx.schema")
    return json_validation.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(text) is None


def test_the_hashes_in_the_bill_are_what_sha256sum_says(packer: Packer, made: Made) -> None:
    bundle = packer()
    network, library, *_ = json.loads(bundle.sbom.read_text())["components"]
    assert network["hashes"][0]["content"] == file_digest(made.library.compiled.path)
    assert library["hashes"][0]["content"] == file_digest(bundle.library)
    files = {file["name"]: file["hashes"][0]["content"] for file in library["components"]}
    assert files == {f"/opt/{name}": file_digest(bundle.layer / name) for name in content(bundle.layer)}


def test_a_bill_without_packages_is_valid_too(packer: Packer) -> None:
    bundle = packer(without=["layers", "build"])
    assert "pillow" not in bundle.sbom.read_text()
    assert valid(bundle.sbom.read_text())
    assert [c.name for c in bundle.sizes.components] == ["model layer", "function"]


def test_the_notice_has_every_licence_once(packer: Packer) -> None:
    text = packer().notice.read_text()
    assert text.count("You may do with pillow what you like.") == 1
    assert text.count("Permission is hereby granted, free of charge, to any person obtaining a copy") >= 1
    assert "Copyright (c) 2026 the coldforge authors" in text
    for name in (
        "Apache License",
        "Mozilla Public License Version 2.0",
        "Copyright (c) Zig contributors",
        "LLVM Exceptions",
    ):
        assert name in text


def test_the_statement_names_every_file_and_every_input(packer: Packer, made: Made) -> None:
    bundle = packer()
    statement = json.loads(bundle.statement.read_text())
    assert (statement["_type"], statement["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    named = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    there = {name: hashlib.sha256(data).hexdigest() for name, data in content(bundle.folder).items()}
    assert named == {name: sha for name, sha in there.items() if name != "provenance.json"}
    definition, run = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    assert definition["externalParameters"] == {"model": "hand.toml", "target": "x86_64", "package": "zip"}
    assert definition["internalParameters"] == {"xla_flags": "--xla_cpu_multi_thread_eigen=false"}
    inputs = {entry["name"]: entry for entry in definition["resolvedDependencies"]}
    assert inputs["trained model hand.keras"]["digest"] == {"sha256": file_digest(made.library.compiled.path)}
    assert inputs["hand.toml"]["digest"] == {"sha256": file_digest(made.spec.path)}
    assert inputs["tensorflow-cpu"]["uri"] == "pkg:pypi/tensorflow-cpu@2.21.0"
    assert inputs["pillow-13.0.0-py3-none-any.whl"]["digest"]["sha256"] == hashlib.sha256(b"pillow").hexdigest()
    assert set(inputs["coldforge/builder"]["digest"]) == {"dirHash"}
    assert run["builder"]["version"]["zig"] == "0.17.0"
    assert "metadata" not in run


def test_a_statement_has_the_time_that_is_asked_for(packer: Packer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    statement = json.loads(packer().statement.read_text())
    assert statement["predicate"]["runDetails"]["metadata"] == {"finishedOn": "1970-01-02T00:00:00Z"}
