"""The importer of Keras models, which reads ``.keras`` in safe mode, and ``.h5`` only if the spec trusts it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.base.tf import import_tensorflow, tf
from builder.config import Source
from builder.importers.keras_file import is_hdf5, read_version
from builder.importers.keras_reader import Reader, find_difference, load_reader
from builder.importers.loaded import HOW_TO_TRUST, LoadedModel, RawGraph, Shape, describe_renames, make_names_unique
from builder.importers.lookup_tables import LookupTable, replace_lookups, sort_entries
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.rewrite import keep_cases_functional, node_of
from builder.importers.saved_model import freeze_saved_model as freeze_saved_model
from builder.importers.saved_model import read_meta_graph
from builder.importers.shapes import STRING
from builder.importers.variables_state import find_writers

_TRUST = f"If you trust where it comes from, {HOW_TO_TRUST}."


def open_keras(source: Source, path: Path) -> LoadedModel:
    """Load the model; run its code (Lambda layers, anything in HDF5 or JSON) only if ``source.trust``.

    Raises ImportModelError for a file that is not trusted, cannot be read, or has no fixed inputs and outputs.
    """
    if not source.trust and (source.format == "h5" or is_hdf5(path)):
        kind = "describes a Keras model in JSON" if source.weights else "is a Keras HDF5 file"
        raise ImportModelError(
            f"{path.name} {kind}, which can hold code that runs when it is loaded. {_TRUST} "
            "Otherwise save it again as .keras or SavedModel."
        )
    version = read_version(path)
    reader, model = _read_model(source, path, version)
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise ImportModelError(
            f"{path.name} holds a {type(model).__name__} without fixed inputs and outputs. "
            f"Call it once on an example and save it with {reader.export_call}, then use that SavedModel."
        )
    inputs, outputs = [_layer_name(t) for t in model.inputs], _fetch_names(model)
    feeds, fetches = make_names_unique(inputs), make_names_unique(outputs)
    batch = _can_change_batch(reader, model)
    ports = ModelPorts(
        tuple(_describe_port(n, t, batch) for n, t in zip(feeds, model.inputs, strict=True)),
        tuple(_describe_port(n, t, batch) for n, t in zip(fetches, model.outputs, strict=True)),
        warnings=(*describe_renames("input", inputs, feeds), *describe_renames("output", outputs, fetches)),
        origin=f"written by {f'Keras {version}' if version else 'an unknown Keras'}, read by {reader.title}",
    )
    return LoadedModel(ports, lambda shapes: _trace_model(reader, model, ports, shapes))


def _read_model(source: Source, path: Path, version: str | None) -> tuple[Reader, Any]:
    """Load the model with ``source.keras`` or the Keras that wrote it, or raise ImportModelError."""
    major = source.keras or (version and (2 if version.partition(".")[0] == "2" else 3))
    if major:
        reader = load_reader(major)
        return reader, _load_model(reader, source, path)
    models: list[tuple[Reader, Any]] = []
    failures: list[ImportModelError] = []
    for reader in (load_reader(3), load_reader(2)):
        try:
            models.append((reader, _load_model(reader, source, path)))
        except ImportModelError as error:
            failures.append(error)
    if not models:
        raise failures[-1]
    if len(models) == 2 and (difference := find_difference(models)):
        raise ImportModelError(
            f"{path.name} does not say which Keras wrote it, and Keras 2 and 3 read it differently: {difference}. Say "
            "which one it was trained with: add `keras = 2` or `keras = 3` under [model] in model.toml."
        )
    return models[0]


def _load_model(reader: Reader, source: Source, path: Path) -> Any:
    try:
        return reader.read_model(source, path)
    except Exception as error:
        if _UNSAFE.search(_clean_reason(error)):  # Keras refused to run code.
            raise ImportModelError(
                f"{path.name} holds code (a Lambda layer or the like) that would run when it is loaded. {_TRUST} "
                "Otherwise replace the layer by one from keras.ops, or export a SavedModel where the code is at hand."
            ) from error
        names = reader.find_unknown_layers(path) or _find_missing_names(error)
        layers = tf.keras.layers
        if custom := [name for name in names if not hasattr(layers, name) and not hasattr(reader.package.layers, name)]:
            raise ImportModelError(
                f"{path.name} needs classes that only its author has: {', '.join(custom)}. "
                f"Save it there with {reader.export_call} and use that SavedModel."
            ) from error
        why = f"it has no {', '.join(names)}." if names else _clean_reason(error)
        raise ImportModelError(
            f"{reader.title} cannot read {path.name}: {why} Where it loads, save it with {reader.export_call} and use "
            "that SavedModel."
        ) from error


def _can_change_batch(reader: Reader, model: Any) -> bool:
    """Return whether a model that was saved for batches of one size above 1 also runs for others."""
    sizes = {tensor.shape[0] for tensor in model.inputs if len(tensor.shape)}
    if len(sizes) != 1 or sizes.pop() in (None, 1):
        return False
    specs = [tf.TensorSpec((1, *t.shape[1:]), getattr(t.dtype, "name", t.dtype)) for t in model.inputs]
    try:
        concrete = tf.function(lambda *flat: reader.call_model(model, flat), autograph=False).get_concrete_function(
            *specs
        )
    except Exception:  # After any error, the model keeps its own batch.
        return False
    return all(t.shape.rank and t.shape[0] == 1 for t in concrete.outputs)


def _layer_name(tensor: Any) -> str:
    # KerasTensor names are counted per process, while the layer's name is in the file.
    history = tensor._keras_history
    return str(history.operation.name if hasattr(history, "operation") else history.layer.name)


def _fetch_names(model: Any) -> list[str]:
    struct = getattr(model, "output", None)
    if isinstance(struct, dict) and len(struct) == len(model.outputs):
        by_tensor = {id(tensor): str(key) for key, tensor in struct.items()}
        if all(id(t) in by_tensor for t in model.outputs):
            return [by_tensor[id(t)] for t in model.outputs]
    return [_layer_name(t) for t in model.outputs]


def _describe_port(name: str, tensor: Any, any_batch: bool) -> PortInfo:
    shape = tuple(tensor.shape)
    return PortInfo(name, str(getattr(tensor.dtype, "name", tensor.dtype)), (None, *shape[1:]) if any_batch else shape)


def _trace_model(reader: Reader, model: Any, ports: ModelPorts, shapes: Mapping[str, Shape]) -> RawGraph:
    """Trace inference on static shapes, which folds the shape arithmetic of layers, and inline every call."""
    import_tensorflow()
    from tensorflow.python.framework import convert_to_constants

    # The steps that are cut off in front of a graph with strings are tried with several batch sizes.
    open_ = any(p.dtype == STRING for p in ports.feeds)
    specs = [
        tf.TensorSpec(p.shape[:1] + shapes[p.name][1:] if open_ and p.shape else shapes[p.name], p.dtype)
        for p in ports.feeds
    ]
    try:
        function = tf.function(lambda *flat: reader.call_model(model, flat), autograph=False)
        concrete = function.get_concrete_function(*specs)
        if find_writers(concrete.graph.as_graph_def()):
            return _freeze_with_state(function, concrete, ports)
        keep_cases_functional(concrete.graph)
        # The public function also makes a callable of the result, with several more copies of the weights.
        data = convert_to_constants._FunctionConverterDataInEager(concrete, False, False)
        frozen, _ = convert_to_constants._replace_variables_by_constants(data)
    except Exception as error:
        described = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ImportModelError(f"The model cannot be traced with {described}: {_clean_reason(error)}") from error
    captures = {node_of(inner.name): outer for outer, inner in concrete.graph.captures}
    names = {id(variable.handle): name for name, variable in named_variables(model)}
    filled_tables: dict[str, LookupTable] = {}

    def table_of(node: str, keys: Any, values: Any) -> LookupTable | None:
        """Return the contents of a table that Keras filled when it loaded the model, or None if it is unsuitable."""
        if node not in captures:
            return None
        pair = tf.raw_ops.LookupTableExportV2(table_handle=captures[node], Tkeys=keys, Tvalues=values)
        table = LookupTable.from_arrays(*sort_entries(*(tensor.numpy() for tensor in pair)))
        if table is not None and not table.of_numbers:
            filled_tables[node] = table
        return table

    return RawGraph(
        replace_lookups(frozen, table_of),
        {p.name: t.name for p, t in zip(ports.feeds, concrete.inputs, strict=False)},  # Captures come after the feeds.
        {p.name: t.name for p, t in zip(ports.fetches, concrete.outputs, strict=True)},
        {node: names[id(outer)] for node, outer in captures.items() if id(outer) in names},
        tables=filled_tables,
        asserts=any(operation.type == "Assert" for operation in concrete.graph.get_operations()),
    )


def _freeze_with_state(function: Any, concrete: Any, ports: ModelPorts) -> RawGraph:
    """Freeze by way of a SavedModel, whose importer can handle variables that the graph writes."""

    def signature(*flat: Any) -> dict[str, Any]:
        return {f"fetch_{i}": tensor for i, tensor in enumerate(function(*flat))}

    specs = [tf.TensorSpec(t.shape, t.dtype, f"feed_{i}") for i, t in enumerate(concrete.inputs[: len(ports.feeds)])]
    with tempfile.TemporaryDirectory() as folder:
        exported = tf.function(signature, autograph=False).get_concrete_function(*specs)
        holder = tf.Module()
        holder.captured = list(exported.variables)  # Saved variables must belong to an object.
        tf.saved_model.save(holder, folder, signatures=exported)
        meta = read_meta_graph(Path(folder))
        definition = meta.signature_def["serving_default"]
        feeds = {p.name: definition.inputs[f"feed_{i}"].name for i, p in enumerate(ports.feeds)}
        fetches = {p.name: definition.outputs[f"fetch_{i}"].name for i, p in enumerate(ports.fetches)}
        return freeze_saved_model(Path(folder), meta, feeds, fetches)


def named_variables(model: Any, scope: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every variable with the path of layers that leads to it, such as ``encoder/dense/kernel``.

    A variable's own path is unsuitable, since how the model was built or loaded decides whether it includes the names
    of the models around it.
    """
    for layer in model.layers:
        name = f"{scope}{layer.name}/"
        if hasattr(layer, "layers"):
            yield from named_variables(layer, name)
            continue
        for variable in layer.variables:
            if not hasattr(variable, "handle"):  # It is a table of Keras 2.
                continue
            path = variable.path if hasattr(variable, "path") else variable.name.partition(":")[0]
            _, _, own = f"/{path}".partition(f"/{layer.name}/")
            yield name + (own or path), variable


_MISSING = (
    re.compile(r"Could not locate (?:class|function) '([^']+)'"),
    re.compile(r"Cannot deserialize object of type `([^`]+)`"),
    re.compile(r"Unknown [a-z]+(?: [a-z]+)*:? '\{.*'config': '([^']+)'"),
    re.compile(r"Unknown [a-z]+(?: [a-z]+)*: '?([\w.>/ -]+?)'?\."),
)
_FUNCTION = re.compile(r"'class_name': 'function', 'config': '(\w+)', 'registered_name': 'function'")
_UNSAFE = re.compile("unsafe|safe_mode|not a modeling function", re.IGNORECASE)


def _clean_reason(error: Exception) -> str:
    """Return the innermost reason in one line, without escape codes and the dump of a configuration."""
    return describe_error(str(error).rpartition("Exception encountered: ")[2].partition("Full object config:")[0])


def _find_missing_names(error: Exception) -> list[str]:
    """Find the full name of the class or function that Keras did not find, if that was the reason."""
    reason = _clean_reason(error)
    names = [match[1] for pattern in _MISSING if (match := pattern.search(reason))][:1]
    if names == ["function"] and (named := _FUNCTION.search(str(error))):  # The name is only a function's class.
        return [named[1]]
    return names
