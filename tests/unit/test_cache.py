"""Stage folders are rebuilt when their input changes, and survive a failing stage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.cache import compute_digest, read_build_seconds, run_cached


def _write(text: str, calls: list[str]) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        calls.append(text)
        (folder / "out.txt").write_text(text)

    return build


def test_runs_once_per_key(tmp_path: Path) -> None:
    calls: list[str] = []
    folder = tmp_path / "stage"
    assert run_cached(folder, "a", _write("one", calls)) is False
    assert run_cached(folder, "a", _write("two", calls)) is True
    assert (folder / "out.txt").read_text() == "one"
    assert run_cached(folder, "b", _write("three", calls)) is False
    assert (folder / "out.txt").read_text() == "three"
    assert calls == ["one", "three"]


def test_how_long_a_stage_took_is_kept_and_changes_no_digest(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert read_build_seconds(one) is None
    run_cached(one, "a", _write("same", []))
    run_cached(other, "b", _write("same", []))
    took = read_build_seconds(one)
    assert took is not None
    assert took > 0
    run_cached(one, "a", _write("never", []))
    assert read_build_seconds(one) == took
    assert compute_digest(one) == compute_digest(other)


def test_a_failing_stage_leaves_the_previous_output(tmp_path: Path) -> None:
    folder = tmp_path / "stage"
    run_cached(folder, "a", _write("good", []))

    def fail(fresh: Path) -> None:
        (fresh / "out.txt").write_text("half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        run_cached(folder, "b", fail)
    assert (folder / "out.txt").read_text() == "good"
    assert run_cached(folder, "a", _write("never", [])) is True


def test_leftovers_of_an_interrupted_stage_do_not_leak_in(tmp_path: Path) -> None:
    (tmp_path / "stage.tmp-1").mkdir()
    (tmp_path / "stage.tmp-1" / "stray").write_text("old")
    run_cached(tmp_path / "stage", "a", _write("new", []))
    assert sorted(p.name for p in (tmp_path / "stage").iterdir()) == [".key", "out.txt"]
    assert [p.name for p in tmp_path.iterdir()] == ["stage"]


@pytest.mark.parametrize("damage", ["deleted", "cut short", "in a folder", "a key of before"])
def test_a_stage_that_lost_a_file_is_built_again(tmp_path: Path, damage: str) -> None:
    """As `rm -rf build` leaves it, when it is interrupted, or a disk that lost its power."""
    folder, calls = tmp_path / "stage", list[str]()

    def build(fresh: Path) -> None:
        calls.append("built")
        (fresh / "deep").mkdir()
        for name in ("out.txt", "deep/out.txt"):
            (fresh / name).write_text("content")

    run_cached(folder, "a", build)
    if damage == "deleted":
        (folder / "out.txt").unlink()
    elif damage == "cut short":
        (folder / "out.txt").write_text("")
    elif damage == "in a folder":
        shutil.rmtree(folder / "deep")
    else:
        (folder / ".key").write_text("a")
    assert run_cached(folder, "a", build) is False
    assert (folder / "out.txt").read_text() == (folder / "deep" / "out.txt").read_text() == "content"
    assert run_cached(folder, "a", build) is True
    assert calls == ["built"] * 2


def test_digest_sees_names_and_contents_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = compute_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    second = compute_digest(tmp_path)
    (tmp_path / "b").write_text("2")
    assert len({first, second, compute_digest(tmp_path)}) == 3


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_digest_does_not_confuse_how_parts_are_split(a: list[str], b: list[str]) -> None:
    assert (compute_digest(*a) == compute_digest(*b)) == (a == b)
