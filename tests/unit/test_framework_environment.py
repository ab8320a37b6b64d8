"""The environment of a framework, made by the real pip from an index of its own: what a person sees meanwhile."""

from __future__ import annotations

import functools
import hashlib
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.importers.frameworks import framework_environment
from builder.importers.frameworks.framework_environment import Framework, ensure_environment
from tests.support import local_server


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Framework]:
    """A framework of one small package, which a server on this machine has."""
    (tmp_path / "web").mkdir()
    wheel = tmp_path / "web" / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny.py", "")
        file.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("tiny-1.0.dist-info/RECORD", "")
    lock = tmp_path / "requirements" / "tiny.txt"
    lock.parent.mkdir()
    lock.write_text(f"tiny==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    monkeypatch.setattr(framework_environment, "HOME", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with local_server.serve(functools.partial(local_server.Files, directory=tmp_path / "web")) as port:
        yield Framework("Tiny", "tiny.txt", "1 kB", (), links=f"http://127.0.0.1:{port}/")


def test_what_is_fetched_is_told_as_it_comes_and_once(framework: Framework) -> None:
    told: list[str] = []
    folder = ensure_environment(framework, told.append)
    assert list(folder.glob("lib/python*/site-packages/tiny.py"))
    assert "1 kB" in told[0]
    (fetched,) = (line for line in told if "tiny-1.0-py3-none-any.whl" in line)
    assert re.search(r"\(\d+ bytes\)", fetched)
    assert told.index(fetched) > 0
    told.clear()
    assert ensure_environment(framework, told.append) == folder
    assert told == []
