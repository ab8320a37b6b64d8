"""miniaudio's source distribution: fetched once, checked, mounted into a container, and named in the bill."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from builder.base.errors import EnvironmentSetupError
from builder.base.project import Project
from builder.config import AudioSpec, ModelSpec, Source
from builder.package.components import library_parts
from builder.pipeline.docker.docker_run import CACHE, Mount, build_mounts
from builder.sources import miniaudio
from tests.support.sources import packed, site
from tests.support.website import Website

__all__ = ["site"]

ROOT = Path(__file__).parents[2]
SMALL = packed({f"miniaudio-{miniaudio.VERSION}/miniaudio/miniaudio.h": b"a header"})
OTHERS = re.compile(r"copyright|public domain|permission is hereby|all rights reserved|SPDX-", re.IGNORECASE)


@pytest.fixture
def pinned(site: Website, monkeypatch: pytest.MonkeyPatch) -> Website:
    """A server of the distribution ``SMALL``, which is the one that is pinned."""
    monkeypatch.setattr(miniaudio, "URL", f"{site.origin}/{miniaudio.ARCHIVE}")
    monkeypatch.setattr(miniaudio, "SHA256", hashlib.sha256(SMALL).hexdigest())
    site.files[f"/{miniaudio.ARCHIVE}"] = SMALL
    return site


def test_it_is_fetched_once(pinned: Website, tmp_path: Path) -> None:
    for _ in range(2):
        assert (miniaudio.unpack_miniaudio(tmp_path) / "miniaudio.h").read_text() == "a header"
        assert miniaudio.fetch_miniaudio(tmp_path).read_bytes() == SMALL
    assert len(pinned.requests) == 1


def test_another_file_is_not_taken_but_the_right_one_that_a_user_puts_there(pinned: Website, tmp_path: Path) -> None:
    pinned.files[f"/{miniaudio.ARCHIVE}"] = b"another"
    place = miniaudio.fetched_folder(tmp_path) / miniaudio.ARCHIVE
    with pytest.raises(EnvironmentSetupError, match=re.escape(str(place))):
        miniaudio.unpack_miniaudio(tmp_path)
    pinned.files.clear()
    with pytest.raises(EnvironmentSetupError, match=re.escape(str(place))):
        miniaudio.unpack_miniaudio(tmp_path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(SMALL)
    assert (miniaudio.unpack_miniaudio(tmp_path) / "miniaudio.h").is_file()


def test_a_container_has_it_where_a_model_takes_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project, model = Project(tmp_path), tmp_path / "m.keras"
    place = miniaudio.fetched_folder(project.cache)
    wanted = Mount(place, CACHE / place.relative_to(project.cache))
    (tmp_path / "scratch").mkdir()
    (tmp_path / "model.toml").touch()
    for audio in (AudioSpec("sound", 8_000, 400), None):
        spec = ModelSpec(tmp_path / "model.toml", "m", "1", Source("keras", model), audio=audio)
        mounts = build_mounts(spec, project, model, tmp_path, tmp_path / "scratch")
        assert (wanted in mounts) == bool(audio)


def test_the_bill_of_a_library_names_it_with_its_licence() -> None:
    parts = library_parts("/opt/lib/libmodel.so", {"tensorflow": "2", "zig": "0"}, sound=True)
    assert parts[:-1] == library_parts("/opt/lib/libmodel.so", {"tensorflow": "2", "zig": "0"})
    own = parts[-1]
    assert own.purl == f"pkg:pypi/miniaudio@{miniaudio.VERSION}"
    assert own.wheel
    assert (own.wheel.file, own.wheel.sha256) == (miniaudio.ARCHIVE, miniaudio.SHA256)
    assert own.texts[0].startswith("Copyright")
    assert own.texts[0].endswith("SOFTWARE.")


def test_no_source_here_is_under_a_licence_of_its_own() -> None:
    """Whoever adds other people's code fetches it when it is needed, as miniaudio is."""
    patterns = ("builder/**/*.*", "handler/**/*.*", "layers/*/*.*")  # not what a bundle puts into layers/*/content
    files = [path for pattern in patterns for path in ROOT.glob(pattern)]
    code = {".c", ".h", ".inc", ".S", ".py", ".js", ".mjs", ".html"}
    found = [path for path in files if path.suffix in code and OTHERS.search(path.read_text(encoding="utf-8"))]
    assert found == [ROOT / "builder" / "importers" / "samples" / "golden_inputs.py"], (
        "its photographs are in the public domain"
    )
