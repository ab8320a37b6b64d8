"""``python -m benchmarks.compression``: each type of weights and activations beside TensorFlow Lite's models.

It measures size, agreement with TensorFlow float32 and latency of the three examples' graphs for docs/accuracy.md. All
models of a network take turns in one process on one thread; their processor time counts.
"""

from __future__ import annotations

import argparse
import json
import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.convert import lite_converter
from benchmarks.engines.coldforge import Coldforge
from benchmarks.models import ROOT
from benchmarks.process import quantiles
from builder.base.progress import Progress
from builder.base.project import Project
from builder.base.tf import import_tensorflow
from builder.config import Activations, ModelSpec, read_spec
from builder.importers.graph import FrozenGraph
from builder.importers.samples.user_samples import Inputs
from builder.pipeline.build_candidate import compile_here, make_candidate
from builder.pipeline.compute_answers import load_user_inputs
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.answer_accuracy import (
    Accuracy,
    Answers,
    answer_with_library,
    answer_with_tensorflow,
    compare_answers,
)
from builder.verify.quantise.precision import KINDS

Run = Callable[[], object]
BLOCK_SECONDS = 0.4
"""Seconds of processor time: a kernel may count it in ticks of 4 ms alone."""

FOLDER = ROOT / "build" / "bench" / "compression"
PHOTOGRAPHS = ("face.jpg", "astronaut.jpg", "coffee.jpg", "cat_exif_rotated.jpg")
CROPS = {"emotion": 400, "age_gender": 120}
CALIBRATION = 60
LEAST_ROUNDS = 5

INPUTS = {
    "digits": "1,000 held-out MNIST digits",
    "emotion": f"{CROPS['emotion']} crops of the photographs in tests/data, half of them of the face",
    "age_gender": f"{CROPS['age_gender']} crops of the photographs in tests/data; its weights are seeded, not trained",
}


@dataclass(frozen=True)
class Row:
    """A model file: ``size`` in bytes; ``milliseconds`` of processor time of a run."""

    engine: str
    weights: str
    size: int
    accuracy: Accuracy
    milliseconds: float


def measure(name: str, seconds: float, progress: Progress) -> dict[str, Any]:
    """Measure all models of one example, their latency for ``seconds``."""
    project = Project(ROOT)
    spec = read_spec(project.examples / name / "model.toml")
    ws = Workspace(spec, project, spec.target, progress)
    compiled = compile_here(ws)
    inputs = load_user_inputs(_images(name, spec, CROPS.get(name, 0), seed=1), spec, compiled.graph)
    theirs = answer_with_tensorflow(compiled.graph, inputs)
    answered: list[tuple[str, str, Path, Answers]] = []
    runs: dict[str, Run] = {}
    samples = _images(name, spec, CALIBRATION, seed=2)
    spec = replace(spec, activations=Activations("float32", samples))
    for kind in KINDS:
        library = make_candidate(ws.for_spec(spec), compiled, kind).library
        answered.append(("coldforge", str(kind), library, answer_with_library(library, compiled.graph, inputs)))
        runs[f"coldforge {kind}"] = _our_run(library, compiled.graph, inputs)
    examples = load_user_inputs(samples, spec, compiled.graph)
    for kind, path in _lite_models(compiled.graph, examples, FOLDER / name):
        lite = Lite(path, compiled.graph)
        answered.append(("LiteRT", kind, path, lite.answers(inputs)))
        runs[f"LiteRT {kind}"] = lite.run_of(inputs)
    times, rounds = run_times(runs, seconds)
    rows = []
    for engine, kind, path, ours in answered:
        agreement = compare_answers(spec, compiled.graph, inputs, ours, theirs)
        rows.append(Row(engine, kind, path.stat().st_size, agreement, 1e3 * times[f"{engine} {kind}"]))
    return {"inputs": INPUTS[name], "items": inputs.items, "rounds": rounds, "rows": [asdict(row) for row in rows]}


def run_times(runs: Mapping[str, Run], seconds: float) -> tuple[dict[str, float], int]:
    """Return the seconds of processor time of one run of each, and the number of rounds in which they took turns.

    A time is the tenth percentile over the rounds: a virtual machine's clock may stand still and catch up later.
    """
    counts = {name: max(1, round(BLOCK_SECONDS / min(timeit.repeat(run, number=1)))) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    end, rounds = time.monotonic() + seconds, 0
    while rounds < LEAST_ROUNDS or time.monotonic() < end:
        for name, run in runs.items():
            run()  # so that its own data are in the caches again
            times[name].append(timeit.timeit(run, timer=time.thread_time, number=counts[name]) / counts[name])
        rounds += 1
    return {name: quantiles(values)["p10"] for name, values in times.items()}, rounds


def _images(name: str, spec: ModelSpec, count: int, seed: int) -> Path:
    """Write an .npz file of images as the model takes them; for digits those that training left out."""
    if name == "digits":
        held_out = ROOT / "build" / "digits" / "held_out.npz"
        if seed == 1:
            return held_out
    path = FOLDER / name / f"images-{seed}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "digits":
        with np.load(held_out) as file:
            np.savez(path, images=file["images"][:: len(file["images"]) // count][:count])
    else:
        np.savez(path, images=np.stack(list(crops(spec, count, seed))))
    return path


def crops(spec: ModelSpec, count: int, seed: int) -> Iterator[Any]:
    """Yield parts of the test photographs: moved, scaled, turned a little, mirrored, lighter and darker; seeded."""
    from PIL import Image, ImageEnhance, ImageOps

    image = spec.image
    assert image is not None
    rng = np.random.default_rng(seed)
    opened = [ImageOps.exif_transpose(Image.open(ROOT / "tests" / "data" / name)) for name in PHOTOGRAPHS]
    for number in range(count):
        face = number % 2 == 0
        photograph = opened[0] if face else opened[int(rng.integers(len(opened)))]
        side = rng.uniform(0.65 if face else 0.3, 1) * min(photograph.size)
        left, top = rng.uniform(0, photograph.width - side), rng.uniform(0, photograph.height - side)
        turned = photograph.rotate(
            rng.uniform(-15, 15), Image.Resampling.BILINEAR, center=(left + side / 2, top + side / 2)
        )
        part = turned.resize(
            (image.width, image.height), Image.Resampling.BILINEAR, (left, top, left + side, top + side)
        )
        part = ImageEnhance.Brightness(part).enhance(rng.uniform(0.6, 1.4))
        part = ImageOps.mirror(part) if rng.random() < 0.5 else part
        converted = part.convert("L" if image.mode == "grey" else "RGB")
        yield np.asarray(converted, np.uint8).reshape(image.height, image.width, image.channels)


def _lite_models(graph: FrozenGraph, examples: Inputs, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (kind, file) of each model that TensorFlow's own converter makes of the frozen graph."""
    tf = import_tensorflow()

    def feeds() -> Iterator[list[Any]]:
        for run in examples.runs:
            yield [run[port.spec.name] for port in graph.feeds]

    settings: Mapping[str, dict[str, Any]] = {
        "float32": {},
        "float16": {"optimizations": [tf.lite.Optimize.DEFAULT], "target_spec.supported_types": [tf.float16]},
        "int8, dynamic range": {"optimizations": [tf.lite.Optimize.DEFAULT]},
        "int8, calibrated": {"optimizations": [tf.lite.Optimize.DEFAULT], "representative_dataset": feeds},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for kind, options in settings.items():
        converter = lite_converter(graph)
        for name, value in options.items():
            owner, _, key = name.rpartition(".")
            setattr(getattr(converter, owner) if owner else converter, key, value)
        path = folder / f"{kind.replace(', ', '-').replace(' ', '-')}.tflite"
        path.write_bytes(converter.convert())
        yield kind, path


class Lite:
    """A .tflite file in LiteRT, on one thread, with XNNPACK; its outputs are in the order of the graph's fetches."""

    def __init__(self, model: Path, graph: FrozenGraph) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.interpreter = Interpreter(str(model), num_threads=1)
        self.interpreter.allocate_tensors()
        (self.input,) = self.interpreter.get_input_details()
        self.graph = graph
        self.outputs = [detail["index"] for detail in self.interpreter.get_output_details()]

    def answers(self, inputs: Inputs) -> Answers:
        outputs = []
        for run in inputs.runs:
            self.interpreter.set_tensor(self.input["index"], next(iter(run.values())))
            self.interpreter.invoke()
            outputs.append([self.interpreter.get_tensor(index) for index in self.outputs])
        names = [port.spec.name for port in self.graph.fetches]
        joined = (np.concatenate(parts)[: inputs.items] for parts in zip(*outputs, strict=True))
        return dict(zip(names, joined, strict=True))

    def run_of(self, inputs: Inputs) -> Run:
        self.interpreter.set_tensor(self.input["index"], next(iter(inputs.runs[0].values())))
        return self.interpreter.invoke  # type: ignore[no-any-return]


def _our_run(path: Path, graph: FrozenGraph, inputs: Inputs) -> Run:
    engine = Coldforge(path, 1)
    (port,) = graph.feeds
    feed = engine.feed(np.ascontiguousarray(inputs.runs[0][port.spec.name]).tobytes())
    return lambda: engine.run(feed)


def document(results: Mapping[str, Any]) -> str:
    """Return the page docs/accuracy.md."""
    parts = [_HEAD.format(cpu=results["machine"]["processor"], tensorflow=results["tensorflow"])]
    for name, network in results["networks"].items():
        parts.append(f"\n## {name}\n\nMeasured on {network['inputs']}.\n\n")
        labelled = any(o["right"] is not None for row in network["rows"] for o in row["accuracy"]["outputs"])
        heads = ["", "weights", "size", "top-1", "top-5", "worst error", "mean error", "ms"]
        heads[7:7] = ["right labels"] if labelled else []
        parts.append(_line(heads) + _line(["---"] * len(heads)))
        for row in network["rows"]:
            outputs = row["accuracy"]["outputs"]
            cells = [row["engine"], row["weights"], _size(row["size"])]
            cells += [" / ".join(_share(o[key]) for o in outputs) for key in ("top1", "top5")]
            cells += [" / ".join(f"{o[key]:.1e}" for o in outputs) for key in ("worst", "mean")]
            cells += [" / ".join(_share(o["right"]) for o in outputs)] if labelled else []
            parts.append(_line([*cells, f"{row['milliseconds']:.3g}"]))
        if len(network["rows"][0]["accuracy"]["outputs"]) > 1:
            names = " / ".join(o["output"] for o in network["rows"][0]["accuracy"]["outputs"])
            parts.append(f"\nEach pair is {names}.\n")
    return "".join(parts)


_HEAD = """\
# What smaller weights cost

<!-- Written by `python -m benchmarks.compression`. -->

This page compares every type of `[weights]`, and int8 also with int8 `[activations]` ([weights.md](weights.md)), with
TensorFlow {tensorflow} in float32. It does the same for the models that TensorFlow Lite's converter makes of the same
frozen graph.

- *size*: of `libmodel.so`, which runs by itself, or of the `.tflite` file, which needs LiteRT's own 18 MB as well.
- *top-1*: inputs whose top class is TensorFlow's. *top-5*: inputs with TensorFlow's top class among the first five,
  where there are more classes.
- *worst error*, *mean error*: absolute errors of the outputs (probabilities).
- *ms*: processor time of one run on one thread: the tenth percentile of many rounds in which all models took turns, on
  {cpu}. Others used that machine too, so differences of a few percent mean nothing.

coldforge calculates in float32 whatever the weights are, except with *int8 activations*. Their ranges are measured on
the same 60 sample inputs as those of LiteRT's *calibrated*: for digits some of the thousand below, for the others more
such crops. LiteRT unpacks float16 to float32 when it loads a model, so its float16 is small on disk only. LiteRT's
*dynamic range* rounds activations to 8 bits as it runs.
"""


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compression", description=__doc__)
    parser.add_argument("networks", nargs="*", default=[], metavar="EXAMPLE", help=f"of {', '.join(INPUTS)}")
    parser.add_argument("--seconds", type=float, default=60, help="of latency for each example (default: 60)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "accuracy.md")
    options = parser.parse_args(arguments)
    if unknown := set(options.networks) - set(INPUTS):
        parser.error(f"no example {', '.join(unknown)}")
    names, progress = options.networks or list(INPUTS), Progress()
    results: dict[str, Any] = {
        "machine": machine.describe(),
        "tensorflow": import_tensorflow().__version__,
        "networks": {},
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        results["networks"][name] = measure(name, options.seconds, progress)
        # The results are written after each network, so that an interrupted run keeps them.
        (FOLDER / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    options.output.write_text(document(results), encoding="utf-8")
    print(options.output.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
