"""The wheel, installed without its checkout: projects beside each other, in folders with spaces and other letters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from builder.base.cache import compute_digest
from tests.conftest import ROOT
from tests.support.graphs import SMALL_GRAPH
from tests.support.installed import OFFLINE, Installed, clean, install

pytestmark = [pytest.mark.integration, pytest.mark.network]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("installed"))


def test_the_wheel_is_one_package_with_every_file_of_the_builder(installed: Installed) -> None:
    tops = {name.partition("/")[0] for name in installed.wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"coldforge"}
    for folder in ("builder", "handler", "layers/dependencies"):
        files = {p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file()}
        own = {f for f in files if "__pycache__" not in f and "builder/installed" not in f and "/content" not in f}
        assert {f"coldforge/home/{name}" for name in own} <= set(installed.wheel)
    pages = {f"coldforge/home/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert pages == {name for name in installed.wheel if name.startswith("coldforge/home/docs/") and name[-3:] == ".md"}
    assert installed.run("docs", "projects").stdout == (ROOT / "docs" / "projects.md").read_text(encoding="utf-8")
    assert not [name for name in installed.wheel if name.endswith(".pyc") or "/tests/" in name]


def test_two_projects_at_once_and_nothing_of_theirs_in_the_installation(installed: Installed, tmp_path: Path) -> None:
    before = contents(installed.packages)
    (tmp_path / "graph.pbtxt").write_text(SMALL_GRAPH)
    (tmp_path / "tools").mkdir()
    tool = tmp_path / "tools" / "coldforge"  # as pipx and uv put it on the path
    tool.symlink_to(installed.command)
    folders = [tmp_path / "größe eins", tmp_path / "größe zwei"]
    for folder, command in zip(folders, (installed.command, tool), strict=True):
        new = [command, "new", folder.name, "--from", "graph.pbtxt"]
        subprocess.run(new, cwd=tmp_path, env=clean(), check=True)
    building = [
        subprocess.Popen(
            ["make", "bundle"], cwd=folder, text=True, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for folder in folders
    ]
    said = [process.communicate()[0] for process in building]
    assert [process.returncode for process in building] == [0, 0], "\n".join(said)
    assert "try it: coldforge invoke\n" in said[0]
    for folder, name in zip(folders, ("gr_e_eins", "gr_e_zwei"), strict=True):
        assert (folder / "dist" / name / "layer.zip").is_file()
        for part in ("model/content/lib/libmodel.so", "dependencies/content/python/PIL", "function/content/handler"):
            assert (folder / "layers" / part).exists()
        assert not (folder / ".venv").exists()
    assert "answer.json is new" in made(folders[0], "test", PYTHON=sys.executable)
    checked = installed.run("-C", folders[0], "check", "--template", "template.yaml")
    assert checked.stderr == ""

    third = tmp_path / "third"
    installed.run("new", third, "--from", tmp_path / "graph.pbtxt")
    made(third, "tests/answer.json", **OFFLINE)
    assert json.loads((third / "tests" / "answer.json").read_text())["model"]["name"] == "third"
    assert not (third / ".venv").exists()
    assert contents(installed.packages) == before


def made(folder: Path, goal: str, **environment: str) -> str:
    """Run `make` in ``folder``; the text of both streams."""
    done = subprocess.run(
        ["make", goal], cwd=folder, env=clean(**environment), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_messages_name_the_command_that_is_there(installed: Installed, tmp_path: Path) -> None:
    said = installed.run("-C", tmp_path, "bundle", code=2).stderr
    assert "coldforge new" in said
    (tmp_path / "model.toml").write_text('[model]\nsource = "a.keras"\nname = "a"\n')
    assert "run `coldforge bundle` first" in installed.run("-C", tmp_path, "stage", code=2).stderr


def contents(folder: Path) -> dict[str, str]:
    """Digests of all files but bytecode, which Python writes of any package."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix != ".pyc")
    return {p.relative_to(folder).as_posix(): compute_digest(p) for p in files}
