"""The folder that ``coldforge export`` writes: weights, graph, compiler's configuration, and a model.toml."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from builder.base.arrays import Array
from builder.base.cache import content_digest
from builder.base.errors import UsageError
from builder.base.files import replace_folder
from builder.base.records import dump_record
from builder.config import FetchSpec, ModelSpec, Source, render_spec
from builder.config.tensor import c_identifier
from builder.importers.graph import MODEL_SCOPE, FrozenGraph
from builder.package.manifest import FileEntry, list_tool_versions, manifest_head
from builder.pipeline.import_model import import_variants
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace
from builder.release.weight_names import NamedWeight, list_weights, save_tensors

SUFFIX = "-export"
"""Suffix of the model's name in ``dist/``. The export is beside the bundle, not in it: a new bundle replaces its whole
folder, which may be that of an export's own model.toml."""

WEIGHTS, GRAPH, CONFIG, SPEC, MANIFEST = (
    "weights.safetensors", "graph.pb", "config.pbtxt", "model.toml", "manifest.json",
)  # fmt: skip

KIND = "coldforge export"
"""Value in the manifest that marks a folder as an export, which may be overwritten."""


@dataclass(frozen=True)
class Export:
    """A folder that was written; ``files`` with their sizes, without the manifest."""

    folder: Path
    weights: tuple[NamedWeight, ...]
    files: tuple[FileEntry, ...]

    @property
    def parameters(self) -> int:
        return sum(weight.value.size for weight in self.weights)


def export_model(ws: Workspace, out: Path | None = None) -> Export:
    """Write the folder ``out``, by default ``dist/<model>-export``; an earlier export there is replaced.

    Raises UsageError for a folder that holds something else, and as the import stage does.
    """
    folder = (out or ws.project.dist / f"{ws.spec.name}{SUFFIX}").resolve()
    _require_writable(folder)
    ws = complete_workspace(ws)
    spec = ws.spec
    imported = import_variants(ws.alone)
    graph = imported.graph
    with ws.progress.show_stage("export", "weights, graph and configuration"), replace_folder(folder) as fresh:
        weights = list_weights(graph.read_reference(), graph.variables)
        tensors = {w.name: w.value for w in weights} | {n: v for n, _, v in _list_states(graph)}
        save_tensors(tensors, fresh / WEIGHTS)
        shutil.copyfile(graph.reference_path, fresh / GRAPH)
        shutil.copyfile(graph.config_path, fresh / CONFIG)
        if not graph.states:  # A GraphDef has no field for the variables' first values.
            (fresh / SPEC).write_text(render_spec(exported_spec(spec, graph, fresh)), encoding="utf-8")
        files = tuple(FileEntry.from_path(fresh, path.name) for path in sorted(fresh.iterdir()))
        made_with = {name: list_tool_versions()[name] for name in ("coldforge", "tensorflow")}
        head = {"kind": KIND, **manifest_head(spec, content_digest(imported.path), made_with)}
        manifest = head | _make_manifest(graph, weights, files)
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        for path in fresh.iterdir():
            path.chmod(0o644)
    return Export(folder, weights, files)


def exported_spec(spec: ModelSpec, graph: FrozenGraph, folder: Path) -> ModelSpec:
    """Return the spec of ``graph``, exported to ``folder``, without what ``spec`` compiled into the graph.

    With several variants, it is the spec of the first. Feeds have their C names, as the configuration calls them;
    fetches keep theirs.
    """
    image = spec.image and replace(
        spec.image,
        feed=spec.image.feed and c_identifier(spec.image.feed),
        channel_order="rgb",
        mean=(0.0,),
        scale=(1.0,),
    )
    audio = spec.audio and replace(
        spec.audio, feed=spec.audio.feed and c_identifier(spec.audio.feed), normalise="none", scale=1.0
    )
    named = spec.text and spec.text.with_feed_names([port.spec.name for port in graph.feeds])
    text = named and replace(
        named, ids=_to_c_identifier(named.ids), mask=_to_c_identifier(named.mask), types=_to_c_identifier(named.types)
    )
    shapes = {port.spec.shape_fetch for port in graph.fetches}  # Importing adds this.
    names = {port.spec.name: c_identifier(port.spec.name) for port in graph.fetches if port.spec.name not in shapes}
    most = {fetch.visible: fetch.max_size for fetch in spec.fetches}
    layers = tuple(replace(layer, name=MODEL_SCOPE + layer.name) for layer in spec.layers)  # Importing puts them here.
    fetches = tuple(FetchSpec(in_c, None if in_c == name else name, most.get(name)) for name, in_c in names.items())
    return replace(
        spec.alone,
        path=folder / SPEC,
        source=Source("graph_def", folder / GRAPH, config=folder / CONFIG),
        feeds=(),
        fetches=fetches if any(f.alias for f in fetches) or any(shapes) else (),
        image=image,
        audio=audio,
        text=text,
        outputs=tuple(replace(output, activation="none") for output in spec.outputs),
        layers=layers,
    )


def _to_c_identifier(name: str | None) -> str | None:
    return c_identifier(name) if name else None


def _make_manifest(
    graph: FrozenGraph, weights: tuple[NamedWeight, ...], files: tuple[FileEntry, ...]
) -> dict[str, Any]:
    return {
        "files": [asdict(file) for file in files],
        "feeds": list(map(dump_record, graph.feeds)),
        "fetches": list(map(dump_record, graph.fetches)),
        "weights": [
            {"name": w.name, "node": w.node, "dtype": w.value.dtype.name, "shape": list(w.value.shape)} for w in weights
        ],
        "states": [
            {"name": n, "node": node, "dtype": v.dtype.name, "shape": list(v.shape)}
            for n, node, v in _list_states(graph)
        ],
    }


def _list_states(graph: FrozenGraph) -> list[tuple[str, str, Array]]:
    """Return the name, the node of the handle and the first value of each variable that the graph writes."""
    first = graph.first_state()
    return [(state.spec.name, state.tensor, first[state.tensor]) for state in graph.states]


def _require_writable(folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        is_export = json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("kind") == KIND
    except (OSError, ValueError, AttributeError):
        is_export = False
    if not is_export:
        raise UsageError(f"{folder} exists and is not an export; name a new or empty folder with --out.")
