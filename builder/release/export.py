"""The folder that ``coldforge export`` writes: weights by stable names, graph, configuration, and a model.toml."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from builder.base.arrays import Array
from builder.base.cache import content_digest
from builder.base.errors import UsageError
from builder.base.files import replace_folder
from builder.base.records import dump_record
from builder.base.tf import tf
from builder.config import FetchSpec, ModelSpec, Source, render_spec
from builder.config.tensor import c_identifier
from builder.importers.graph import MODEL_SCOPE, FrozenGraph
from builder.package.manifest import FileEntry, list_tool_versions, manifest_head
from builder.pipeline.import_model import import_variants
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace

DTYPES = {
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64",
}  # fmt: skip
"""Names of NumPy's dtypes, and of ml_dtypes' bfloat16, that a weight may have: safetensors has all of them."""

TABLE = 64
"""Number of elements from which a constant that was no variable counts as a weight: a table, quantised weights."""
SUFFIX = "-export"
"""Suffix of the model's name in ``dist/``. The export is beside the bundle, not in it: a new bundle replaces its whole
folder, which may be that of an export's own model.toml."""

WEIGHTS, GRAPH, CONFIG, SPEC, MANIFEST = (
    "weights.safetensors", "graph.pb", "config.pbtxt", "model.toml", "manifest.json",
)  # fmt: skip

KIND = "coldforge export"
"""Value in the manifest that marks a folder as an export, which may be overwritten."""


@dataclass(frozen=True)
class NamedWeight:
    """A weight. ``name``: its name in weights.safetensors; ``node``: the Const of graph.pb that has it."""

    name: str
    node: str
    value: Array


def _list_weights(graph_def: Any, variables: Mapping[str, str]) -> tuple[NamedWeight, ...]:
    """Return the weights at the top of ``graph_def``, in its order.

    ``variables``: Const nodes that were variables, and their names. Constants of the model that were never variables
    count where they have at least TABLE elements, and in a graph that came frozen, which knows no variables, wherever
    they are floating-point tensors. Constants that the spec compiled in (scaling, activations) are no weights, nor are
    constants of a type that safetensors lacks.
    """
    used_names = {"__metadata__"}  # This is the one name in the file's header that is not a tensor.
    weights = []
    for node, tensor in _list_constants(graph_def):
        name = variables.get(node)
        if name is None and not _is_weight(tensor, frozen=not variables):
            continue
        name = _make_unique_name(name or node.removeprefix(MODEL_SCOPE), used_names)
        used_names.add(name)
        weights.append(NamedWeight(name, node, tf.make_ndarray(tensor)))
    return tuple(weights)


def save_tensors(tensors: Mapping[str, Array], path: Path) -> None:
    """Write ``tensors`` as a safetensors file; the same tensors in any order give the same bytes."""
    # The package takes an array's memory as it is, and writes several entries of metadata in a random order.
    row_major = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    safetensors.numpy.save_file(row_major, path, metadata={"format": "tf"})


def _list_constants(graph_def: Any) -> Iterator[tuple[str, Any]]:
    types = tf.dtypes
    for node in graph_def.node:
        if node.op == "Const" and node.name.startswith(MODEL_SCOPE):
            tensor = node.attr["value"].tensor
            if types.as_dtype(tensor.dtype).name in DTYPES:
                yield node.name, tensor


def _is_weight(tensor: Any, *, frozen: bool) -> bool:
    sizes = [d.size for d in tensor.tensor_shape.dim]
    floating = tf.dtypes.as_dtype(tensor.dtype).is_floating
    return bool(frozen and floating and sizes) or math.prod(sizes) >= TABLE


def _make_unique_name(name: str, used_names: set[str]) -> str:
    candidates = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in used_names)


@dataclass(frozen=True)
class Export:
    """A folder that was written; ``files`` with their sizes, without the manifest."""

    folder: Path
    weights: tuple[NamedWeight, ...]
    files: tuple[FileEntry, ...]

    @property
    def parameters(self) -> int:
        """Number of numbers in all weights."""
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
        weights = _list_weights(graph.read_reference(), graph.variables)
        tensors = {w.name: w.value for w in weights} | {s.name: s.value for s in _list_states(graph)}
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
        spec.image, feed=_to_c_identifier(spec.image.feed), channel_order="rgb", mean=(0.0,), scale=(1.0,)
    )
    audio = spec.audio and replace(spec.audio, feed=_to_c_identifier(spec.audio.feed), normalise="none", scale=1.0)
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
        "weights": list(map(_describe_weight, weights)),
        "states": list(map(_describe_weight, _list_states(graph))),
    }


def _describe_weight(weight: NamedWeight) -> dict[str, Any]:
    shape = list(weight.value.shape)
    return {"name": weight.name, "node": weight.node, "dtype": weight.value.dtype.name, "shape": shape}


def _list_states(graph: FrozenGraph) -> list[NamedWeight]:
    """Return each variable that the graph writes, with its first value and the node of its handle."""
    first = graph.first_state()
    return [NamedWeight(state.spec.name, state.tensor, first[state.tensor]) for state in graph.states]


def _require_writable(folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        is_export = json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("kind") == KIND
    except (OSError, ValueError, AttributeError):
        is_export = False
    if not is_export:
        raise UsageError(f"{folder} exists and is not an export; name a new or empty folder with --out.")
