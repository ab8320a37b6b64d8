"""Read a Keras model: ``.keras`` in safe mode, ``.h5`` only where the spec trusts it."""

from __future__ import annotations

import contextlib
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builder.errors import ImportModelError
from builder.importers.loaded import HOW_TO_TRUST, LoadedModel, RawGraph, Shape, describe_renames, distinct
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.rewrite import keep_cases_functional, node_of
from builder.importers.saved_model import freeze as freeze_saved_model
from builder.importers.saved_model import meta_graph
from builder.importers.shapes import STRING
from builder.importers.state import written
from builder.importers.tables import Table, looked_up
from builder.importers.tf import tensorflow
from builder.spec import Source

LARGEST_CONFIG = 100_000_000
"""Bytes; that of a network of a thousand layers has one million."""

_TRUST = f"If you trust where it comes from, {HOW_TO_TRUST}."


def open_keras(source: Source, path: Path) -> LoadedModel:
    """Load the model; its code (Lambda layers, anything in an ``.h5``) runs only if ``source.trust``.

    Raises ImportModelError for a file that is not trusted, cannot be read, or has no fixed inputs and outputs.
    """
    if source.format == "h5" and not source.trust:
        raise ImportModelError(
            f"{path.name} is a Keras HDF5 file, which can hold code that runs when it is loaded. {_TRUST} "
            "Otherwise save it again as .keras or SavedModel."
        )
    model = _load(source, path)
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise ImportModelError(
            f"{path.name} holds a {type(model).__name__} without fixed inputs and outputs. "
            "Call it once on an example and save it with model.export(folder), then use that SavedModel."
        )
    inputs, outputs = [_layer_name(t) for t in model.inputs], _fetch_names(model)
    feeds, fetches = distinct(inputs), distinct(outputs)
    ports = ModelPorts(
        tuple(_port(n, t) for n, t in zip(feeds, model.inputs, strict=True)),
        tuple(_port(n, t) for n, t in zip(fetches, model.outputs, strict=True)),
        warnings=(*describe_renames("input", inputs, feeds), *describe_renames("output", outputs, fetches)),
    )
    return LoadedModel(ports, lambda shapes: _freeze(model, ports, shapes))


def _load(source: Source, path: Path) -> Any:
    tensorflow()
    import keras

    _require_sizes(path)
    try:
        # The suffix decides how Keras reads a file, so a .hdf5 under another name would not load.
        return keras.saving.load_model(path, compile=False, safe_mode=not source.trust)
    except Exception as error:
        reason = " ".join(str(error).split())
        if "safe_mode" in reason or "unsafe" in reason.lower():
            raise ImportModelError(
                f"{path.name} holds code (a Lambda layer or the like) that would run when it is loaded. {_TRUST} "
                "Otherwise replace the layer by one from keras.ops, or export a SavedModel where the code is at hand."
            ) from error
        if "Could not locate class" in reason or "Unknown layer" in reason or "custom" in reason.lower():
            raise ImportModelError(
                f"{path.name} needs classes that only its author has: {_first(reason)} "
                "Export it there with model.export(folder) and use that SavedModel."
            ) from error
        raise ImportModelError(
            f"Keras cannot read {path.name}: {_first(reason)} If another Keras version wrote it, "
            "export it there with model.export(folder) and use that SavedModel."
        ) from error


def _require_sizes(path: Path) -> None:
    """An archive of a few kilobytes may unpack to any size. Keras holds its weights against what is stored of them."""
    if path.suffix == ".keras" and not zipfile.is_zipfile(path):  # of which Keras says that there is no file
        raise ImportModelError(
            f"{path.name} is damaged or cut off: a .keras file is a zip archive, and this one has no end. Copy or "
            "download it again."
        )
    with contextlib.suppress(zipfile.BadZipFile, KeyError), zipfile.ZipFile(path) as archive:
        size = archive.getinfo("config.json").file_size
        if size > LARGEST_CONFIG:
            raise ImportModelError(
                f"config.json in {path.name} says that it has {size:,} bytes; no description of a model is larger than "
                f"{LARGEST_CONFIG:,}. Save the model again."
            )


def _first(reason: str) -> str:
    return reason if len(reason) <= 300 else reason[:300].rsplit(" ", 1)[0] + " ..."


def _layer_name(tensor: Any) -> str:
    # KerasTensor names are counted per process; the layer's name is in the file.
    return str(tensor._keras_history.operation.name)


def _fetch_names(model: Any) -> list[str]:
    struct = getattr(model, "output", None)
    if isinstance(struct, dict) and len(struct) == len(model.outputs):
        by_tensor = {id(tensor): str(key) for key, tensor in struct.items()}
        if all(id(t) in by_tensor for t in model.outputs):
            return [by_tensor[id(t)] for t in model.outputs]
    return [_layer_name(t) for t in model.outputs]


def _port(name: str, tensor: Any) -> PortInfo:
    return PortInfo(name, str(tensor.dtype), tuple(tensor.shape))


def _freeze(model: Any, ports: ModelPorts, shapes: Mapping[str, Shape]) -> RawGraph:
    """Trace inference on static shapes, so that shape arithmetic inside layers folds, and inline every call."""
    tf = tensorflow()
    import keras
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    # What is cut off in front of a graph with strings is tried with several numbers of items.
    open_ = any(p.dtype == STRING for p in ports.feeds)
    specs = [
        tf.TensorSpec(p.shape[:1] + shapes[p.name][1:] if open_ and p.shape else shapes[p.name], p.dtype)
        for p in ports.feeds
    ]
    # Sequential hands its call on to a Functional of its own, whose input structure is what counts.
    struct = getattr(model, "_inputs_struct", None)

    def infer(*flat: Any) -> list[Any]:
        packed = keras.tree.pack_sequence_as(struct, list(flat)) if struct is not None else flat[0]
        return list(keras.tree.flatten(model(packed, training=False)))

    try:
        function = tf.function(infer, autograph=False)
        concrete = function.get_concrete_function(*specs)
        if written(concrete.graph.as_graph_def()):
            return _freeze_with_state(function, concrete, ports)
        keep_cases_functional(concrete.graph)
        frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    except Exception as error:
        given = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ImportModelError(
            f"The model cannot be traced with {given}: {_first(' '.join(str(error).split()))}"
        ) from error
    handles = {node_of(inner.name): outer for outer, inner in concrete.graph.captures}
    found: dict[str, Table] = {}

    def table_of(node: str, keys: Any, values: Any) -> Table | None:
        table = _table(handles.get(node), keys, values)
        if table is not None and not table.of_numbers:
            found[node] = table
        return table

    return RawGraph(
        looked_up(frozen.graph.as_graph_def(), table_of),
        {p.name: t.name for p, t in zip(ports.feeds, frozen.inputs, strict=False)},  # tables come after them
        {p.name: t.name for p, t in zip(ports.fetches, frozen.outputs, strict=True)},
        _captured(model, concrete),
        tables=found,
        asserts=any(operation.type == "Assert" for operation in concrete.graph.get_operations()),
    )


def _table(handle: Any, keys: Any, values: Any) -> Table | None:
    """What is in a table that Keras filled when it loaded the model; None where there is none."""
    tf = tensorflow()
    if handle is None:
        return None
    found = tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=keys, Tvalues=values)
    return Table.of(*(tensor.numpy() for tensor in found))


def _freeze_with_state(function: Any, concrete: Any, ports: ModelPorts) -> RawGraph:
    """Freeze by way of a SavedModel, whose importer knows what to do with variables that are written."""
    tf = tensorflow()

    def signature(*flat: Any) -> dict[str, Any]:
        return {f"fetch_{i}": tensor for i, tensor in enumerate(function(*flat))}

    specs = [tf.TensorSpec(t.shape, t.dtype, f"feed_{i}") for i, t in enumerate(concrete.inputs[: len(ports.feeds)])]
    with tempfile.TemporaryDirectory() as folder:
        exported = tf.function(signature, autograph=False).get_concrete_function(*specs)
        holder = tf.Module()
        holder.captured = list(exported.variables)  # what is saved has to hang on something
        tf.saved_model.save(holder, folder, signatures=exported)
        meta = meta_graph(Path(folder))
        definition = meta.signature_def["serving_default"]
        feeds = {p.name: definition.inputs[f"feed_{i}"].name for i, p in enumerate(ports.feeds)}
        fetches = {p.name: definition.outputs[f"fetch_{i}"].name for i, p in enumerate(ports.fetches)}
        return freeze_saved_model(Path(folder), meta, feeds, fetches)


def _captured(model: Any, concrete: Any) -> dict[str, str]:
    """The constants that the model's variables become, each with the variable's name."""
    names = {id(v.value.handle): name for name, v in named_variables(model)}
    return {node_of(inner.name): names[id(outer)] for outer, inner in concrete.graph.captures if id(outer) in names}


def named_variables(model: Any, scope: str = "") -> Iterator[tuple[str, Any]]:
    """Every variable under the names of the layers that lead to it: ``encoder/dense/kernel``.

    A variable's own path will not do: it has the names of models around it or has not, as the model was built or
    loaded.
    """
    for layer in model.layers:
        name = f"{scope}{layer.name}/"
        if hasattr(layer, "layers"):
            yield from named_variables(layer, name)
            continue
        for variable in layer.variables:
            _, _, own = f"/{variable.path}".partition(f"/{layer.name}/")
            yield name + (own or variable.path), variable
