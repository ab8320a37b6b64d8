"""A comparison of the values that the function and TensorFlow read from tf.Examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible
from builder.importers.loaded import Shape
from builder.importers.strings.example_protos import encode_proto, random_protos
from builder.importers.strings.probe_strings import make_strings
from builder.importers.strings.string_frontend import WordCut, compute_answers
from builder.importers.strings.tf_examples import Examples, ReadFeature

PROTOS, RUNS = 300, 6
"""The number of protos on which reading is tried, and the number of runs on which the answers are compared."""
_VALUES = 500_000
"""The approximate number of values to try in all; fewer protos are tried if each is larger."""


def require_equal_answers(examples: Examples, words: WordCut | None, fetches: Sequence[str]) -> None:
    """Raise ImportModelError if the function reads other values than TensorFlow, or the answers differ.

    All kinds of protos are read; then the answers to some and to the values read from them are compared. ``words``: the
    steps for features that are strings, with the examples to try. ``fetches``: names of outputs.
    """
    from handler.errors import HandlerError
    from handler.inputs.example import parse_example

    features = [port.of_function for port in examples.features]
    ports = [*features, *(port.of_function for port in examples.beside)]
    whole, cut = examples.whole, examples.cut
    batch = max(1, int(np.prod(examples.shape, dtype=np.int64)))
    most = -(-_VALUES // (batch * sum(port.size for port in ports)))

    def read(run: Sequence[bytes]) -> list[NDArray[Any]]:
        try:
            rows = [parse_example(proto, features) for proto in run]
        except HandlerError as error:
            raise ImportModelError(f"The function does not read what TensorFlow reads: {error.message}.") from error
        return [
            _stack_values(port, [row[at] for row in rows], examples.shape) for at, port in enumerate(examples.features)
        ]

    def answers(tensors: Sequence[str], runs: Sequence[Sequence[bytes]]) -> list[list[NDArray[Any]]]:
        feeds = [{examples.source: make_strings(run, examples.shape)} for run in runs]
        return compute_answers(whole, tensors, feeds)

    protos = random_protos(ports, min(-(-PROTOS // batch), most) * batch)
    runs = [protos[at : at + batch] for at in range(0, len(protos), batch)]
    for run, values in zip(runs, answers([port.tensors[0] for port in examples.features], runs), strict=True):
        for port, ours, theirs in zip(examples.features, read(run), values, strict=True):
            same = np.array_equal(ours, theirs) if port.dtype == "string" else ours.tobytes() == theirs.tobytes()
            if not same:
                raise ImportModelError(
                    f"The function reads something else of the feature {escape_invisible(port.key)!r} than TensorFlow."
                )
    if whole.states:
        return  # The answers depend on the runs before.
    runs = [_make_plain_protos(examples, words, number, batch) for number in range(min(RUNS, most))]
    expected = answers([whole.fetches[name] for name in fetches], runs)
    fed = [
        {cut.feeds[port.name]: value for port, value in zip(examples.features, read(run), strict=True)} for run in runs
    ]
    actual = compute_answers(cut, [cut.fetches[name] for name in fetches], fed)
    for ours_, theirs_ in zip(actual, expected, strict=True):
        for name, a, b in zip(fetches, ours_, theirs_, strict=True):
            alike = np.array_equal(a, b) if a.dtype == object else np.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
            if not alike:
                raise ImportModelError(f"The answer {name!r} to tf.Examples is not that to what the function reads.")


def _stack_values(feature: ReadFeature, values: Sequence[Any], lead: Shape) -> NDArray[Any]:
    """Return the values that the function read as the array that TensorFlow takes."""
    shape = (*lead, *feature.shape)
    if feature.dtype == "string":
        return make_strings([text for texts in values for text in texts], shape)
    return np.frombuffer(b"".join(values), feature.dtype).reshape(shape)


def _make_plain_protos(examples: Examples, words: WordCut | None, number: int, batch: int) -> list[bytes]:
    """Return protos of values that a model can take: known words, and 0 for integers, which may be indices."""
    random = np.random.Generator(np.random.PCG64([19, number]))
    rows: list[dict[str, Any]] = [{} for _ in range(batch)]
    every = (*examples.features, *examples.beside)
    for feature in every:
        count = int(np.prod(feature.shape, dtype=np.int64))
        if feature.dtype != "string":
            values = random.standard_normal((batch, count)).astype(np.float32)
            column: Any = values if feature.dtype == "float32" else np.zeros((batch, count), np.int64)
        elif words and feature.tensors:
            strings = words.examples[number % len(words.examples)][words.sources[feature.name]]
            column = strings.reshape(batch, count)
        else:
            column = np.full((batch, count), b"", object)
        for row, value in zip(rows, column, strict=True):
            row[feature.key] = value.tolist()
    kinds = {feature.key: feature.dtype for feature in every}
    return [encode_proto([(key, kinds[key], value) for key, value in row.items()]) for row in rows]
