"""Deliveries that tests stop at every file operation: those of stages, bundles and single files, with real builders."""

from __future__ import annotations

import os
from pathlib import Path

from builder.cache import run_cached
from builder.files import replacing, write_file
from tests.support.faults import STOPS, Delivery, tree


def _fill(folder: Path, text: str) -> None:
    """Some files, a folder and a link in ``folder``, more than one write each."""
    (folder / "first.txt").write_text(text)
    (folder / "deep" / "er").mkdir(parents=True)
    with (folder / "deep" / "er" / "large.bin").open("wb", buffering=0) as file:
        for part in (b"a", text.encode(), b"z"):
            file.write(part * 1000)
    os.link(folder / "first.txt", folder / "deep" / "same.txt")
    (folder / f"only-{text}").touch()


def _stage(folder: Path, text: str) -> None:
    run_cached(folder / "stage", text, lambda fresh: _fill(fresh, text))


def _stage_state(folder: Path) -> object:
    return tree(folder / "stage")


def _deliver(folder: Path, text: str) -> None:
    with replacing(folder / "dist" / "model") as fresh:
        _fill(fresh, text)


def _delivered(folder: Path) -> object:
    return tree(folder / "dist" / "model")


def _nothing(_: Path) -> None:
    pass


DELIVERIES = {
    "a stage": Delivery(lambda f: _stage(f, "old"), lambda f: _stage(f, "new"), _stage_state),
    "the first stage": Delivery(_nothing, lambda f: _stage(f, "new"), _stage_state),
    "a bundle": Delivery(lambda f: _deliver(f, "old"), lambda f: _deliver(f, "new"), _delivered),
    "a bundle, without exchange": Delivery(
        lambda f: _deliver(f, "old"),
        lambda f: _deliver(f, "new"),
        _delivered,
        exchanges=False,
        # for the moment between two renames it is aside; the run after must have it back
        allowed=lambda found, old, new: found in (old, new, {}),
    ),
    "a file": Delivery(
        lambda f: write_file(f / "tuning.json", "old" * 1000),
        lambda f: write_file(f / "tuning.json", "new" * 1000),
        lambda f: (f / "tuning.json").read_bytes(),
        ways=tuple(STOPS),
    ),
}
