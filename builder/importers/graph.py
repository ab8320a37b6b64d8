"""The frozen graph that every importer writes and that all later stages read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import SandboxError
from builder.base.records import dump_record, read_record
from builder.base.tf import tf
from builder.config.tensor import IndexRange, TensorSpec, integer_limits

MODEL_SCOPE = "model/"
"""The scope of the model's own nodes in graph.pb; ports are under ``feed/`` and ``fetch/``."""

_PORTS, WORDS, EXAMPLES = "ports.json", "model.words", "words.npz"
_LARGEST_PORTS, _LARGEST_TENSOR = 64 << 20, 1 << 40
"""Limits in bytes."""


@dataclass(frozen=True)
class GraphPort:
    """A feed or fetch: the tensor the caller sees and the GraphDef tensor ("node:index") behind it.

    ``symbols``: of a feed that is one-hot encoded, the number of its codes.
    """

    spec: TensorSpec
    tensor: str
    symbols: int = 0

    @property
    def golden_spec(self) -> TensorSpec:
        """The feed as golden inputs are drawn for it: all bytes below ``symbols``, where wider integers are 0 or 1."""
        if not self.symbols:
            return self.spec
        return replace(self.spec, dtype="uint8", ranges=(IndexRange(0, 1, 1, 0, min(self.symbols, 256) - 1),))


@dataclass(frozen=True)
class StringPort:
    """An input of strings, from which the function computes ``feeds``. ``shape`` is the shape of one batch.

    ``tokens``: the feed with a number for each word of a text, where an output has a row for each word.
    """

    name: str
    shape: tuple[int, ...]
    feeds: tuple[str, ...]
    tokens: str = ""


@dataclass(frozen=True)
class FeaturePort:
    """A feature of a tf.Example, for the input ``name``.

    ``default``: the value of a missing feature: strings, or the base64 of numbers' raw little-endian bytes.
    """

    key: str
    name: str
    default: str | tuple[str, ...] | None


@dataclass(frozen=True)
class ExamplePort:
    """The model's input ``name`` of serialized tf.Examples, which callers may give instead of all others."""

    name: str
    features: tuple[FeaturePort, ...]


@dataclass(frozen=True)
class TablePort:
    """The columns of a table, which are those of ``feed``, or, where it is empty, an input each.

    ``categories``, ``unknown``, ``required``: see ``PortInfo``.
    """

    feed: str = ""
    columns: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: Mapping[str, float | None] = field(default_factory=dict)
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class CallerInputs:
    """The inputs that callers of one signature give in the place of tensors."""

    strings: tuple[StringPort, ...] = ()
    examples: ExamplePort | None = None
    table: TablePort | None = None


class GraphFile:
    """The path of a file in the folder of a frozen graph."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, graph: FrozenGraph, owner: type) -> Path:
        return graph.folder / self.name


@dataclass(frozen=True)
class FrozenGraph:
    """A GraphDef with static feeds and no variables but those it writes, on disk in ``folder``."""

    graph_path = GraphFile("graph.pb")
    """The binary GraphDef."""
    original_path = GraphFile("original.pb")
    """The GraphDef before ops were rewritten; there is no file if none were."""
    config_path = GraphFile("config.pbtxt")
    """A tf2xla.Config."""
    ports_path = GraphFile(_PORTS)
    golden_path = GraphFile("golden.npz")
    """TensorFlow's own answers: arrays ``feed/<case>/<name>`` and ``fetch/<case>/<name>``."""
    state_path = GraphFile("state.npz")
    words_path = GraphFile(WORDS)
    """The function's program for strings, if there are any."""
    examples_path = GraphFile(EXAMPLES)
    """Feeds that this program computed from examples: ``<case>/<feed>``."""

    folder: Path
    feeds: tuple[GraphPort, ...]
    fetches: tuple[GraphPort, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variable's name for each node of graph.pb that was a variable of the model."""
    states: tuple[GraphPort, ...] = ()
    """Variables that the graph writes; ``tensor`` is the handle's node, and ``state.npz`` has the first values."""
    strings: tuple[StringPort, ...] = ()
    examples: ExamplePort | None = None
    table: TablePort | None = None
    warnings: tuple[str, ...] = ()
    """Copied from ``ModelPorts``."""
    origin: str = ""  # For a Keras model, the versions that wrote and read it.

    @property
    def caller_inputs(self) -> CallerInputs:
        """The inputs in the place of tensors."""
        return CallerInputs(self.strings, self.examples, self.table)

    @property
    def reference_path(self) -> Path:
        """The path of the GraphDef that TensorFlow runs; a rewritten one would only agree with itself."""
        return self.original_path if self.original_path.exists() else self.graph_path

    def read_definition(self) -> Any:
        """Read the GraphDef that is compiled."""
        return _read_graph_def(self.graph_path)

    def read_reference(self) -> Any:
        """Read the GraphDef at ``reference_path``."""
        return _read_graph_def(self.reference_path)

    def first_state(self) -> dict[str, NDArray[Any]]:
        """Return the value of each variable when the model is opened, by the node of its handle."""
        if not self.states:
            return {}
        with np.load(self.state_path, allow_pickle=False) as values:
            return {state.tensor: values[str(i)] for i, state in enumerate(self.states)}

    def save(self) -> None:
        """Write the ports to ``ports_path``, from which ``load`` reads them."""
        row = dump_record(self)
        del row["folder"]
        self.ports_path.write_text(json.dumps(row, indent=1))

    @classmethod
    def load(cls, folder: Path) -> FrozenGraph:
        """Read the ports that ``save`` wrote, or raise SandboxError for an invalid file.

        A trusted model's code may have run in the process that wrote the file, and its contents become C.
        """
        try:
            with (folder / _PORTS).open("rb") as file:
                row = json.loads(file.read(_LARGEST_PORTS))
            graph = read_record(cls, row | {"folder": folder})
            _require_possible_ports(graph)
            return graph
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise SandboxError(
                f"The process that read the model left a {_PORTS} that does not say what its inputs and outputs are. "
                f"Delete {folder}, and build again only if you trust the model."
            ) from error


def _read_graph_def(path: Path) -> Any:
    return tf.compat.v1.GraphDef.FromString(path.read_bytes())


def _require_possible_ports(graph: FrozenGraph) -> None:
    """Raise an error for impossible tensors, or unless a fetch of dynamic size precedes its shape, for the runtime."""
    for port in (*graph.feeds, *graph.fetches, *graph.states):
        _require_tensor(port.spec)
        if not 0 <= port.symbols <= _LARGEST_TENSOR:
            raise ValueError("symbols")
    if any(port.spec.dynamic for port in (*graph.feeds, *graph.states)):
        raise ValueError("dynamic")
    specs = [port.spec for port in graph.fetches]
    for spec, after in zip(specs, [*specs[1:], None], strict=True):
        if spec.dynamic and after != TensorSpec(spec.shape_fetch, "int32", (len(spec.shape),)):
            raise ValueError("shape")


def _require_tensor(spec: TensorSpec) -> None:
    """Raise TypeError, ValueError or LookupError for an impossible tensor."""
    if min(spec.shape, default=0) < 0 or not set(spec.dynamic) <= set(range(len(spec.shape))):
        raise ValueError("shape")
    if spec.size > _LARGEST_TENSOR:
        raise ValueError("size")
    low, high = integer_limits("int64")
    for span in spec.ranges:
        if not low <= min(astuple(span)) <= max(astuple(span)) <= high:
            raise ValueError("limits")
        if not (0 <= span.first < span.first + span.count <= span.period and spec.elements % span.period == 0):
            raise ValueError("range")
