"""``python -m benchmarks.prepare NAME [INT8 ENGINE...]``: make a network's models in ``build/bench/NAME/``.

It is a process of its own, because it needs TensorFlow and the measuring process must stay small. Models that exist for
the same sources and versions are kept.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from benchmarks import convert, held_out, int8
from benchmarks.engines import INT8, OURS_INT8
from benchmarks.find_network import find_network
from benchmarks.models import FOLDER, READY, ROOT, SAMPLES, Network
from builder.base.cache import compute_digest, run_cached
from builder.base.project import Project, cache_folder
from builder.base.targets import host_target
from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle

HERE = Path(__file__).parent


@dataclass(frozen=True)
class BenchProject(Project):
    """A project that builds below ``build/bench``, so that neither ``dist/`` nor the deployed layer changes."""

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


def prepare(network: Network, int8_engines: Collection[str] = ()) -> dict[str, Any]:
    """Make the missing models; returns (and writes as ready.json) shapes, files and failures.

    The int8 models are made for ``int8_engines`` alone, which are names in ``benchmarks.engines.INT8``.
    """
    folder = network.folder
    folder.mkdir(parents=True, exist_ok=True)
    save_keras(network)
    bundle = _build(network)
    graph = FrozenGraph.load(BenchProject(ROOT).build / network.key / "import")
    how = {"coldforge": "coldforge's own pipeline on the .keras file"}
    failed: dict[str, str] = {}
    place_files(folder / "coldforge", {"libmodel.so": bundle.library})
    place_files(folder / "tensorflow", {"graph.pb": graph.graph_path, "ports.json": graph.ports_path})
    how["tensorflow"] = how["tensorflow_xla"] = "the frozen graph that coldforge compiles"

    def peer(engine: str, package: str, place: str, make: Callable[[Path], str], *more: Path | str) -> None:
        if engine in INT8 and engine not in int8_engines:
            return
        try:
            made_by = [HERE / "convert.py", HERE / "bert_onnx.py", importlib.metadata.version(package)]
            key = compute_digest(*made_by, graph.graph_path, *more)
            run_cached(folder / place, key, lambda fresh: (fresh / "how").write_text(make(fresh)))
            how[engine] = (folder / place / "how").read_text()
        except importlib.metadata.PackageNotFoundError:
            failed[engine] = f"{package} is not installed"
        except Exception as error:  # a peer's converter may fail in any way; the run goes on without it
            failed[engine] = f"conversion failed: {' '.join(str(error).split())[:300] or type(error).__name__}"

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

    if int8_engines:
        _prepare_int8(network, graph, bundle.library, peer)
    ready = {
        "parameters": json.loads((folder / "keras" / "model.json").read_text())["parameters"],
        "fetches": [(port.spec.dtype, list(port.spec.shape)) for port in graph.fetches],
        "layer_bytes": sum(p.stat().st_size for p in bundle.layer.rglob("*") if p.is_file()),
        "how": how,
        "failed": failed,
    }
    (folder / READY).write_text(json.dumps(ready, indent=1))
    return ready


def _prepare_int8(network: Network, graph: FrozenGraph, library: Path, peer: Callable[..., None]) -> None:
    """Make the int8 models; those in float32 exist. ``peer`` as in ``prepare``."""
    folder, batch = network.folder, network.batch
    sources = compute_digest(HERE / "held_out.py", HERE / "models.py", folder / "keras" / "model.keras")
    run_cached(folder / held_out.FOLDER, sources, lambda fresh: _hold_out(network, fresh))
    calibration = folder / held_out.FOLDER / "calibration.npz"
    kept = (HERE / "int8.py", calibration)
    # The builder is part of the key, since the float library does not have the int8 kernels.
    builder = sorted(path for path in (ROOT / "builder").rglob("*") if path.suffix in (".py", ".c", ".h"))
    onnx, onnx_int8, xml = (folder / path for path in ("onnx/model.onnx", "onnx_int8/model.onnx", "openvino/model.xml"))
    peer(
        OURS_INT8,
        "tensorflow-cpu",
        OURS_INT8,
        lambda to: int8.to_coldforge(workspace(network), calibration, to / "libmodel.so"),
        *(*kept, library, *builder),
    )
    peer(
        "onnxruntime_int8",
        "onnxruntime",
        "onnx_int8",
        lambda to: int8.to_onnx(onnx, calibration, batch, to / "model.onnx"),
        *kept,
    )
    peer(
        "openvino_int8",
        "openvino",
        "openvino_int8",
        lambda to: int8.to_openvino(network, xml, onnx_int8, calibration, to / "model.xml"),
        *(*kept, _version("nncf")),
    )
    peer(
        "litert_int8",
        "tensorflow-cpu",
        "litert_int8",
        lambda to: int8.to_litert(graph, calibration, batch, to / "model.tflite"),
        *kept,
    )


def save_keras(network: Network) -> None:
    """Save the Keras model, of which every engine's is made, in ``network.folder / "keras"``."""
    sources = compute_digest(HERE / "models.py", HERE / "weights.py", importlib.metadata.version("keras"))
    run_cached(network.folder / "keras", sources, lambda fresh: _save(network, fresh))


def _save(network: Network, folder: Path) -> None:
    """Save the Keras model, the inputs, and TensorFlow's own answers to them as float32 bytes."""
    model = network.make()
    model.save(folder / "model.keras")
    feeds = network.feeds(model, SAMPLES * network.batch, seed=0)
    for number in range(SAMPLES):
        sample = {name: np.split(array, SAMPLES)[number] for name, array in feeds.items()}
        held_out.write_sample(model, sample, folder / str(number))
    (folder / "model.json").write_text(json.dumps({"parameters": model.count_params()}))


def _hold_out(network: Network, folder: Path) -> None:
    import keras

    held_out.write(network, keras.saving.load_model(network.folder / "keras" / "model.keras", compile=False), folder)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _build(network: Network) -> Bundle:
    from builder.pipeline.build_bundle import build_bundle

    return build_bundle(workspace(network)).bundle


def workspace(network: Network, source: str = "keras/model.keras") -> Any:
    """Return a workspace for the build of ``network`` from the file ``source``, and write its model.toml."""
    from builder.config import read_spec
    from builder.pipeline.workspace import Workspace

    project = BenchProject(ROOT)
    shutil.copytree(ROOT / "layers" / "dependencies", project.layers / "dependencies", dirs_exist_ok=True)
    spec = network.folder / "model.toml"
    model = f'source = "{source}"\nname = "{network.key}"\nbatch = {network.batch}'
    text = f"[model]\n{model}\n\n[limits]\nzipped = 262_144_000\n"
    if network.batch > 1:
        # For some of so many random images, a stirred network amplifies float32's own errors, with XLA, too. The
        # answers to the benchmark's inputs must be within its own tolerance, as those of every engine.
        text += "\n[tolerance]\nabsolute = 0.01\n"
    spec.write_text(text)
    return Workspace.from_spec(read_spec(spec), project, host_target())


def place_files(folder: Path, files: dict[str, Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in files.items():
        # The file is written under a new name first: a library that a process has loaded must not change.
        shutil.copyfile(source, folder / f"{name}.fresh")
        (folder / f"{name}.fresh").replace(folder / name)


if __name__ == "__main__":
    prepare(find_network(sys.argv[1]), sys.argv[2:])
