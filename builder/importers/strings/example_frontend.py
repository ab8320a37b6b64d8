"""A comparison of the values that the function and TensorFlow read from tf.Examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.base.tf import tf
from builder.importers.loaded import Shape
from builder.importers.strings.probe_strings import make_strings
from builder.importers.strings.string_frontend import WordCut, compute_answers
from builder.importers.strings.tf_examples import Examples, ReadFeature

RUNS = 6
"""The number of runs on which values and answers are compared."""
_VALUES = 500_000
"""The approximate number of values to try in all; there are fewer runs if each is larger."""


def require_equal_answers(examples: Examples, words: WordCut | None, fetches: Sequence[str]) -> None:
    """Raise ImportModelError if the function reads other values than TensorFlow, or the answers differ.

    ``words``: the steps for features that are strings, with the examples to try. ``fetches``: names of outputs.
    """
    from handler.errors import HandlerError
    from handler.inputs.example import parse_example

    features, whole, cut = examples.features, examples.whole, examples.cut
    of_function = [feature.of_function for feature in features]
    batch = max(1, int(np.prod(examples.shape, dtype=np.int64)))
    most = -(-_VALUES // (batch * sum(feature.size for feature in of_function)))
    runs = [_make_protos(examples, words, number, batch) for number in range(min(RUNS, most))]
    feeds = [{examples.source: make_strings(run, examples.shape)} for run in runs]
    fed = []
    for run, values in zip(runs, compute_answers(whole, [item.tensors[0] for item in features], feeds), strict=True):
        try:
            columns = list(zip(*(parse_example(proto, of_function) for proto in run), strict=True))
        except HandlerError as error:
            raise ImportModelError(f"The function does not read what TensorFlow reads: {error.message}.") from error
        read = [_stack_values(item, column, examples.shape) for item, column in zip(features, columns, strict=True)]
        for item, ours, theirs in zip(features, read, values, strict=True):
            same = np.array_equal(ours, theirs) if item.dtype == "string" else ours.tobytes() == theirs.tobytes()
            if not same:
                raise ImportModelError(
                    f"The function reads something else of the feature {item.key!r} than TensorFlow."
                )
        fed.append({cut.feeds[item.name]: value for item, value in zip(features, read, strict=True)})
    if whole.states:
        return  # The answers depend on the runs before.
    expected = compute_answers(whole, [whole.fetches[name] for name in fetches], feeds)
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


def _make_protos(examples: Examples, words: WordCut | None, number: int, batch: int) -> list[bytes]:
    """Return protos of values that a model can take: known words, and 0 for integers, which may be indices.

    Every second run leaves out the features that may be missing.
    """
    random = np.random.Generator(np.random.PCG64([19, number]))
    protos = [tf.train.Example() for _ in range(batch)]
    for feature in (*examples.features, *examples.beside):
        if feature.default is not None and number % 2:
            continue
        count = int(np.prod(feature.shape, dtype=np.int64))
        column: Any = np.zeros((batch, count), np.int64)
        if feature.dtype == "float32":
            column = random.standard_normal((batch, count)).astype(np.float32)
        elif feature.dtype == "string" and words and feature.tensors:
            strings = words.examples[number % len(words.examples)][words.sources[feature.name]]
            column = strings.reshape(batch, count)
        elif feature.dtype == "string":
            column = np.full((batch, count), b"", object)
        for proto, values in zip(protos, column.tolist(), strict=True):
            value = proto.features.feature[feature.key]
            lists = {"string": value.bytes_list, "float32": value.float_list, "int64": value.int64_list}
            lists[feature.dtype].value.extend(values)
    return [proto.SerializeToString(deterministic=True) for proto in protos]
