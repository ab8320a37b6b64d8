"""Serialized tf.Examples at the beginning of a graph: each feature becomes an input of its own.

``tf.io.parse_example`` is cut off. Placeholders replace its fixed-length features, and the rest is a graph like any
other, whose strings cut_strings.py cuts off. The function reads the protos (handler/inputs/example.py);
example_frontend.py compares that with TensorFlow.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible
from builder.base.tf import load_graph, reference_session, tf
from builder.config import ModelSpec
from builder.config.tensor import c_identifier
from builder.importers.graph import ExamplePort, FeaturePort
from builder.importers.images.cut_decoding import remove_identity_nodes
from builder.importers.loaded import LoadedModel, RawGraph, Shape, make_names_unique, tensor_name
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.rewrite import copy_message, keep_reachable
from builder.importers.strings.frontier import fix_string_sizes, is_read
from builder.importers.strings.string_graph import add_placeholder, describe_op, find_upstream, redirect_inputs
from builder.importers.xla_ops import is_compiled

PARSE_OPS = frozenset({"ParseExample", "ParseExampleV2", "ParseSingleExample"})
"""Ops that read serialized tf.Examples; each depends on its inputs alone, and accesses nothing outside."""


@dataclass(frozen=True)
class ReadFeature:
    """A fixed-length feature that a graph reads.

    ``shape``: of one example. ``tensors``: the tensors of its values. ``name``: the name of the input that it becomes.
    """

    key: str
    name: str
    dtype: str
    shape: Shape
    default: NDArray[Any] | None
    tensors: tuple[str, ...]

    @property
    def for_callers(self) -> FeaturePort:
        """The feature in the description; default numbers are little-endian bytes as base64, which is exact."""
        if self.default is None:
            return FeaturePort(self.key, self.name, None)
        if self.dtype == "string":
            return FeaturePort(self.key, self.name, tuple(text.decode() for text in self.default.ravel().tolist()))
        data = self.default.astype(np.dtype(self.dtype).newbyteorder("<")).tobytes()
        return FeaturePort(self.key, self.name, base64.b64encode(data).decode())

    @property
    def of_function(self) -> Any:
        """The feature in the function's own type."""
        from handler.inputs.example import Feature

        default: Any = None
        if self.default is not None:
            default = tuple(self.default.ravel().tolist()) if self.dtype == "string" else self.default.tobytes()
        return Feature(self.key, self.dtype, int(np.prod(self.shape, dtype=np.int64)), default)


@dataclass(frozen=True)
class Examples:
    """A graph that begins with serialized tf.Examples, before (``whole``) and after the cut (``cut``).

    ``source``: the feed of ``whole``, with the ``shape`` [] or [batch]. ``features``: each is a feed of ``cut``.
    ``beside``: features that TensorFlow requires and no answer depends on.
    """

    name: str
    whole: RawGraph
    cut: RawGraph
    source: str
    shape: Shape
    features: tuple[ReadFeature, ...]
    beside: tuple[ReadFeature, ...] = ()

    def make_input(self, names: Collection[str]) -> ExamplePort:
        """Return the description of the tf.Examples for a model that takes inputs of these ``names``."""
        return ExamplePort(self.name, tuple(feature.for_callers for feature in self.features if feature.name in names))

    def describe_features(self) -> str:
        """Return a description of the features for a person."""
        first = ", ".join(
            f"{escape_invisible(item.name)} {item.dtype} {list(item.shape)}"
            f"{'' if item.default is None else ', may be missing'}"
            for item in self.features[:20]
        )
        rest = f"; {len(self.features) - 20} more" if len(self.features) > 20 else ""
        return f"tf.Examples in {self.name!r}, an input for each feature: {first}{rest}"


def without_examples(loaded: LoadedModel, spec: ModelSpec) -> tuple[LoadedModel, Examples | None]:
    """Return ``loaded`` with an input for each feature of tf.Examples that its fetches depend on, if any.

    Raises ImportModelError, with the name of the feature, if the function cannot read one.
    """
    if spec.source.format != "saved_model" or not loaded.ports.have_strings:
        return loaded, None
    frozen = loaded.freeze({})  # The shapes of a SavedModel are fixed.
    same, raw = replace(loaded, freeze=lambda _: frozen), remove_identity_nodes(frozen)
    names = [fetch.name for fetch in spec.fetches if fetch.name in raw.fetches] or list(raw.fetches)
    tensors = [raw.fetches[name] for name in names]
    definition = keep_reachable(raw.graph_def, tensors, raw.feeds.values())
    for node in (node for function in definition.library.function for node in function.node_def):
        if node.op in PARSE_OPS:
            raise ImportModelError(
                f"{escape_invisible(f'{node.op} ({node.name})')} stands inside of a loop or a branch (tf.map_fn): "
                "give tf.io.parse_example the whole batch."
            )
    graph = load_graph(definition)
    parsing = (op for op in graph.get_operations() if op.type in PARSE_OPS)
    ops = [op for op in parsing if any(_is_read(tensor, tensors) for tensor in op.outputs)]
    if not ops:
        return same, None
    if spec.image or spec.audio or spec.text:
        raise ImportModelError("The model takes tf.Examples: delete [image], [audio] and [text] from model.toml.")
    port = _find_input(ops, raw, loaded.ports)
    if other_names := [item.name for item in loaded.ports.feeds if item.name != port.name]:
        raise ImportModelError(
            f"The model takes {', '.join(map(repr, other_names))} beside the tf.Examples of {port.name!r}: export a "
            "signature of one of both."
        )
    source = tensor_name(raw.feeds[port.name])
    all_features = _read_features(graph, ops, tensors)
    features = _name_features([item for item in all_features if item.tensors], [p.name for p in loaded.ports.feeds])
    scalar = ops[0].type == "ParseSingleExample" or port.shape == ()
    if scalar and spec.batch != 1:
        raise ImportModelError(f"The input {port.name!r} takes one tf.Example at a time: set batch = 1 under [model].")
    shape = () if scalar else (spec.batch,)
    cut = _insert_placeholders(
        replace(raw, graph_def=fix_string_sizes(definition, source, shape)), features, () if scalar else (None,)
    )
    strings = {p.name for p in loaded.ports.fetches if p.dtype == "string"}
    if is_read(cut.graph_def, source, [cut.fetches[name] for name in names if name not in strings]):
        raise ImportModelError(f"The model does something else with {port.name!r} than reading tf.Examples.")
    lead = () if scalar else ((port.shape or (None,))[0],)
    inputs = tuple(PortInfo(item.name, item.dtype, (*lead, *item.shape)) for item in features)
    parsed = LoadedModel(replace(loaded.ports, feeds=inputs), lambda _: cut)
    nodes = {node.name for node in definition.node}
    tables = {name: table for name, table in raw.tables.items() if name in nodes}
    uncut = replace(raw, graph_def=definition, tables=tables)
    unused = tuple(item for item in all_features if not item.tensors)
    return parsed, Examples(port.name, uncut, replace(cut, tables=tables), source, shape, features, beside=unused)


def _is_read(tensor: Any, wanted: Sequence[str]) -> bool:
    return bool(tensor.consumers()) or tensor.name in map(tensor_name, wanted)


def _find_input(ops: Sequence[Any], raw: RawGraph, ports: ModelPorts) -> PortInfo:
    """Return the input that all ``ops`` read."""
    names = {tensor_name(tensor): name for name, tensor in raw.feeds.items()}
    inputs = set()
    for op in ops:
        tensor = op.inputs[0]
        while tensor.op.type == "Identity" and tensor.name not in names:
            tensor = tensor.op.inputs[0]
        if tensor.name not in names:
            raise ImportModelError(
                f"{describe_op(op)} reads {tensor.name}, which is no input of the model: feed the serialized "
                "tf.Examples to it as they are."
            )
        inputs.add(names[tensor.name])
    if len(inputs) > 1:
        raise ImportModelError(f"The inputs {', '.join(map(repr, sorted(inputs)))} are tf.Examples; one is taken.")
    return next(port for port in ports.feeds if port.name in inputs)


def _read_features(graph: Any, ops: Sequence[Any], wanted: Sequence[str]) -> list[ReadFeature]:
    """Return each feature once, without tensors if it is not read."""
    features: dict[str, ReadFeature] = {}
    for op in ops:
        sparse, dense, ragged = _read_keys(graph, op)
        keys = [*sparse * 3, *dense, *ragged * 2]
        fixed = range(3 * len(sparse), 3 * len(sparse) + len(dense))
        for at, (key, tensor) in enumerate(zip(keys, op.outputs, strict=False)):
            if at not in fixed and _is_read(tensor, wanted):
                raise ImportModelError(
                    f"The feature {key.decode(errors='replace')!r} of the tf.Examples is of any length "
                    "(VarLenFeature, RaggedFeature or SparseFeature): coldforge takes FixedLenFeature."
                )
        shapes = [tf.TensorShape(shape) for shape in op.get_attr("dense_shapes")]
        defaults = _compute_constants(graph, op.inputs[len(op.inputs) - len(dense) :])
        tensors = op.outputs[fixed.start : fixed.stop]
        for key, shape, default, tensor in zip(dense, shapes, defaults, tensors, strict=False):
            if not _is_read(tensor, wanted):
                if shape.num_elements():
                    name = key.decode(errors="replace")
                    unread = ReadFeature(name, name, tensor.dtype.name, tuple(shape.as_list()), None, ())
                    features.setdefault(name, unread)
                continue
            feature = _read_feature(key, shape, default, tensor)
            other = features.get(feature.key)
            if other is not None and other.tensors and other.for_callers != feature.for_callers:
                raise ImportModelError(f"The feature {feature.key!r} of the tf.Examples is read in two ways.")
            features[feature.key] = replace(feature, tensors=(*(other.tensors if other else ()), *feature.tensors))
    return list(features.values())


def _read_feature(key: bytes, shape: Any, default: NDArray[Any], tensor: Any) -> ReadFeature:
    try:
        text = key.decode()
    except UnicodeDecodeError as error:
        raise ImportModelError(f"The feature {key!r} of the tf.Examples has no name in UTF-8.") from error
    where = f"The feature {text!r} of the tf.Examples"
    if not shape.is_fully_defined():
        raise ImportModelError(
            f"{where} is a list of any length (FixedLenSequenceFeature): coldforge takes FixedLenFeature."
        )
    if not shape.num_elements():
        raise ImportModelError(f"{where} has no values: its shape is {shape.as_list()}.")
    value = default if default.size else None
    if value is not None and tensor.dtype == tf.string:
        try:
            [string.decode() for string in value.ravel().tolist()]
        except UnicodeDecodeError as error:
            raise ImportModelError(f"{where} has a default that is not UTF-8.") from error
    return ReadFeature(text, text, tensor.dtype.name, tuple(shape.as_list()), value, (tensor.name,))


def _read_keys(graph: Any, op: Any) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the keys of sparse features, which have three outputs each, of fixed-length ones, and of ragged ones."""
    if op.type == "ParseSingleExample":
        return list(op.get_attr("sparse_keys")), list(op.get_attr("dense_keys")), []
    if op.type == "ParseExampleV2":
        sparse, dense, ragged = (keys.tolist() for keys in _compute_constants(graph, op.inputs[2:5]))
        return sparse, dense, ragged
    count = op.get_attr("Nsparse")
    keys = [key.item() for key in _compute_constants(graph, op.inputs[2 : 2 + count + op.get_attr("Ndense")])]
    return keys[:count], keys[count:], []


def _compute_constants(graph: Any, tensors: Sequence[Any]) -> list[NDArray[Any]]:
    """Return the values of tensors that depend on no feed. Raises ImportModelError for others."""
    for tensor in tensors:
        for op in find_upstream([tensor], None):
            if op.type.startswith(("Placeholder", "VarHandle", "ReadVariable")) or not is_compiled(op.type):
                raise ImportModelError(
                    f"What tf.io.parse_example is to read depends on {describe_op(op)}: give it constants."
                )
    with reference_session(graph) as session:
        return [np.asarray(value) for value in session.run(list(tensors))]


def _name_features(features: Sequence[ReadFeature], taken: Sequence[str]) -> tuple[ReadFeature, ...]:
    """Return ``features`` with unique names that are not in ``taken``."""
    names = make_names_unique([*taken, *(feature.key or "feature" for feature in features)])[len(taken) :]
    return tuple(replace(feature, name=name) for feature, name in zip(features, names, strict=True))


def _insert_placeholders(raw: RawGraph, features: Sequence[ReadFeature], lead: tuple[None, ...]) -> RawGraph:
    """Return ``raw`` with a placeholder for each of ``features``."""
    result = copy_message(raw.graph_def)
    moved, feeds = dict[str, str](), dict[str, str]()
    for feature in features:
        name, dtype = f"example/{c_identifier(feature.name)}", tf.dtypes.as_dtype(feature.dtype)
        feeds[feature.name] = add_placeholder(result, name, dtype, (*lead, *feature.shape))
        moved |= dict.fromkeys(feature.tensors, feeds[feature.name])
    redirect_inputs(result, moved)
    fetches = {name: moved.get(tensor_name(tensor), tensor) for name, tensor in raw.fetches.items()}
    return replace(raw, graph_def=result, feeds=feeds, fetches=fetches)
