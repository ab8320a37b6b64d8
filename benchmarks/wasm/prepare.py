"""``python -m benchmarks.wasm.prepare NAME``: what ``benchmarks.prepare`` makes, our modules, TensorFlow.js' model."""

from __future__ import annotations

import importlib.metadata
import json
import sys

from benchmarks import prepare
from benchmarks.models import NETWORKS, ROOT, Network
from benchmarks.wasm.tfjs import to_tfjs
from builder.cache import digest, run_cached
from builder.importers.graph import FrozenGraph
from builder.spec import load
from builder.wasm.build import build_wasm
from builder.workspace import Workspace


def prepare_wasm(network: Network) -> None:
    """Add ``wasm`` and ``tfjs`` to the network's folder, and to ready.json what became of them."""
    ready = prepare.prepare(network)
    project = prepare.BenchProject(ROOT)
    modules = build_wasm(Workspace.of(load(network.folder / "model.toml"), project))
    delivered = modules[0].path.parent
    prepare._place(network.folder / "wasm", {path.name: path for path in delivered.iterdir()})
    ready["wasm"] = {
        module.path.name: {"bytes": module.path.stat().st_size, "lowered": module.attempt} for module in modules
    }
    graph = FrozenGraph.load(project.build / network.name / "import")
    try:
        key = digest(graph.graph_path, importlib.metadata.version("tensorflowjs"))
        run_cached(network.folder / "tfjs", key, lambda fresh: to_tfjs(graph, fresh))
    except Exception as error:  # a peer's converter may fail in any way; the run goes on without it
        ready["failed"]["tfjs"] = f"conversion failed: {' '.join(str(error).split())[:300]}"
    (network.folder / "ready.json").write_text(json.dumps(ready, indent=1))


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        prepare_wasm(NETWORKS[chosen])
