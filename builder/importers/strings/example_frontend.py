"""What the function reads of tf.Examples, held against what TensorFlow reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible
from builder.importers.loaded import Shape
from builder.importers.strings.example_protos import encode_proto, random_protos
from builder.importers.strings.string_frontend import Front, WordCut
from builder.importers.strings.tf_examples import Examples, ReadFeature

PROTOS, RUNS = 300, 6
"""On how many protos the function's reading is tried, and on how many runs the answers."""
_VALUES = 500_000
"""Of how many values, about; fewer protos are tried of larger ones."""


def require_equal_answers(examples: Examples, words: WordCut | None, fetches: Sequence[str]) -> None:
    """Raises ImportModelError where the function reads something else than TensorFlow, or the answers differ.

    First of protos of every kind that there is; then the answers to some, and those to what the function reads of
    them. ``words``: what is done with features that are strings, and which of them are tried. ``fetches``: by name.
    """
    from handler.errors import HandlerError
    from handler.examples import parse_example

    features = [one.of_function for one in examples.features]
    every = [*features, *(one.of_function for one in examples.beside)]
    whole = Front(examples.whole.graph_def, {}, examples.whole.tables, {})
    batch = max(1, int(np.prod(examples.shape, dtype=np.int64)))
    most = -(-_VALUES // (batch * sum(one.size for one in every)))

    def read(run: Sequence[bytes]) -> list[NDArray[Any]]:
        try:
            rows = [parse_example(proto, features) for proto in run]
        except HandlerError as error:
            raise ImportModelError(f"The function does not read what TensorFlow reads: {error.message}.") from error
        return [
            _stack_values(one, [row[at] for row in rows], examples.shape) for at, one in enumerate(examples.features)
        ]

    def answers(tensors: Sequence[str], runs: Sequence[Sequence[bytes]]) -> list[list[NDArray[Any]]]:
        return whole.compute_answers(tensors, [{examples.source: _reshape_protos(run, examples.shape)} for run in runs])

    protos = random_protos(every, min(-(-PROTOS // batch), most) * batch)
    runs = [protos[at : at + batch] for at in range(0, len(protos), batch)]
    for run, wanted in zip(runs, answers([one.tensors[0] for one in examples.features], runs), strict=True):
        for one, ours, theirs in zip(examples.features, read(run), wanted, strict=True):
            same = np.array_equal(ours, theirs) if one.dtype == "string" else ours.tobytes() == theirs.tobytes()
            if not same:
                raise ImportModelError(
                    f"The function reads something else of the feature {escape_invisible(one.key)!r} than TensorFlow."
                )
    if examples.whole.states:
        return  # answers depend on what ran before
    runs = [_make_plain_protos(examples, words, number, batch) for number in range(min(RUNS, most))]
    expected = answers([examples.whole.fetches[name] for name in fetches], runs)
    cut = examples.cut
    fed = [
        {cut.feeds[one.name]: value for one, value in zip(examples.features, read(run), strict=True)} for run in runs
    ]
    found = Front(cut.graph_def, {}, cut.tables, {}).compute_answers([cut.fetches[name] for name in fetches], fed)
    for ours_, theirs_ in zip(found, expected, strict=True):
        for name, a, b in zip(fetches, ours_, theirs_, strict=True):
            alike = np.array_equal(a, b) if a.dtype == object else np.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
            if not alike:
                raise ImportModelError(f"The answer {name!r} to tf.Examples is not that to what the function reads.")


def _reshape_protos(protos: Sequence[bytes], shape: Shape) -> NDArray[np.object_]:
    found = np.empty(len(protos), object)
    found[:] = list(protos)
    return found.reshape(shape)


def _stack_values(one: ReadFeature, values: Sequence[Any], lead: Shape) -> NDArray[Any]:
    """What the function read, as TensorFlow takes it."""
    shape = (*lead, *one.shape)
    if one.dtype != "string":
        return np.frombuffer(b"".join(values), one.dtype).reshape(shape)
    found = np.empty(int(np.prod(shape, dtype=np.int64)), object)
    found[:] = [text for texts in values for text in texts]
    return found.reshape(shape)


def _make_plain_protos(examples: Examples, words: WordCut | None, number: int, batch: int) -> list[bytes]:
    """Protos of values that a model can take: words that it knows, as far as any are known, and 0 for numbers that
    may be places in a table.
    """
    random = np.random.Generator(np.random.PCG64([19, number]))
    rows: list[dict[str, Any]] = [{} for _ in range(batch)]
    every = (*examples.features, *examples.beside)
    for one in every:
        count = int(np.prod(one.shape, dtype=np.int64))
        if one.dtype != "string":
            values = random.standard_normal((batch, count)).astype(np.float32)
            column: Any = values if one.dtype == "float32" else np.zeros((batch, count), np.int64)
        elif words and one.tensors:
            strings = words.examples[number % len(words.examples)][words.whole.sources[one.name]]
            column = strings.reshape(batch, count)
        else:
            column = np.full((batch, count), b"", object)
        for row, value in zip(rows, column, strict=True):
            row[one.key] = value.tolist()
    kinds = {one.key: one.dtype for one in every}
    return [encode_proto([(key, kinds[key], value) for key, value in row.items()]) for row in rows]
