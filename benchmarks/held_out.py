"""Inputs apart from those that an engine must answer like TensorFlow: to measure int8's ranges on, and to judge it by.

``calibration.npz`` has an array [n, ...] for each input, by name; ``<number>.in`` and ``<number>.npz`` are inputs of a
run and TensorFlow's answers to them in float32, as ``benchmarks.prepare`` writes them. All are drawn like the others,
with other seeds.

An int8 engine need not answer like TensorFlow. Its accuracy on inputs that it was not calibrated on stands beside its
time, and one that gives something else altogether is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import Network
from benchmarks.process import Worker, read_answers

CALIBRATION, JUDGED = 64, 48  # items
FOLDER = "held"
BROKEN = 0.5
"""Root mean square of the error, as a share of the answers' own deviation from their mean, of a model that is none."""


def write(network: Network, model: Any, folder: Path) -> None:
    """``model``: the Keras model that is measured."""
    np.savez(
        folder / "calibration.npz", **network.feeds(model, -(-CALIBRATION // network.batch) * network.batch, seed=2)
    )
    feeds = network.feeds(model, runs(network) * network.batch, seed=3)
    for number in range(runs(network)):
        sample = {name: np.split(array, runs(network))[number] for name, array in feeds.items()}
        write_sample(model, sample, folder / str(number))


def write_sample(model: Any, sample: dict[str, Any], to: Path) -> None:
    """The inputs' bytes in the order of their names as ``to``.in, and TensorFlow's answers as ``to``.npz."""
    to.with_suffix(".in").write_bytes(b"".join(sample[name].tobytes() for name in sorted(sample)))
    inputs = [sample[one.name] for one in model.inputs]
    answers = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    answers = list(answers) if isinstance(answers, list | tuple) else [answers]
    np.savez(to.with_suffix(".npz"), *[np.asarray(answer) for answer in answers])


def right_answers(path: Path) -> list[Any]:
    """What ``write_sample`` wrote: an array for each fetch."""
    with np.load(path) as stored:
        return [stored[name] for name in stored.files]


def runs(network: Network) -> int:
    """How many inputs an int8 engine is judged by."""
    return max(2, JUDGED // network.batch)


def accuracy(worker: Worker, network: Network, engine: str, shapes: Sequence[Sequence[int]]) -> dict[str, Any]:
    """``error``: see ``BROKEN``; ``same_class``: the share of rows whose largest value is at TensorFlow's place.

    Both are the worst of the fetches; ``same_class`` is None where each row is one number. NaN counts as infinite.
    """
    theirs: list[list[Any]] = []
    right: list[list[Any]] = []
    folder = network.folder / FOLDER
    for number in range(runs(network)):
        base = network.folder / "log" / f"{engine}.{number}"
        worker.ask(do="answer", sample=str(folder / f"{number}.in"), to=str(base))
        theirs.append(read_answers(base, shapes))
        right.append(right_answers(folder / f"{number}.npz"))
    return judge(
        [np.concatenate(parts) for parts in zip(*theirs, strict=True)],
        [np.concatenate(parts) for parts in zip(*right, strict=True)],
    )


def judge(theirs: list[Any], right: list[Any]) -> dict[str, Any]:
    """``accuracy`` of arrays [items, ...], one for each fetch."""
    errors, classes = [], []
    for ours, answer in zip(theirs, right, strict=True):
        deviation = float(np.sqrt(np.mean(np.square(answer - answer.mean(axis=0)))))
        error = float(np.sqrt(np.mean(np.square(ours - answer)))) / (deviation or 1.0)
        errors.append(error if error == error else float("inf"))
        if answer.shape[-1] > 1:
            classes.append(float(np.mean(np.argmax(ours, axis=-1) == np.argmax(answer, axis=-1))))
    return {"error": max(errors), "same_class": min(classes, default=None)}
