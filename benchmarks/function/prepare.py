"""``python -m benchmarks.function.prepare``: emotion's bundle as a user builds it, and each peer's model.

A process of its own, because it needs TensorFlow. Everything goes below ``build/bench``; ``dist/`` and the layer that
SAM deploys stay as they are.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks import prepare as peers
from benchmarks.function.functions import LAYER, NETWORK, PLACE
from benchmarks.models import ROOT
from builder.importers.graph import FrozenGraph
from builder.pipeline import build_bundle
from builder.spec import load
from builder.workspace import Workspace


@dataclass(frozen=True)
class FunctionProject(peers.BenchProject):
    """Apart from the bare network of the same name."""

    @property
    def build(self) -> Path:
        return PLACE / "project"

    @property
    def dist(self) -> Path:
        return PLACE / "dist"

    @property
    def layers(self) -> Path:
        return PLACE / "layers"


def main() -> None:
    peers.prepare(NETWORK)
    project = FunctionProject(ROOT)
    shutil.copytree(ROOT / "layers" / "dependencies", project.layers / "dependencies", dirs_exist_ok=True)
    spec = load(ROOT / "examples" / "emotion" / "model.toml")
    bundle = build_bundle(Workspace.of(spec, project)).bundle
    assert bundle.layer == LAYER, bundle.layer
    graph = FrozenGraph.load(project.build / NETWORK.name / "import")
    assert graph.feeds[0].spec.dtype == "uint8"
    (PLACE / "description.json").write_text(json.dumps(_described(bundle.library)))


def _described(library: Path) -> object:
    import ctypes

    loaded = ctypes.CDLL(str(library))
    loaded.cf_describe.restype = ctypes.c_char_p
    return json.loads(loaded.cf_describe())


if __name__ == "__main__":
    main()
