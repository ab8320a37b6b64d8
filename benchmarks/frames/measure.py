"""``python -m benchmarks.frames.measure``: the same job on both engines, under Ray and Spark, in turns.

Needs .venv-frames and what ``benchmarks.frames.prepare`` makes. Writes ``build/bench/frames/results.json``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.frames.jobs import ENGINES, Timed
from benchmarks.frames.processes import COUNTS, PREDICT, measure

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench" / "frames"
NETWORKS = {"emotion": 640, "age_gender": 64}
"""And how many pictures a job has."""
PHOTOGRAPHS = ("astronaut.jpg", "cat_exif_rotated.jpg", "coffee.jpg", "face.jpg")
BATCH = 16
TOLERANCE = 1e-4

SESSION = """
import sys, numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feed = session.get_inputs()[0]
row = np.zeros(feed.shape, np.uint8)
session.run(None, {feed.name: row}), session.run(None, {feed.name: row})
"""

Rows = list[dict[str, Any]]
Run = Callable[[str, str, Timed], Rows]
"""A framework: the pictures' folder, the columns of the answer, the job."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frames.measure", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of both engines")
    rounds = parser.parse_args().rounds
    begin = time.monotonic()
    for name in NETWORKS:
        sys.path.insert(0, str(FOLDER / name / "package"))
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[: len(NETWORKS)], str(ROOT)])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found: dict[str, Any] = {"format": 1, "machine": machine.describe(), "versions": _versions(), "rounds": rounds}
    found["batch"], found["networks"] = BATCH, {}
    with ExitStack() as stack:
        frameworks = {"Ray": stack.enter_context(_ray()), "Spark": stack.enter_context(_spark())}
        for network, count in NETWORKS.items():
            pictures = stack.enter_context(_pictures(count))
            one: dict[str, Any] = {"pictures": count, "jobs": {}}
            for framework, run in frameworks.items():
                one["jobs"][framework] = _in_turns(network, run, pictures, rounds)
            found["networks"][network] = one
    for network, one in found["networks"].items():
        one["memory"] = _memory(network)
    found["machine"]["load_average_after"] = list(os.getloadavg())
    found["seconds"] = round(time.monotonic() - begin)
    (FOLDER / "results.json").write_text(json.dumps(found, indent=1) + "\n")


def _versions() -> dict[str, str]:
    import onnxruntime
    import pyspark
    import ray

    return {"onnxruntime": onnxruntime.__version__, "ray": ray.__version__, "pyspark": pyspark.__version__}


@contextmanager
def _pictures(count: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            shutil.copy(ROOT / "tests" / "data" / PHOTOGRAPHS[number % len(PHOTOGRAPHS)], f"{folder}/{number:04}.jpg")
        yield folder


def _job(engine: str, network: str) -> Timed:
    return Timed(engine, network, str(FOLDER / network / "model.onnx"))


def _in_turns(network: str, run: Run, pictures: str, rounds: int) -> dict[str, Any]:
    """For each engine the seconds of each job but the first, and the processor's milliseconds for a picture."""
    from importlib import import_module

    outputs = import_module(f"{network}.predictor").OUTPUTS
    columns = ", ".join(["path string", "ms double", "process bigint", *(f"{name} float" for name in outputs)])
    found: dict[str, Any] = {engine: {"seconds": [], "ms": []} for engine in ENGINES}
    for number in range(rounds + 1):
        answers = {}
        for engine in list(ENGINES)[:: 1 if number % 2 else -1]:
            begin = time.perf_counter()
            answers[engine] = sorted(run(pictures, columns, _job(engine, network)), key=lambda row: row["path"])
            seconds = time.perf_counter() - begin
            if number:
                found[engine]["seconds"].append(seconds)
                found[engine]["ms"].append(float(np.median([row["ms"] for row in answers[engine]])))
        ours, theirs = (np.array([[row[name] for name in outputs] for row in answers[engine]]) for engine in ENGINES)
        np.testing.assert_allclose(ours, theirs, atol=TOLERANCE)
        print(network, number, {engine: one["seconds"][-1:] for engine, one in found.items()}, flush=True)
    return found


@contextmanager
def _ray() -> Iterator[Run]:
    import ray

    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20, _temp_dir=folder
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.WARNING)

        def run(pictures: str, columns: str, job: Timed) -> Rows:
            source = ray.data.read_binary_files(pictures, include_paths=True, override_num_blocks=8)
            rows: Rows = source.map_batches(job, batch_size=BATCH, num_cpus=1).take_all()
            return rows

        yield run
        ray.shutdown()


@contextmanager
def _spark() -> Iterator[Run]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")

    def run(pictures: str, columns: str, job: Timed) -> Rows:
        source = session.read.format("binaryFile").load(pictures).select("path", "content")
        return [row.asDict() for row in source.mapInArrow(job.arrow, columns).collect()]

    yield run
    session.stop()


def _memory(network: str) -> dict[str, Any]:
    package, model = FOLDER / network / "package", FOLDER / network / "model.onnx"
    programs = {"coldforge": (PREDICT, [str(package), network]), "ONNX Runtime": (SESSION, [str(model)])}
    return {
        engine: [measure(count, *program)._asdict() for count in COUNTS] for engine, program in programs.items()
    } | {"library_bytes": (package / network / "libmodel.so").stat().st_size}


if __name__ == "__main__":
    main()
