"""The first commands of README on machines that lack something: they work, or say in a line what to install."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, active_bundle
from tests.support.interpreters import find_python
from tests.support.machine import Machine
from tests.support.needs import needs

pytestmark = [pytest.mark.integration, pytest.mark.network]

FIRST = ("bundle", "invoke", "doctor", "setup", "deploy")


def reasons(stderr: str) -> list[str]:
    """The lines of ``stderr``, without those in which make itself says that a command failed."""
    return [line for line in stderr.splitlines() if not line.startswith(("make: ***", "make[1]: ***"))]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.create(tmp_path)


@pytest.mark.parametrize("version", [None, "3.9", "3.10"])
def test_a_machine_without_a_python_that_is_supported(machine: Machine, version: str | None) -> None:
    if version:
        if (path := find_python(version)) is None:
            pytest.skip(f"there is no Python {version}")
        machine.add("python3", path)
    for goal in FIRST:
        done = machine.make(goal)
        assert done.returncode
        (reason,) = reasons(done.stderr)
        assert "3.11" in reason
        assert "install" in reason.lower()
    assert machine.make("help").returncode == 0


def test_a_python_that_is_named_where_it_has_a_space_in_its_path(machine: Machine, tmp_path: Path) -> None:
    named = tmp_path / "my tools" / "python3"
    named.parent.mkdir()
    named.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    named.chmod(0o755)
    assert "make bundle works here" in machine.make("doctor", f"PYTHON={named}").stdout
    assert "PYTHON" in reasons(machine.make("doctor", f"PYTHON={tmp_path}/nowhere").stderr)[0]


def test_a_python_without_venv(machine: Machine, tmp_path: Path) -> None:
    """As Debian's, whose package python3 leaves ensurepip to python3-venv."""
    library = Path(os.__file__).parent
    home = tmp_path / "home"
    (home / "lib" / library.name).mkdir(parents=True)
    for path in library.iterdir():
        if path.name not in ("ensurepip", "site-packages"):
            (home / "lib" / library.name / path.name).symlink_to(path)
    machine.add("python3", f'{machine.programs}/env" "PYTHONHOME={home}" "{Path(sys.executable).resolve()}')
    done = machine.make("bundle")
    assert done.returncode
    assert ["venv" in line for line in reasons(done.stderr)] == [False, True]  # where it would build, and the reason
    assert not (machine.checkout / ".venv").exists()
    doctor = machine.make("doctor")
    assert doctor.returncode
    assert "without venv" in doctor.stdout


def test_the_first_two_commands_in_a_folder_with_spaces_beside_a_docker_that_does_not_answer(
    machine: Machine,
) -> None:
    """With this environment's packages, which `make setup` would fetch, and the stages of this checkout's build.

    tests/integration/test_installed.py compiles in such a folder, too.
    """
    needs("docker", "docker.io")
    with active_bundle("emotion"):
        shutil.copytree(ROOT / "build" / "emotion", machine.checkout / "build" / "emotion")
    (machine.checkout / ".venv").symlink_to(ROOT / ".venv")
    for name in ("requirements/build.txt", "pyproject.toml"):  # older than the packages that are installed
        os.utime(machine.checkout / name, (0, 0))
    elsewhere = {"PATH": os.environ["PATH"], "DOCKER_HOST": "tcp://127.0.0.1:1"}
    built = machine.make("bundle", **elsewhere)
    assert built.returncode == 0, built.stderr
    assert len([line for line in built.stderr.splitlines() if "127.0.0.1:1" in line]) == 1
    assert (machine.checkout / "dist" / "emotion" / "layer" / "lib" / "libmodel.so").is_file()
    answered = machine.make("invoke", "IMAGE=tests/data/face.jpg", **elsewhere)
    assert answered.returncode == 0, answered.stderr
    (prediction,) = json.loads(answered.stdout)["predictions"]
    assert prediction["emotion"][0]["label"] == "happy"
