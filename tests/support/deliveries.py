"""Deliveries that tests stop at every file operation: those of stages, bundles and single files, with real builders."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from builder.base.cache import run_cached
from builder.base.files import replace_folder, write_file
from builder.base.project import Project
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
    with replace_folder(folder / "dist" / "model") as fresh:
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


PACKING = "packing "


def delivery_of(name: str) -> Delivery:
    """One of ``DELIVERIES``, or ``PACKING`` and the path of a model.toml in a checkout where it was built."""
    return packing(Path(name.removeprefix(PACKING))) if name.startswith(PACKING) else DELIVERIES[name]


def packing(toml: Path) -> Delivery:
    """The last stage of a real build: the bundle, and the active layer."""
    from builder.config import read_spec
    from builder.package.bundle import activate_layer
    from builder.pipeline.build_bundle import build_bundle
    from builder.pipeline.pack_bundle import write_bundle
    from builder.pipeline.workspace import Workspace

    ws = Workspace.from_spec(read_spec(toml), Project(toml.parent))
    library = build_bundle(ws).library  # all but the verification is there already

    def deliver(folder: Path, version: str) -> None:
        own = replace(ws, project=Project(folder), spec=replace(ws.spec, version=version))
        activate_layer(write_bundle(own, library), own.project.layers, own.target)

    def state(folder: Path) -> tuple[object, object]:
        return tree(folder / "dist" / ws.spec.name), tree(folder / "layers" / "model" / "content")

    def allowed(found: object, old: object, new: object) -> bool:
        each = zip(found, old, new, strict=True)  # type: ignore[call-overload]
        return all(now in (before, after) for now, before, after in each)

    return Delivery(lambda f: deliver(f, "old"), lambda f: deliver(f, "new"), state, ways=("killed",), allowed=allowed)
