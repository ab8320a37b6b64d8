"""What is deployed is the bundle of the model that was named, whatever was bundled last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.cli import main
from builder.deliver.stage import Staged, stage, staged_in
from builder.deliver.template_check import problems
from builder.errors import UsageError
from builder.project import Project
from builder.targets import ARM64, X86_64
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


def bundle(project: Project, folder: str, *models: tuple[str, str]) -> None:
    """A bundle's folder with what staging reads of it."""
    about = [{"model": {"name": name, "version": version}} for name, version in models]
    layer = project.dist / folder / "layer"
    (layer / "model").mkdir(parents=True)
    (layer / "model" / "manifest.json").write_text(json.dumps(about[0] if len(about) == 1 else {"models": about}))
    (layer / "lib").mkdir()
    (layer / "lib" / "libmodel.so").write_text(folder)
    sizes = {"components": [], "max_unzipped": 1, "max_zipped": 1}
    (project.dist / folder / "manifest.json").write_text(json.dumps({"sizes": sizes}))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path, tmp_path)  # a checkout
    bundle(made, "emotion", ("emotion", "1"))
    bundle(made, "digits", ("digits", "2"))
    bundle(made, "digits-arm64", ("digits", "3"))
    bundle(made, "digits-emotion", ("digits", "2"), ("emotion", "1"))
    return made


def test_the_named_bundle_is_staged(project: Project) -> None:
    content = project.layers / "model" / "content"
    assert stage(["emotion"], project, X86_64) == Staged("emotion", "1")
    assert stage(["digits"], project, X86_64) == Staged("digits", "2")
    assert (content / "lib" / "libmodel.so").read_text() == "digits"
    assert stage(["digits"], project, ARM64) == Staged("digits", "3")
    assert (content / "lib" / "libmodel.so").read_text() == "digits"
    assert (content.with_name("content-arm64") / "lib" / "libmodel.so").read_text() == "digits-arm64"
    assert stage(["digits", "emotion"], project, X86_64) == Staged("digits-emotion", "2+1")


def test_a_model_that_is_not_bundled_leaves_what_is_staged(project: Project) -> None:
    stage(["digits"], project, X86_64)
    with pytest.raises(UsageError, match="run `make bundle MODEL=flowers` first"):
        stage(["flowers"], project, X86_64)
    assert staged_in(project.layers / "model" / "content") == Staged("digits", "2")


def test_the_command_prints_what_make_reads(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "model.toml").write_text('[model]\nname = "digits"\nsource = "digits.keras"\n')
    monkeypatch.setattr(Project, "here", classmethod(lambda cls: project))
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
    stage(["digits"], project, X86_64)
    (problem,) = problems(template, {})
    assert problem.startswith("ModelName is emotion, but the model layer has digits 2: ")
    assert list(problems(template, {"ModelName": "digits"})) == []
    stage(["digits", "emotion"], project, X86_64)
    assert list(problems(template, {"ModelName": "digits-emotion"})) == []
