"""``python -m benchmarks.prepare NAME``: everything that is measured of one network, below ``build/bench/NAME/``.

A process of its own, because it needs TensorFlow and the measuring one must stay small. What is there
already for the same sources and versions is kept.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from benchmarks import convert
from benchmarks.models import FOLDER, ROOT, SAMPLES, Network, named
from builder.cache import digest, run_cached
from builder.importers.graph import FrozenGraph
from builder.pack.bundle import Bundle
from builder.project import Project, cache_folder

HERE = Path(__file__).parent


@dataclass(frozen=True)
class BenchProject(Project):
    """Builds below ``build/bench``, so that neither ``dist/`` nor the layer that SAM deploys changes."""

    @property
    def build(self) -> Path:
        return FOLDER / "project"

    @property
    def cache(self) -> Path:
        return cache_folder()

    @property
    def dist(self) -> Path:
        return FOLDER / "dist"

    @property
    def layers(self) -> Path:
        return FOLDER / "layers"


def prepare(network: Network) -> dict[str, Any]:
    """Make what is missing; returns (and writes as ready.json) shapes, files and what could not be made."""
    folder = network.folder
    folder.mkdir(parents=True, exist_ok=True)
    sources = digest(HERE / "models.py", HERE / "weights.py", importlib.metadata.version("keras"))
    run_cached(folder / "keras", sources, lambda fresh: _save(network, fresh))
    bundle = _build(network)
    graph = FrozenGraph.load(BenchProject(ROOT).build / network.key / "import")
    how = {"coldforge": "coldforge's own pipeline on the .keras file"}
    failed: dict[str, str] = {}
    _place(folder / "coldforge", {"libmodel.so": bundle.library})
    _place(folder / "tensorflow", {"graph.pb": graph.graph_path, "ports.json": graph.ports_path})
    how["tensorflow"] = how["tensorflow_xla"] = "the frozen graph that coldforge compiles"

    def peer(engine: str, package: str, place: str, make: Callable[[Path], str]) -> None:
        try:
            key = digest(
                HERE / "convert.py", HERE / "bert_onnx.py", graph.graph_path, importlib.metadata.version(package)
            )
            run_cached(folder / place, key, lambda fresh: (fresh / "how").write_text(make(fresh)))
            how[engine] = (folder / place / "how").read_text()
        except importlib.metadata.PackageNotFoundError:
            failed[engine] = f"{package} is not installed"
        except Exception as error:  # a peer's converter may fail in any way; the run goes on without it
            failed[engine] = f"conversion failed: {' '.join(str(error).split())[:300]}"

    onnx_model = folder / "onnx" / "model.onnx"
    keras_model = folder / "keras" / "model.keras"
    peer("onnxruntime", "onnx", "onnx", lambda to: convert.to_onnx(graph, keras_model, network.name, to / "model.onnx"))
    peer(
        "openvino",
        "openvino",
        "openvino",
        lambda to: convert.to_openvino(graph, onnx_model, network.name, to / "model.xml"),
    )
    peer("litert", "tensorflow-cpu", "litert", lambda to: convert.to_litert(graph, to / "model.tflite"))
    ready = {
        "what": network.what,
        "parameters": json.loads((folder / "keras" / "model.json").read_text())["parameters"],
        "feed": list(graph.feeds[0].spec.shape),
        "fetches": [list(port.spec.shape) for port in graph.fetches],
        "outputs": [port.tensor for port in graph.fetches],
        "layer_bytes": sum(p.stat().st_size for p in bundle.layer.rglob("*") if p.is_file()),
        "how": how,
        "failed": failed,
    }
    (folder / "ready.json").write_text(json.dumps(ready, indent=1))
    return ready


def _save(network: Network, folder: Path) -> None:
    """The Keras model, the inputs, and TensorFlow's own answers to them as float32 bytes."""
    model = network.make()
    model.save(folder / "model.keras")
    feeds = network.feeds(model, SAMPLES * network.batch, seed=0)
    for number in range(SAMPLES):
        sample = {name: np.split(array, SAMPLES)[number] for name, array in feeds.items()}
        (folder / f"{number}.in").write_bytes(b"".join(sample[name].tobytes() for name in sorted(sample)))
        inputs = [sample[one.name] for one in model.inputs]
        answers = model(inputs if len(inputs) > 1 else inputs[0], training=False)
        answers = list(answers) if isinstance(answers, list | tuple) else [answers]
        np.savez(folder / f"{number}.npz", *[np.asarray(answer) for answer in answers])
    (folder / "model.json").write_text(json.dumps({"parameters": model.count_params()}))


def _build(network: Network) -> Bundle:
    from builder.pipeline import build_bundle
    from builder.spec import load
    from builder.workspace import Workspace

    project = BenchProject(ROOT)
    shutil.copytree(ROOT / "layers" / "dependencies", project.layers / "dependencies", dirs_exist_ok=True)
    spec = network.folder / "model.toml"
    model = f'source = "keras/model.keras"\nname = "{network.key}"\nbatch = {network.batch}'
    text = f"[model]\n{model}\n\n[limits]\nzipped = 262_144_000\n"
    if network.batch > 1:
        # Among so many random pictures are some for which a stirred network amplifies float32's own errors, XLA's too.
        # The answers to the benchmark's inputs are held to its own tolerance, as those of every engine.
        text += "\n[tolerance]\nabsolute = 0.002\n"
    spec.write_text(text)
    return build_bundle(Workspace.of(load(spec), project)).bundle


def _place(folder: Path, files: dict[str, Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in files.items():
        # Under a new name first: a library that is loaded somewhere must not change under it.
        shutil.copyfile(source, folder / f"{name}.fresh")
        (folder / f"{name}.fresh").replace(folder / name)


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        prepare(named(chosen))
