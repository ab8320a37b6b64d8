"""``sam validate --lint`` and ``sam build``, for real, on a copy of the project with a small model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder.base.project import Project
from builder.base.targets import ARM64
from builder.compiler.audit.policy import find_target
from builder.package.container_image import fill_image_context
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
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a deployment reads of the repository, and a bundle's layer."""
    root = tmp_path_factory.mktemp("project")
    for name in ("template.yaml", "samconfig.toml"):
        shutil.copy(REPOSITORY / name, root)
    ignore = shutil.ignore_patterns("__pycache__", "content*")
    for name in ("handler", "layers"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=ignore)
    bundle = abi_library.layer(tmp_path_factory.mktemp("bundle"), abi_library.picture_description())
    shutil.copytree(bundle, root / "layers" / "model" / "content")
    return root


def run(sam: str, project: Path, *arguments: str, target: str = "x86_64") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "SAM_CLI_TELEMETRY": "0",
        "TARGET": target,
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYTHON": sys.executable,  # it has pip; which version it is does not matter
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run([sam, *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_the_template_is_valid(sam: str, project: Path) -> None:
    done = run(sam, project, "validate", "--lint")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(sam: str, project: Path) -> Path:
    done = run(sam, project, "build")
    assert done.returncode == 0, done.stdout + done.stderr
    return project / ".aws-sam" / "build"


def test_the_function_holds_its_modules_and_no_tools(built: Path) -> None:
    modules = {p.name for p in (built / "Function" / "handler").glob("*.py")}
    assert {"__init__.py", "app.py", "_abi.py"} <= modules
    assert modules == {p.name for p in (REPOSITORY / "handler").glob("*.py")} - {"_abi_build.py"}
    assert {p.name for p in (built / "Function").iterdir()} == {"handler"}


def test_the_model_layer_is_the_bundle(built: Path, project: Path) -> None:
    files = {str(p.relative_to(built / "ModelLayer")) for p in (built / "ModelLayer").rglob("*") if p.is_file()}
    content = project / "layers" / "model" / "content"
    assert files == {str(p.relative_to(content)) for p in content.rglob("*") if p.is_file()}
    assert {"lib/libmodel.so", "model/manifest.json"} <= files
    assert all((built / "ModelLayer" / name).read_bytes() == (content / name).read_bytes() for name in files)


def test_the_dependencies_are_for_lambda_whatever_python_built_them(built: Path) -> None:
    python = built / "DependenciesLayer" / "python"
    compiled = [p.name for p in python.rglob("*.so")]
    assert compiled
    assert all("cpython-313-x86_64-linux-gnu" in name for name in compiled)
    bytecode = {p.suffixes[0] for p in python.rglob("*.pyc")}
    assert bytecode <= {".cpython-313"}


def test_an_image_holds_the_same_function_for_any_user(built: Path, project: Path) -> None:
    before = os.umask(0o077)
    try:
        context = fill_image_context(Project(project))
    finally:
        os.umask(before)
    for of_image, of_zip in (("task/handler", "Function/handler"), ("opt", "ModelLayer")):
        files = {p.relative_to(context / of_image) for p in (context / of_image).rglob("*") if p.is_file()}
        assert files == {p.relative_to(built / of_zip) for p in (built / of_zip).rglob("*") if p.is_file()}
    for path in context.rglob("*"):
        wanted = 0o555 if path.is_dir() else 0o444
        assert path.stat().st_mode & wanted == wanted, path


def test_building_again_gives_the_same_bytes(built: Path, sam: str, project: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {str(p.relative_to(built)): p.read_bytes() for p in built.rglob("*") if p.is_file()}

    before = contents()
    assert run(sam, project, "build").returncode == 0
    after = contents()
    assert [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)] == []


def test_a_missing_model_says_what_to_do(sam: str, project: Path, tmp_path: Path) -> None:
    empty = tmp_path / "project"
    shutil.copytree(project, empty, ignore=shutil.ignore_patterns(".aws-sam", "content"))
    done = run(sam, empty, "build", "ModelLayer")
    assert done.returncode != 0
    assert "make bundle" in done.stdout + done.stderr


def test_arm64_takes_its_own_layers_and_a_library_for_another_processor_is_refused(
    sam: str, project: Path, tmp_path: Path
) -> None:
    content = project / "layers" / "model" / "content-arm64"
    shutil.copytree(project / "layers" / "model" / "content", content)
    (content / "model" / "arm64").touch()
    overrides = ("--parameter-overrides", "Architecture=arm64")
    done = run(sam, project, "build", "--build-dir", str(tmp_path), *overrides, target="arm64")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "ModelLayer" / "model" / "arm64").exists()
    compiled = list((tmp_path / "DependenciesLayer").rglob("*.so"))
    assert compiled
    assert {find_target(path) for path in compiled} == {ARM64}
    # The copied library is the one thing that is wrong.
    values = {"Architecture": "arm64", "ModelName": "brightness"}
    found = list(list_problems(tmp_path / "template.yaml", values))
    assert len(found) == 1
    assert "lib/libmodel.so in ModelLayer is for x86_64" in found[0]
