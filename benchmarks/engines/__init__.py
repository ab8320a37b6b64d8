"""The engines that are measured: a small class for each, in a module that is imported only where it runs.

Every class has the same four methods. The constructor takes the model's path and the number of threads, and loads the
model; ``feed(data)`` converts a sample's bytes to the argument of ``run``; ``run(feed)`` gives the answers in the
engine's own form (this alone is timed); and ``raw(answers)`` converts these to bytes, one item for each fetch, in
TensorFlow's order.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol


class Engine(Protocol):
    def __init__(self, model: Path, threads: int) -> None: ...
    def feed(self, data: bytes) -> Any: ...
    def run(self, feed: Any) -> Any: ...
    def raw(self, answers: Any) -> list[bytes]: ...


@dataclass(frozen=True)
class Kind:
    """An engine: its ``module`` and ``cls`` in this package, its ``model`` file below the network's folder.

    ``environment`` is set before the process starts; ``avx2`` is the environment that keeps the engine off AVX-512,
    None if it has no such switch. ``package`` is the distribution whose version is reported. ``int8``: whether
    ``benchmarks.held_out`` judges its answers, rather than that they must be TensorFlow's.
    """

    label: str
    module: str
    cls: str
    model: str
    settings: str
    package: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    avx2: Mapping[str, str] | None = None
    int8: bool = False

    def load_class(self) -> type[Engine]:
        """Import the engine's module, and with it the engine."""
        engine: type[Engine] = getattr(importlib.import_module(f"benchmarks.engines.{self.module}"), self.cls)
        return engine


_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}

OURS = "coldforge"
ENGINES: dict[str, Kind] = {
    OURS: Kind(
        "coldforge",
        "coldforge",
        "Coldforge",
        "coldforge/libmodel.so",
        "libmodel.so through ctypes: cf_open(threads), then cf_run",
        avx2={"COLDFORGE_CPU": "x86-64-v3"},
    ),
    "onnxruntime": Kind(
        "ONNX Runtime",
        "onnxruntime",
        "OnnxRuntime",
        "onnx/model.onnx",
        "CPUExecutionProvider, ORT_ENABLE_ALL, intra_op_num_threads, inter_op 1, sequential, spinning on",
        "onnxruntime",
    ),
    "openvino": Kind(
        "OpenVINO",
        "openvino",
        "OpenVino",
        "openvino/model.xml",
        "CPU, PERFORMANCE_HINT LATENCY, INFERENCE_NUM_THREADS, NUM_STREAMS 1, f32, no cache, input shared",
        "openvino",
        avx2={"ONEDNN_MAX_CPU_ISA": "AVX2"},
    ),
    "litert": Kind(
        "LiteRT",
        "litert",
        "LiteRt",
        "litert/model.tflite",
        "Interpreter with num_threads, XNNPACK delegate (the default)",
        "ai-edge-litert",
    ),
    "tensorflow": Kind(
        "TensorFlow",
        "tensorflow",
        "TensorFlow",
        "tensorflow/graph.pb",
        "frozen graph as an eager function (Grappler, oneDNN), intra_op threads, inter_op 1",
        "tensorflow-cpu",
        environment=_QUIET,
        avx2={"ONEDNN_MAX_CPU_ISA": "AVX2"},
    ),
    "tensorflow_xla": Kind(
        "TensorFlow XLA",
        "tensorflow",
        "TensorFlowXla",
        "tensorflow/graph.pb",
        "the same function with jit_compile=True",
        "tensorflow-cpu",
        environment=_QUIET,
        avx2={"ONEDNN_MAX_CPU_ISA": "AVX2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"},
    ),
}

OURS_INT8 = "coldforge_int8"


def _int8(engine: str, folder: str) -> Kind:
    """Return the kind of ``engine`` with an int8 model, which it runs like one of float32."""
    kind = ENGINES[engine]
    return replace(kind, label=f"{kind.label} int8", model=f"{folder}/{Path(kind.model).name}", int8=True)


INT8: dict[str, Kind] = {
    OURS_INT8: _int8(OURS, "coldforge_int8"),
    "onnxruntime_int8": _int8("onnxruntime", "onnx_int8"),
    "openvino_int8": _int8("openvino", "openvino_int8"),
    "litert_int8": _int8("litert", "litert_int8"),
}
"""The same engines with int8 weights and activations."""

TREES_OURS, TREES_AVX2 = "coldforge_trees", "coldforge_trees_avx2"
TREES: dict[str, Kind] = {
    name: Kind(label, "trees", "Trees", f"../../{model}", "", package)
    for name, label, model, package in (
        (TREES_OURS, "coldforge", "coldforge/libmodel.so", None),
        (TREES_AVX2, "coldforge, AVX2", "coldforge/libmodel.so", None),
        ("lightgbm", "LightGBM", "trained/model.txt", "lightgbm"),
        ("xgboost", "XGBoost", "trained/model.json", "xgboost-cpu"),
        ("forest", "scikit-learn", "trained/model.joblib", "scikit-learn"),
        ("onnxruntime_trees", "ONNX Runtime", "onnx/model.onnx", "onnxruntime"),
        ("lleaves", "lleaves", "lleaves/model.bin", "lleaves"),
        ("tl2cgen", "tl2cgen", "tl2cgen/model.so", "tl2cgen"),
        ("gtil", "treelite GTIL", "gtil/model.tl", "treelite"),
    )
}
"""The engines of ensembles of trees, in benchmarks/trees.py alone: none but ours has code for AVX-512."""
TREES[TREES_AVX2] = replace(TREES[TREES_AVX2], environment=ENGINES[OURS].avx2 or {})

KINDS: dict[str, Kind] = ENGINES | INT8 | TREES
"""All engines by name."""
