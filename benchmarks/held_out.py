"""Held-out inputs, to calibrate int8 engines and to judge their accuracy.

``calibration.npz`` has an array [n, ...] for each input, by name; ``<number>.in`` and ``<number>.out`` are inputs of a
run and TensorFlow's answers to them in float32, as ``benchmarks.prepare`` writes them. All are drawn like the inputs
that an engine must answer like TensorFlow, with other seeds.

An int8 engine need not answer like TensorFlow. Its accuracy on inputs that it was not calibrated on is reported with
its time, and an engine with useless answers is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers import Output, judge, read_answers
from benchmarks.models import Network
from benchmarks.process import Worker

CALIBRATION, JUDGED = 64, 48  # items
FOLDER = "held"
BROKEN = 0.5
"""The root mean square error of a useless model, as a share of the answers' own deviation from their mean."""


def write(network: Network, model: Any, folder: Path) -> None:
    """Write the held-out inputs and answers of the Keras model ``model`` to ``folder``."""
    np.savez(
        folder / "calibration.npz", **network.feeds(model, -(-CALIBRATION // network.batch) * network.batch, seed=2)
    )
    feeds = network.feeds(model, runs(network) * network.batch, seed=3)
    for number in range(runs(network)):
        sample = {name: np.split(array, runs(network))[number] for name, array in feeds.items()}
        write_sample(model, sample, folder / str(number))


def write_sample(model: Any, sample: dict[str, Any], to: Path) -> None:
    """Write the inputs' bytes in the order of their names to ``to``.in, and TensorFlow's answers to ``to``.out."""
    to.with_suffix(".in").write_bytes(b"".join(sample[name].tobytes() for name in sorted(sample)))
    inputs = [sample[port.name] for port in model.inputs]
    answers = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    every = list(answers) if isinstance(answers, (list, tuple)) else [answers]
    to.with_suffix(".out").write_bytes(b"".join(np.asarray(answer, np.float32).tobytes() for answer in every))


def runs(network: Network) -> int:
    """Return the number of runs by which an int8 engine is judged."""
    return max(2, JUDGED // network.batch)


def accuracy(worker: Worker, network: Network, outputs: Sequence[Output]) -> dict[str, Any]:
    """Judge an engine by all held-out inputs; its error is measured as ``BROKEN`` is."""
    samples = list((network.folder / FOLDER).glob("*.in"))
    theirs = [worker.answer(sample, outputs) for sample in samples]
    right = [read_answers(sample.with_suffix(".out").read_bytes(), outputs) for sample in samples]
    return judge(theirs, right)
