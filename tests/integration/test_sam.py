"""``sam validate --lint``, for real, and what a deployment puts together, of a small model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from builder.base.cache import compute_digest
from builder.base.project import Project
from builder.base.targets import ARM64, X86_64, Target
from builder.compiler.audit.audit_library import find_target
from builder.package.container_image import fill_image_context
from builder.release.deploy import Deployment, deploy_bundle
from builder.release.template_check import list_problems
from tests.support import abi_library

REPOSITORY = Path(__file__).parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.network]


@pytest.fixture(scope="module")
def sam() -> str:
    own = REPOSITORY / ".venv-sam" / "bin" / "sam"
    found = str(own) if own.exists() else shutil.which("sam")
    if found is None:
        pytest.fail("no SAM CLI: `make sam` installs it into .venv-sam")
    return found


@pytest.fixture(scope="module")
def project(sam: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A checkout with what a deployment reads of this one, and one bundle, whose statement nobody checks."""
    root = tmp_path_factory.mktemp("project")
    for name in ("template.yaml", "samconfig.toml"):
        shutil.copy(REPOSITORY / name, root)
    ignore = shutil.ignore_patterns("__pycache__", "content*")
    for name in ("handler", "layers"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=ignore)
    bundle = abi_library.layer(tmp_path_factory.mktemp("bundle"), abi_library.picture_description())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAM", sam)
        patch.setattr("builder.release.activate_bundle.find_checked", lambda *_: SimpleNamespace(layer=bundle))
        yield Project(root, root)


def validate(sam: str, folder: Path) -> None:
    environment = os.environ | {"SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1"}
    command = [sam, "validate", "--lint"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def stage(project: Project, target: Target) -> Path:
    """The folder below which the function and its layers are."""
    wanted = Deployment(("brightness",), "brightness", target)
    deploy_bundle(wanted, project, lambda _: None, sys.stdout, upload=False)
    return project.layers


@pytest.fixture
def built(project: Project) -> Path:
    return stage(project, X86_64)


def test_the_template_is_valid_before_and_after_it_is_built(sam: str, project: Project, built: Path) -> None:
    template = project.root / ".aws-sam" / "build" / "template.yaml"
    assert list(list_problems(template, {"ModelName": "brightness"})) == []
    validate(sam, project.root)
    shutil.rmtree(template.parent)
    validate(sam, project.root)


def test_the_function_holds_its_modules_and_no_tools(built: Path) -> None:
    modules = {p.name for p in (built / "function" / "content" / "handler").glob("*.py")}
    assert {"__init__.py", "app.py", "_abi.py"} <= modules
    assert modules == {p.name for p in (REPOSITORY / "handler").glob("*.py")} - {"_abi_build.py"}
    assert {p.name for p in (built / "function" / "content").iterdir()} == {"handler"}


def test_the_dependencies_are_for_lambda_whatever_python_built_them(built: Path) -> None:
    python = built / "dependencies" / "content" / "python"
    compiled = [p.name for p in python.rglob("*.so")]
    assert compiled
    assert all("cpython-313-x86_64-linux-gnu" in name for name in compiled)
    bytecode = {p.suffixes[0] for p in python.rglob("*.pyc")}
    assert bytecode <= {".cpython-313"}


def test_an_image_holds_the_same_function_for_any_user(built: Path, project: Project) -> None:
    before = os.umask(0o077)
    try:
        context = fill_image_context(project)
    finally:
        os.umask(before)
    for of_image, of_zip in (("task/handler", "function/content/handler"), ("opt", "model/content")):
        files = {p.relative_to(context / of_image) for p in (context / of_image).rglob("*") if p.is_file()}
        assert files == {p.relative_to(built / of_zip) for p in (built / of_zip).rglob("*") if p.is_file()}
    for path in context.rglob("*"):
        wanted = 0o555 if path.is_dir() else 0o444
        assert path.stat().st_mode & wanted == wanted, path


def test_building_again_gives_the_same_bytes(built: Path, project: Project) -> None:
    before = compute_digest(built)
    assert compute_digest(stage(project, X86_64)) == before


def test_arm64_takes_its_own_layers_and_a_library_for_another_processor_is_refused(project: Project) -> None:
    compiled = list((stage(project, ARM64) / "dependencies" / "content").rglob("*.so"))
    assert compiled
    assert {find_target(path) for path in compiled} == {ARM64}
    # The bundle's library is the one thing that is wrong.
    values = {"Architecture": "arm64", "ModelName": "brightness"}
    found = list(list_problems(project.root / ".aws-sam" / "build" / "template.yaml", values))
    assert len(found) == 1
    assert "lib/libmodel.so in ModelLayer is for x86_64" in found[0]
