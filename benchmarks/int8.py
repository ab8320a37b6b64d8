"""The same networks with int8 weights and activations, by each engine's own tools and with the same calibration set.

``benchmarks.held_out`` has that set, and judges the models.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.convert import lite_converter
from benchmarks.models import ROOT, Network
from builder.importers.graph import FrozenGraph


def to_coldforge(ws: Any, calibration: Path, target: Path) -> str:
    """Write ``target``; returns how it was made. Raises RuntimeError for a model without a layer that takes bytes."""
    from builder.config import Activations
    from builder.pipeline.build_candidate import make_candidate
    from builder.pipeline.compile_graph import compile_first
    from builder.verify.quantise.precision import Precision

    spec = replace(ws.spec, activations=Activations("float32", calibration))
    candidate = make_candidate(ws.for_spec(spec), compile_first(ws), Precision("int8", "int8"))
    layers = candidate.lowering.weights
    rounded = sum(layer.input is not None for layer in layers)
    if not rounded:
        raise RuntimeError("no layer of it takes int8 inputs")
    target.write_bytes(candidate.library.read_bytes())
    return f"[weights] and [activations] int8; {rounded} of {len(layers)} layers take bytes"


def to_litert(graph: FrozenGraph, calibration: Path, batch: int, target: Path) -> str:
    """Write ``target``; returns how it was made. Raises RuntimeError where the converter fails or faults.

    It runs in a process of its own, since calibrating a network with a loop ends in a segmentation fault.
    """
    command = [sys.executable, "-m", "benchmarks.int8", graph.folder, calibration, str(batch), target]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"TensorFlow's converter ended with status {done.returncode}")
    return done.stdout.splitlines()[-1]


def _convert_lite(graph: FrozenGraph, calibration: Path, batch: int, target: Path) -> str:
    """Do the work of ``to_litert`` in its own process."""
    import tensorflow as tf

    def feeds() -> Iterator[list[Any]]:
        for run in _runs(calibration, batch):
            yield [run[port.spec.name] for port in graph.feeds]

    def convert(newer: bool) -> bytes:
        converter = lite_converter(graph)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = feeds
        converter.experimental_new_quantizer = newer
        converted: bytes = converter.convert()
        return converted

    how = "TFLiteConverter with a representative data set: int8, float where it has no int8 kernel"
    try:
        target.write_bytes(convert(newer=True))
    except RuntimeError:  # for example, it refuses concatenations of tensors with different ranges
        target.write_bytes(convert(newer=False))
        return f"{how}; by its older quantiser, for the newer one refuses the network"
    return how


def to_onnx(model: Path, calibration: Path, batch: int, target: Path) -> str:
    """Write ``target``, made of the float32 ``model``; returns how it was made."""
    import onnxruntime as ort
    from onnxruntime import quantization as tools
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = target.with_name("prepared.onnx")
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    names = [feed.name for feed in ort.InferenceSession(str(prepared), providers=["CPUExecutionProvider"]).get_inputs()]

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.runs = (_named(run, names) for run in _runs(calibration, batch))

        def get_next(self) -> dict[str, Any] | None:
            return next(self.runs, None)

    tools.quantize_static(
        str(prepared),
        str(target),
        Reader(),
        quant_format=tools.QuantFormat.QDQ,
        per_channel=True,
        activation_type=tools.QuantType.QInt8,
        weight_type=tools.QuantType.QInt8,
    )
    prepared.unlink()
    return "quantize_static: QDQ, per channel, int8 × int8, after quant_pre_process"


def to_openvino(network: Network, model: Path, quantised: Path, calibration: Path, target: Path) -> str:
    """Write ``target``, made of the float32 ``model``; returns how it was made.

    ``quantised``: ONNX Runtime's model, which is used if NNCF is not installed.
    """
    import openvino as ov

    if importlib.util.find_spec("nncf") is None:
        ov.save_model(ov.convert_model(str(quantised)), str(target), compress_to_fp16=False)
        return "OpenVINO's reading of the QDQ model (NNCF is not installed)"
    import nncf

    float32 = ov.Core().read_model(str(model))
    names = [feed.get_any_name() for feed in float32.inputs]
    runs = [_named(run, names) for run in _runs(calibration, network.batch)]
    kind = nncf.ModelType.TRANSFORMER if network.tokens or network.name == "transformer" else None
    quantised_model = nncf.quantize(float32, nncf.Dataset(runs), subset_size=len(runs), model_type=kind)
    ov.save_model(quantised_model, str(target), compress_to_fp16=False)
    return f"nncf.quantize{' for a transformer' if kind else ''}"


def _runs(calibration: Path, batch: int) -> Iterator[dict[str, Any]]:
    with np.load(calibration) as stored:
        arrays = {name: stored[name] for name in stored.files}
    for start in range(0, len(next(iter(arrays.values()))), batch):
        yield {name: array[start : start + batch] for name, array in arrays.items()}


def _named(run: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Rename the inputs of ``run`` as a converter did, whose names sort in the same order as the network's."""
    return {name: run[ours] for name, ours in zip(sorted(names), sorted(run), strict=True)}


if __name__ == "__main__":
    print(_convert_lite(FrozenGraph.load(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
