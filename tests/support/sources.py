"""What tests of sources share: a spec, a patience of milliseconds, and a web server that is believed."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builder.config import ModelSpec, Source
from builder.sources import Bounds
from tests.support.website import AUTHORITY, Website, website

QUICK = Bounds(pause=0.01)


def spec_of(folder: Path, source: Source) -> ModelSpec:
    return ModelSpec(path=folder / "model.toml", name="m", version="1", source=source)


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Nothing below ``folder`` is written in the block: a container has the cache to read alone."""

    def times() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}

    before = times()
    yield
    assert times() == before


def packed(members: dict[str, bytes]) -> bytes:
    """A .tar.gz of ``members`` by their names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def write_wheel(folder: Path, name: str, members: dict[str, bytes]) -> None:
    """A wheel of the package ``name``, as in "carrier-1.0", with ``members`` by their names."""
    package, _, version = name.partition("-")
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, data in members.items():
            wheel.writestr(member, data)
        info = f"{name}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Website]:
    """A server whose certificate is trusted; credentials are looked for in ``tmp_path / "netrc"``."""
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with website() as served:
        yield served
