"""What is deployed is the bundle of the model that was named, whatever was bundled last."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import BundleError, UsageError
from builder.base.project import Project
from builder.base.targets import ARM64, X86_64, Target
from builder.cli import main
from builder.measure.diff.bundle_difference import BundleFacts
from builder.package.bundle import find_bundle
from builder.package.provenance import BUILD_TYPE, STATEMENT, statement_json
from builder.release.activate_bundle import ActiveBundle, activate_models, read_active_bundle
from builder.release.bindings.describe import parse_description
from builder.release.statement import open_envelope
from builder.release.template_check import list_problems
from tests.support.results import printed

TEMPLATE = """\
Parameters:
  ModelName: {Type: String, Default: emotion}
Resources:
  ModelLayer:
    Type: AWS::Serverless::LayerVersion
    Properties: {ContentUri: content}
  DependenciesLayer:
    Type: AWS::Serverless::LayerVersion
    Properties: {ContentUri: dependencies}
"""


def bundle(project: Project, folder: str, *models: tuple[str, str]) -> Path:
    """A bundle's folder with what staging and publishing read of it, and its statement."""
    about: list[dict[str, Any]] = [{"model": {"name": name, "version": version}} for name, version in models]
    manifest = about[0] if len(about) == 1 else {"models": about}
    sizes = {"components": [], "max_unzipped": 1, "max_zipped": 1}
    made = project.dist / folder
    for name, text in {
        "layer/model/manifest.json": json.dumps(manifest),
        "layer/lib/libmodel.so": folder,
        "layer.zip": "PK",
        "manifest.json": json.dumps(manifest | {"sizes": sizes}),
        "sbom.cdx.json": "{}",
        "NOTICE": "",
    }.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return state(made)


def state(folder: Path) -> Path:
    """Write the statement of the files that are in ``folder``."""
    (folder / STATEMENT).unlink(missing_ok=True)
    text = statement_json(
        folder,
        build_type=BUILD_TYPE,
        external={"model": "model.toml", "target": "x86_64", "package": "zip"},
        internal={},
        materials=[],
        builder="coldforge:host",
        versions={},
        environment={},
    )
    (folder / STATEMENT).write_text(text)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    def build_dependencies(_: Project, target: Target) -> tuple[bool, Path]:
        folder = tmp_path / "build" / f"dependencies{target.suffix}"
        (folder / "python").mkdir(parents=True, exist_ok=True)
        (folder / "python" / f"of_{target.name}.py").touch()
        return False, folder

    monkeypatch.setattr("builder.release.activate_bundle.build_dependencies", build_dependencies)
    made = Project(tmp_path)
    bundle(made, "emotion", ("emotion", "1"))
    bundle(made, "digits", ("digits", "2"))
    bundle(made, "digits-arm64", ("digits", "3"))
    bundle(made, "digits-emotion", ("digits", "2"), ("emotion", "1"))
    return made


def test_the_named_bundle_is_staged(project: Project) -> None:
    content = project.layers / "model" / "content"
    assert activate_models(["emotion"], project, X86_64) == ActiveBundle("emotion", "1")
    assert activate_models(["digits"], project, X86_64) == ActiveBundle("digits", "2")
    assert (content / "lib" / "libmodel.so").read_text() == "digits"
    assert (project.layers / "dependencies" / "content" / "python" / "of_x86_64.py").is_file()
    assert activate_models(["digits"], project, ARM64) == ActiveBundle("digits", "3")
    assert (content / "lib" / "libmodel.so").read_text() == "digits-arm64"
    assert [p.name for p in (project.layers / "dependencies" / "content" / "python").iterdir()] == ["of_arm64.py"]
    assert (project.layers / "function" / "content" / "handler" / "app.py").is_file()
    assert activate_models(["digits", "emotion"], project, X86_64) == ActiveBundle("digits-emotion", "2+1")


def test_a_model_that_is_not_bundled_leaves_what_is_staged(project: Project) -> None:
    activate_models(["digits"], project, X86_64)
    with pytest.raises(UsageError, match="run `make bundle MODEL=flowers` first"):
        activate_models(["flowers"], project, X86_64)
    assert read_active_bundle(project.layers / "model" / "content") == ActiveBundle("digits", "2")


def test_the_command_prints_what_make_reads(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "model.toml").write_text('[model]\nname = "digits"\nsource = "digits.keras"\n')
    monkeypatch.setattr(Project, "in_current_folder", classmethod(lambda cls: project))
    assert main(["stage", str(project.root), "--target", "x86_64"]) == 0
    assert capsys.readouterr().out == "digits 2\n"
    assert main(["stage", str(project.root), "--target", "x86_64", "--json"]) == 0
    assert printed("stage", capsys.readouterr().out) == {"name": "digits", "version": "2"}
    template = project.layers / "model" / "template.yaml"
    template.write_text(TEMPLATE)
    assert main(["check", "ModelName=digits", "--template", str(template), "--json"]) == 0
    assert printed("check", capsys.readouterr().out) == {"template": str(template)}


def test_a_stack_is_not_given_another_model(project: Project) -> None:
    """A stack named coldforge-emotion got another model's layer, and nobody said so."""
    template = project.layers / "model" / "template.yaml"
    (project.layers / "model").mkdir(parents=True)
    template.write_text(TEMPLATE)
    activate_models(["digits"], project, X86_64)
    (problem,) = list_problems(template, {})
    assert problem.startswith("ModelName is emotion, but the model layer has digits 2: ")
    assert list(list_problems(template, {"ModelName": "digits"})) == []
    activate_models(["digits", "emotion"], project, X86_64)
    assert list(list_problems(template, {"ModelName": "digits-emotion"})) == []


def exchange(path: Path) -> None:
    path.write_text("another")


def delete(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    """Put a link to the very same bytes, outside of the bundle, in the place of ``path``."""
    folder = next(folder for folder in path.parents if (folder / STATEMENT).exists())
    path.symlink_to(path.rename(folder.with_name(f"moved-{path.name}")))


def add(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("print('hello')")


def add_link(path: Path) -> None:
    path.symlink_to("/")


def add_pipe(path: Path) -> None:
    os.mkfifo(path)


ATTACKS: list[tuple[Callable[[Path], None], str]] = [
    (add, "layer/python/sitecustomize.py"),
    (add, "layer/lib/other.so"),
    (add, "sitecustomize.py"),
    (add_link, "layer/python"),
    (add_link, "layer/lib/link"),
    (add_pipe, "layer/lib/pipe"),
    (exchange, "layer/lib/libmodel.so"),
    (exchange, "layer/model/manifest.json"),
    (exchange, "layer.zip"),
    (delete, "layer/lib/libmodel.so"),
    (delete, "layer.zip"),
    (delete, STATEMENT),
    (link, "layer/lib/libmodel.so"),
    (link, "layer/lib"),
    (link, "layer.zip"),
    (delete, "manifest.json"),
]


@pytest.mark.parametrize("command", ["stage", "publish"])
@pytest.mark.parametrize(("attack", "name"), ATTACKS)
def test_a_bundle_that_its_statement_contradicts_reaches_no_layer(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    attack: Callable[[Path], None],
    name: str,
) -> None:
    (project.root / "model.toml").write_text('[model]\nname = "digits"\nsource = "digits.keras"\n')
    monkeypatch.setattr(Project, "in_current_folder", classmethod(lambda cls: project))
    activate_models(["emotion"], project, X86_64)
    attack(project.dist / "digits" / name)
    assert main([command, str(project.root), "--target", "x86_64"]) == BundleError.exit_code
    assert name in capsys.readouterr().err
    assert read_active_bundle(project.layers / "model" / "content") == ActiveBundle("emotion", "1")


@pytest.mark.parametrize("name", ["manifest.json", "layer/model/manifest.json"])
def test_a_manifest_that_is_nested_too_deep_is_an_error_by_name(project: Project, name: str) -> None:
    (project.dist / "digits" / name).write_text("[" * 100_000 + "]" * 100_000)
    state(project.dist / "digits")
    with pytest.raises(BundleError, match=f"{name} is not a bundle's manifest"):
        activate_models(["digits"], project, X86_64)
    assert read_active_bundle(project.layers / "model" / "content") is None


@pytest.mark.parametrize("text", ["[" * 101 + "]" * 101, '{"a":' * 500 + "1" + "}" * 500, "[" * 100_000, "[]", "3"])
def test_json_of_another_form_is_an_error_of_every_reader(project: Project, text: str) -> None:
    for name in ("manifest.json", "sbom.cdx.json"):
        (project.dist / "digits" / name).write_text(text)
    with pytest.raises(UsageError, match="there is no bundle"):
        find_bundle(project.dist, "digits", X86_64)
    with pytest.raises(UsageError, match="there is no bundle"):
        BundleFacts.from_folder(project.dist / "digits")
    with pytest.raises(UsageError, match=r"model\.json cannot be used"):
        parse_description(text)
    with pytest.raises(ValueError, match=r"DSSE|nested"):
        open_envelope(text)


def test_a_bundle_of_another_model_is_not_taken_for_the_named_one(project: Project) -> None:
    (project.dist / "emotion").rename(project.dist / "flowers")
    with pytest.raises(BundleError, match="a bundle of model emotion, not of flowers"):
        activate_models(["flowers"], project, X86_64)
