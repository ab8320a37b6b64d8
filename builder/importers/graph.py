"""FrozenGraph: what every importer produces and everything after it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from builder.tensor import TensorSpec


@dataclass(frozen=True)
class Port:
    """A feed or fetch: the tensor the caller sees and the GraphDef tensor ("node:index") behind it."""

    spec: TensorSpec
    tensor: str


@dataclass(frozen=True)
class FrozenGraph:
    """A GraphDef without variables and with static shapes, on disk in ``folder``.

    Files: ``graph.pb`` (binary GraphDef), ``config.pbtxt`` (tf2xla.Config), ``golden.npz``
    (``feed/<case>/<name>`` and ``fetch/<case>/<name>`` arrays: TensorFlow's own answers).
    """

    folder: Path
    feeds: tuple[Port, ...]
    fetches: tuple[Port, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Constants that were variables of the model: node of graph.pb to the variable's name."""

    @property
    def graph_path(self) -> Path:
        return self.folder / "graph.pb"

    @property
    def config_path(self) -> Path:
        return self.folder / "config.pbtxt"

    @property
    def golden_path(self) -> Path:
        return self.folder / "golden.npz"

    @property
    def ports_path(self) -> Path:
        return self.folder / "ports.json"

    def save(self) -> None:
        """Write the ports beside the files, for ``load``."""
        ports = {
            "feeds": [asdict(p) for p in self.feeds],
            "fetches": [asdict(p) for p in self.fetches],
            "variables": dict(self.variables),
        }
        self.ports_path.write_text(json.dumps(ports, indent=1))

    @classmethod
    def load(cls, folder: Path) -> FrozenGraph:
        ports = json.loads((folder / "ports.json").read_text())

        def read(rows: list[dict[str, object]]) -> tuple[Port, ...]:
            return tuple(_port(row) for row in rows)

        return cls(folder, read(ports["feeds"]), read(ports["fetches"]), ports["variables"])


def _port(row: dict[str, object]) -> Port:
    spec = row["spec"]
    assert isinstance(spec, dict)
    return Port(TensorSpec(spec["name"], spec["dtype"], tuple(spec["shape"])), str(row["tensor"]))
