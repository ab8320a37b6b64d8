"""The deterministic zip: same content, same bytes; and nothing is lost in it."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.base.cache import KEY_FILE, run_cached
from builder.base.errors import EnvironmentSetupError
from builder.package.layer import measure_zip, source_date_epoch, write_zip

# Folders and files have different first letters, so that no path is both.
NAMES = st.text(st.sampled_from("abc.-_ é雪"), max_size=6)
PATHS = st.builds(
    lambda folders, file: "/".join([*(f"d{f}" for f in folders), f"f{file}"]), st.lists(NAMES, max_size=3), NAMES
)
TREES = st.dictionaries(PATHS, st.binary(max_size=200), min_size=1, max_size=8)


def build(folder: Path, tree: list[tuple[str, bytes]], umask: int = 0o022, mtime: int = 10**9) -> Path:
    previous = os.umask(umask)
    try:
        for name, content in tree:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, (mtime, mtime))
    finally:
        os.umask(previous)
    return folder


def zipped(folder: Path, epoch: int = 10**9) -> bytes:
    stream = io.BytesIO()
    write_zip(folder, stream, epoch=epoch)
    return stream.getvalue()


@settings(deadline=None, max_examples=60)
@given(tree=TREES, data=st.data())
def test_the_same_content_gives_the_same_bytes(tree: dict[str, bytes], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(list(tree.items())))
    umask = data.draw(st.sampled_from([0o000, 0o002, 0o022, 0o077, 0o111]))
    mtime = data.draw(st.integers(0, 2**31 - 1))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first = zipped(build(Path(one), list(tree.items())))
        # Folders need their x bit to be written into; only the files' modes may follow the umask.
        second = zipped(build(Path(two), shuffled, umask & 0o666, mtime))
    assert first == second


@settings(deadline=None, max_examples=60)
@given(tree=TREES)
def test_unzipping_gives_the_content_back(tree: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        content = zipped(build(Path(folder), list(tree.items())))
        archive = zipfile.ZipFile(io.BytesIO(content))
        assert archive.testzip() is None
        assert archive.namelist() == sorted(tree)
        archive.extractall(out)
        back = {p.relative_to(out).as_posix(): p.read_bytes() for p in Path(out).rglob("*") if p.is_file()}
    assert back == tree


def test_a_stages_own_key_is_no_part_of_a_layer(tmp_path: Path) -> None:
    """It has the seconds that the stage took: the dependencies layer would be another at each build."""
    tree = {"python/a.py": b"1"}
    run_cached(tmp_path / "made", "key", lambda folder: build(folder, list(tree.items())))
    assert (tmp_path / "made" / KEY_FILE).is_file()
    assert zipped(tmp_path / "made") == zipped(build(tmp_path / "plain", list(tree.items())))
    assert measure_zip("one", tmp_path / "made").unzipped == 1


def test_modes_and_times_are_fixed(tmp_path: Path) -> None:
    build(tmp_path, [("lib/libmodel.so", b"x"), ("lib/libc.so.6", b"x"), ("bin/tool", b"x"), ("a/m.json", b"{}")])
    infos = {i.filename: i for i in zipfile.ZipFile(io.BytesIO(zipped(tmp_path, 1_700_000_000))).infolist()}
    modes = {name: info.external_attr >> 16 for name, info in infos.items()}
    assert modes == {
        "a/m.json": 0o100644,
        "bin/tool": 0o100755,
        "lib/libc.so.6": 0o100755,
        "lib/libmodel.so": 0o100755,
    }
    assert {i.date_time for i in infos.values()} == {(2023, 11, 14, 22, 13, 20)}


@pytest.mark.parametrize(("epoch", "year"), [(0, 1980), (-5, 1980), (10**12, 2107)])
def test_times_that_zip_does_not_know_are_brought_into_range(tmp_path: Path, epoch: int, year: int) -> None:
    build(tmp_path, [("f", b"")])
    assert zipfile.ZipFile(io.BytesIO(zipped(tmp_path, epoch))).infolist()[0].date_time[0] == year


def test_source_date_epoch_is_honoured() -> None:
    assert source_date_epoch({"SOURCE_DATE_EPOCH": "1700000000"}) == 1_700_000_000
    assert source_date_epoch({}) == source_date_epoch({"SOURCE_DATE_EPOCH": ""}) == 315_532_800
    with pytest.raises(EnvironmentSetupError, match="yesterday"):
        source_date_epoch({"SOURCE_DATE_EPOCH": "yesterday"})


def test_measuring_gives_the_sizes_of_the_zip(tmp_path: Path) -> None:
    build(tmp_path, [("app.py", b"x" * 1000), ("__pycache__/app.pyc", b"y" * 500)])
    component = measure_zip("function", tmp_path, layer=False)
    assert (component.unzipped, component.zipped) == (1500, len(zipped(tmp_path)))
    assert measure_zip("function", tmp_path, bytecode=False).unzipped == 1000
