"""``python -m benchmarks.prepare_file PATH-batchN``: make a published file ready for its engines in ``build/bench/``.

The build's golden inputs are the samples, and ONNX Runtime's or LiteRT's answers to them are right. Peers get the file
itself, with the sizes of the build where it leaves them open.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.bert_onnx import optimise
from benchmarks.engines import KINDS, OURS
from benchmarks.engines.litert import SIZES
from benchmarks.find_network import find_network
from benchmarks.model_files import ModelFile
from benchmarks.models import READY, ROOT, SAMPLES
from benchmarks.prepare import BenchProject, place_files
from benchmarks.transformers_networks import TransformersNetwork
from builder.base.targets import host_target
from builder.importers.graph import FrozenGraph
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.workspace import Workspace
from builder.sources import locate_model
from builder.verify.golden import GoldenFile


def prepare_file(network: ModelFile) -> None:
    """Write the samples, the file as each engine reads it, and READY into the network's folder."""
    spec, project = network.read_spec(), BenchProject(ROOT)
    shutil.copytree(ROOT / "layers" / "dependencies", project.layers / "dependencies", dirs_exist_ok=True)
    bundle = build_bundle(Workspace.from_spec(spec, project, host_target())).bundle
    graph = FrozenGraph.load(project.build / network.key / "import")
    weights = bundle.library.with_name("model.weights")
    ours = {"libmodel.so": bundle.library, **({weights.name: weights} if weights.exists() else {})}
    place_files(network.folder / OURS, ours)
    write_samples(network.folder / "keras", graph)
    file = network.onnx_file if isinstance(network, TransformersNetwork) else locate_model(spec, project.cache)
    sizes = {port.spec.name: tuple(port.spec.shape) for port in graph.feeds}
    values = {feed.name: feed.value for feed in spec.feeds if feed.value is not None}
    how = {OURS: "coldforge's own pipeline on the file"}
    failed = {name: f"does not read {file.suffix} files" for name in KINDS if name != OURS}

    def place(engine: str, write: Callable[[Path], str]) -> None:
        target = network.folder / KINDS[engine].model
        target.parent.mkdir(exist_ok=True)
        try:
            how[engine] = write(target)
            del failed[engine]
        except Exception as error:  # a peer may refuse the file in any way; the run goes on without it
            failed[engine] = f"refuses the file: {' '.join(str(error).split())[:300] or type(error).__name__}"

    if file.suffix == ".onnx":
        fixed = network.folder / "fixed.onnx"
        place("onnxruntime", lambda to: place_onnx(network, fix_onnx(file, sizes, values, fixed), to))
        place("openvino", lambda to: convert_openvino(fixed, sizes, to))
    else:
        place("litert", lambda to: copy_tflite(file, sizes, to))
        place("openvino", lambda to: convert_openvino(file, sizes, to))
    ready = {
        "parameters": json.loads(bundle.manifest.read_text())["lowering"]["weights"]["as_float32"] // 4,
        "fetches": [(port.spec.dtype, list(port.spec.shape)) for port in graph.fetches],
        "layer_bytes": sum(p.stat().st_size for p in bundle.layer.rglob("*") if p.is_file()),
        "how": how,
        "failed": failed,
    }
    (network.folder / READY).write_text(json.dumps(ready, indent=1))


def write_samples(folder: Path, graph: FrozenGraph) -> None:
    """Write golden inputs and answers, those of random numbers first, as ``benchmarks.held_out`` writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    with GoldenFile.open(graph.golden_path) as golden:
        cases = sorted(golden.cases, key=lambda case: not case.startswith("random"))
        for number, case in enumerate(islice(cycle(cases), SAMPLES)):
            feeds = [golden.read_feed(case, name) for name in sorted(port.spec.name for port in graph.feeds)]
            fetches = [golden.read_fetch(case, port.spec.name) for port in graph.fetches]
            (folder / f"{number}.in").write_bytes(b"".join(array.tobytes() for array in feeds))
            (folder / f"{number}.out").write_bytes(b"".join(array.tobytes() for array in fetches))


def place_onnx(network: ModelFile, file: Path, target: Path) -> str:
    """Write the ``file`` of fixed sizes for ONNX Runtime, optimised by its own tool where that knows the network."""
    how = "the file, with the sizes of its inputs fixed"
    if not isinstance(network, TransformersNetwork) or not network.optimiser:
        shutil.copyfile(file, target)
        return how
    fused = optimise(file, target, network.width, network.optimiser)
    return f"{how}, then onnxruntime.transformers.optimizer ({fused})"


def fix_onnx(file: Path, sizes: Mapping[str, tuple[int, ...]], values: Mapping[str, Any], target: Path) -> Path:
    """Write the model with the ``sizes`` of its inputs fixed, and inputs that have ``values`` as constants."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(str(file))
    for value in list(model.graph.input):
        element = value.type.tensor_type.elem_type
        if value.name in values:
            array = np.asarray(values[value.name], helper.tensor_dtype_to_np_dtype(element))
            shape = [size.dim_value for size in value.type.tensor_type.shape.dim]
            model.graph.initializer.append(numpy_helper.from_array(array.reshape(shape), value.name))
            model.graph.input.remove(value)
        elif value.name in sizes:
            value.CopyFrom(helper.make_tensor_value_info(value.name, element, sizes[value.name]))
    onnx.save(model, str(target))
    return target


def copy_tflite(file: Path, sizes: Mapping[str, tuple[int, ...]], target: Path) -> str:
    """Copy the file, and write the sizes to which its inputs are changed beside it."""
    shutil.copyfile(file, target)
    target.with_name(SIZES).write_text(json.dumps(list(sizes.values())))
    return "the file"


def convert_openvino(file: Path, sizes: Mapping[str, tuple[int, ...]], target: Path) -> str:
    """Convert the file to OpenVINO's own format, in float32."""
    import openvino

    model = openvino.convert_model(str(file))
    model.reshape({port: list(shape) for port, shape in zip(model.inputs, sizes.values(), strict=True)})
    openvino.save_model(model, str(target), compress_to_fp16=False)
    return "openvino.convert_model of the file"


if __name__ == "__main__":
    prepare_file(cast(ModelFile, find_network(sys.argv[1])))
