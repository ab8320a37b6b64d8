"""FrozenGraph: what every importer produces and everything after it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import SandboxError
from builder.base.records import dump_record, read_record
from builder.base.tf import tf
from builder.config.tensor import TensorSpec, integer_limits

MODEL_SCOPE = "model/"
"""Where the model's own nodes are in graph.pb; ports are under ``feed/`` and ``fetch/``."""

_PORTS = "ports.json"
WORDS, EXAMPLES = "model.words", "words.npz"
_LARGEST_PORTS, _LARGEST_TENSOR = 64 << 20, 1 << 40
"""Bytes."""


@dataclass(frozen=True)
class GraphPort:
    """A feed or fetch: the tensor the caller sees and the GraphDef tensor ("node:index") behind it."""

    spec: TensorSpec
    tensor: str


@dataclass(frozen=True)
class StringPort:
    """Strings that callers give, and of which the function makes ``feeds``. ``shape``: of one batch. ``tokens``: the
    feed that has a number for each word of a text, where an answer is of the words.
    """

    name: str
    shape: tuple[int, ...]
    feeds: tuple[str, ...]
    tokens: str = ""


@dataclass(frozen=True)
class FeaturePort:
    """A feature of a tf.Example, for the input ``name``; ``default`` where it may be missing: strings, or the base64 of
    numbers' raw little-endian bytes.
    """

    key: str
    name: str
    default: str | tuple[str, ...] | None


@dataclass(frozen=True)
class ExamplePort:
    """Serialized tf.Examples that callers may give in the place of all inputs, called ``name`` by the model."""

    name: str
    features: tuple[FeaturePort, ...]


@dataclass(frozen=True)
class CallerInputs:
    """What callers of one signature give in the place of tensors."""

    strings: tuple[StringPort, ...] = ()
    examples: ExamplePort | None = None


@dataclass(frozen=True)
class FrozenGraph:
    """A GraphDef with static feeds and no variables but those it writes, on disk in ``folder``.

    Files: ``graph.pb`` (binary GraphDef), ``model.words`` (what the function does with strings, where there are such),
    ``words.npz`` (feeds that it made of some: ``<case>/<feed>``), ``original.pb`` (the GraphDef before ops of it were
    rewritten, if any were), ``config.pbtxt`` (tf2xla.Config), ``golden.npz`` (``feed/<case>/<name>`` and
    ``fetch/<case>/<name>`` arrays: TensorFlow's own answers).
    """

    folder: Path
    feeds: tuple[GraphPort, ...]
    fetches: tuple[GraphPort, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Constants that were variables of the model: node of graph.pb to the variable's name."""
    states: tuple[GraphPort, ...] = ()
    """Variables that the graph writes: ``tensor`` is the node of the handle. Their first values: ``state.npz``."""
    strings: tuple[StringPort, ...] = ()
    examples: ExamplePort | None = None
    warnings: tuple[str, ...] = ()
    """As ``ModelPorts`` has them."""
    origin: str = ""  # of a Keras model: what wrote and what read it

    @property
    def caller_inputs(self) -> CallerInputs:
        return CallerInputs(self.strings, self.examples)

    @property
    def graph_path(self) -> Path:
        return self.folder / "graph.pb"

    @property
    def original_path(self) -> Path:
        """Where the GraphDef stands as it was before ops were rewritten. There is no file where none were."""
        return self.folder / "original.pb"

    @property
    def reference_path(self) -> Path:
        """The GraphDef that TensorFlow answers with: a rewritten one would only agree with itself."""
        return self.original_path if self.original_path.exists() else self.graph_path

    def read_definition(self) -> Any:
        """The GraphDef that is compiled, read anew."""
        return _read_graph_def(self.graph_path)

    def read_reference(self) -> Any:
        """The GraphDef at ``reference_path``, read anew."""
        return _read_graph_def(self.reference_path)

    @property
    def config_path(self) -> Path:
        return self.folder / "config.pbtxt"

    @property
    def golden_path(self) -> Path:
        return self.folder / "golden.npz"

    @property
    def state_path(self) -> Path:
        return self.folder / "state.npz"

    def first_state(self) -> dict[str, NDArray[Any]]:
        """The value of each variable when the model is opened, by the node of its handle."""
        if not self.states:
            return {}
        with np.load(self.state_path, allow_pickle=False) as values:
            return {state.tensor: values[str(i)] for i, state in enumerate(self.states)}

    @property
    def words_path(self) -> Path:
        return self.folder / WORDS

    @property
    def examples_path(self) -> Path:
        return self.folder / EXAMPLES

    @property
    def ports_path(self) -> Path:
        return self.folder / _PORTS

    def save(self) -> None:
        """Write the ports beside the files, for ``load``."""
        row = dump_record(self)
        del row["folder"]
        self.ports_path.write_text(json.dumps(row, indent=1))

    @classmethod
    def load(cls, folder: Path) -> FrozenGraph:
        """What ``save`` wrote. Raises SandboxError for anything else.

        A trusted model's code may have run in the process that wrote it, and what is read here becomes C.
        """
        try:
            with (folder / _PORTS).open("rb") as file:
                found = json.loads(file.read(_LARGEST_PORTS))
            graph = read_record(cls, found | {"folder": folder})
            for port in (*graph.feeds, *graph.fetches, *graph.states):
                _require_tensor(port.spec)
            _require_shapes(graph.feeds, graph.fetches, graph.states)
            return graph
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise SandboxError(
                f"The process that read the model left a {_PORTS} that does not say what its inputs and outputs are. "
                f"Delete {folder}, and build again only if you trust the model."
            ) from error


def _read_graph_def(path: Path) -> Any:
    return tf.compat.v1.GraphDef.FromString(path.read_bytes())


def _require_shapes(
    feeds: tuple[GraphPort, ...], fetches: tuple[GraphPort, ...], states: tuple[GraphPort, ...]
) -> None:
    """The runtime reads how large a fetch is in the one after it. Raises ValueError where that is no shape."""
    if any(port.spec.dynamic for port in (*feeds, *states)):
        raise ValueError("dynamic")
    following = [*(port.spec for port in fetches[1:]), None]
    for spec, after in zip((port.spec for port in fetches), following, strict=True):
        if spec.dynamic and after != TensorSpec(spec.shape_fetch, "int32", (len(spec.shape),)):
            raise ValueError("shape")


def _require_tensor(spec: TensorSpec) -> None:
    """Raise TypeError, ValueError or LookupError for a tensor that cannot be."""
    if min(spec.shape, default=0) < 0 or not set(spec.dynamic) <= set(range(len(spec.shape))):
        raise ValueError("shape")
    if spec.size > _LARGEST_TENSOR:
        raise ValueError("size")
    low, high = integer_limits("int64")
    for one in spec.ranges:
        if not low <= min(astuple(one)) <= max(astuple(one)) <= high:
            raise ValueError("limits")
        if not (0 <= one.first < one.first + one.count <= one.period and spec.elements % one.period == 0):
            raise ValueError("range")
