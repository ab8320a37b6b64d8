"""FrozenGraph: what every importer produces and everything after it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.importers.tf import tensorflow
from builder.spec.tensor import TensorSpec

MODEL_SCOPE = "model/"
"""Where the model's own nodes are in graph.pb; ports are under ``feed/`` and ``fetch/``."""


@dataclass(frozen=True)
class Port:
    """A feed or fetch: the tensor the caller sees and the GraphDef tensor ("node:index") behind it."""

    spec: TensorSpec
    tensor: str


@dataclass(frozen=True)
class FrozenGraph:
    """A GraphDef with static shapes and no variables but those it writes, on disk in ``folder``.

    Files: ``graph.pb`` (binary GraphDef), ``config.pbtxt`` (tf2xla.Config), ``golden.npz``
    (``feed/<case>/<name>`` and ``fetch/<case>/<name>`` arrays: TensorFlow's own answers).
    """

    folder: Path
    feeds: tuple[Port, ...]
    fetches: tuple[Port, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Constants that were variables of the model: node of graph.pb to the variable's name."""
    states: tuple[Port, ...] = ()
    """Variables that the graph writes: ``tensor`` is the node of the handle. Their first values: ``state.npz``."""

    @property
    def graph_path(self) -> Path:
        return self.folder / "graph.pb"

    def definition(self) -> Any:
        """The GraphDef, read anew."""
        return tensorflow().compat.v1.GraphDef.FromString(self.graph_path.read_bytes())

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
    def ports_path(self) -> Path:
        return self.folder / "ports.json"

    def save(self) -> None:
        """Write the ports beside the files, for ``load``."""
        ports = {
            "feeds": [asdict(p) for p in self.feeds],
            "fetches": [asdict(p) for p in self.fetches],
            "variables": dict(self.variables),
            "states": [asdict(p) for p in self.states],
        }
        self.ports_path.write_text(json.dumps(ports, indent=1))

    @classmethod
    def load(cls, folder: Path) -> FrozenGraph:
        ports = json.loads((folder / "ports.json").read_text())

        def read(rows: list[dict[str, object]]) -> tuple[Port, ...]:
            return tuple(_port(row) for row in rows)

        return cls(folder, read(ports["feeds"]), read(ports["fetches"]), ports["variables"], read(ports["states"]))


def _port(row: dict[str, object]) -> Port:
    spec = row["spec"]
    assert isinstance(spec, dict)
    return Port(TensorSpec(spec["name"], spec["dtype"], tuple(spec["shape"])), str(row["tensor"]))
