"""The wheel, installed without its checkout: projects beside each other, in folders with spaces and other letters."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.cache import digest
from tests.conftest import ROOT
from tests.support.graphs import SMALL_GRAPH

pytestmark = [pytest.mark.integration, pytest.mark.network]


@dataclass(frozen=True)
class Installed:
    """``wheel``: the names in it; ``packages``: where it is installed; ``command``: coldforge."""

    wheel: tuple[str, ...]
    packages: Path
    command: Path

    def run(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([self.command, *arguments], env=clean(), capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done


def clean(**more: str) -> dict[str, str]:
    """The environment of somebody who has no checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """In an environment of its own, with the packages of this one, which a wheel's installation would fetch."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    building = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(building, env=clean(), check=True)
    (wheel,) = folder.glob("coldforge-*.whl")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], env=clean(), check=True)
    packages = folder / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with zipfile.ZipFile(wheel) as archive:
        return Installed(tuple(archive.namelist()), packages, python.with_name("coldforge"))


def test_the_wheel_is_one_package_with_every_file_of_the_builder(installed: Installed) -> None:
    tops = {name.partition("/")[0] for name in installed.wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"coldforge"}
    for folder in ("builder", "handler", "layers/dependencies"):
        files = {p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file()}
        own = {f for f in files if "__pycache__" not in f and "builder/installed" not in f and "/content" not in f}
        assert {f"coldforge/home/{name}" for name in own} <= set(installed.wheel)
    assert not [name for name in installed.wheel if name.endswith(".pyc") or "/tests/" in name]


def test_two_projects_at_once_and_nothing_of_theirs_in_the_installation(installed: Installed, tmp_path: Path) -> None:
    before = contents(installed.packages)
    (tmp_path / "graph.pbtxt").write_text(SMALL_GRAPH)
    folders = [tmp_path / "größe eins", tmp_path / "größe zwei"]
    for folder in folders:
        installed.run("new", folder, "--from", tmp_path / "graph.pbtxt")
    building = [
        subprocess.Popen(
            ["make", "bundle"], cwd=folder, text=True, env=clean(COLDFORGE=str(installed.command)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for folder in folders
    ]  # fmt: skip
    said = [process.communicate()[0] for process in building]
    assert [process.returncode for process in building] == [0, 0], "\n".join(said)
    assert "try it: coldforge invoke\n" in said[0]
    for folder, name in zip(folders, ("gr_e_eins", "gr_e_zwei"), strict=True):
        assert (folder / "dist" / name / "layer.zip").is_file()
        for part in ("model/content/lib/libmodel.so", "dependencies/content/python/PIL", "function/content/handler"):
            assert (folder / "layers" / part).exists()
    environment = clean(COLDFORGE=str(installed.command), PYTHON=sys.executable)
    tested = subprocess.run(
        ["make", "test"], cwd=folders[0], env=environment, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "answer.json is new" in tested.stdout
    checked = installed.run("-C", folders[0], "check", "--template", "template.yaml")
    assert checked.stderr == ""
    assert contents(installed.packages) == before


def test_messages_name_the_command_that_is_there(installed: Installed, tmp_path: Path) -> None:
    said = installed.run("-C", tmp_path, "bundle", code=2).stderr
    assert "coldforge new" in said
    (tmp_path / "model.toml").write_text('[model]\nsource = "a.keras"\nname = "a"\n')
    assert "run `coldforge bundle` first" in installed.run("-C", tmp_path, "stage", code=2).stderr


def contents(folder: Path) -> dict[str, str]:
    """Digests of all files but bytecode, which Python writes of any package."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix != ".pyc")
    return {p.relative_to(folder).as_posix(): digest(p) for p in files}
