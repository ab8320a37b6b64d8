"""A graph that begins with strings, as TensorFlow runs it, and a comparison with the function's own code.

Nothing runs here but ops that string_ops.py knows, and the ops that they read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import save_arrays
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.base.tf import load_graph, reference_session, tf
from builder.importers.graph import EXAMPLES, WORDS, StringPort
from builder.importers.loaded import RawGraph, Shape
from builder.importers.strings.probe_strings import Strings
from builder.importers.strings.string_ops import Recipe

CASES = 6
"""The number of runs that are golden inputs."""

Run = Mapping[str, Strings]
"""Strings by the tensors that they are fed to."""

OpenShape = tuple[int | None, ...]
"""The shape of an item, without the batch; None, which can only be first, is a length that the text decides."""


def compute_answers(
    raw: RawGraph, tensors: Sequence[str], runs: Sequence[Mapping[str, Any]]
) -> list[list[NDArray[Any]]]:
    """Return TensorFlow's values of ``tensors`` for each run (values by tensor). Raises ImportModelError."""
    with tf.Graph().as_default() as graph:
        handles, fills = {}, []
        for node, table in raw.tables.items():
            keys, values = (
                tf.constant(array.tolist(), tf.string if array.dtype.kind in "OS" else array.dtype)
                for array in (table.keys, table.values)
            )
            handle = tf.raw_ops.HashTableV2(key_dtype=keys.dtype, value_dtype=values.dtype)
            fills.append(tf.raw_ops.LookupTableImportV2(table_handle=handle, keys=keys, values=values))
            handles[f"{node}:0"] = handle
        tf.import_graph_def(raw.graph_def, name="whole", input_map=handles)
        with reference_session(graph) as session:
            session.run(fills)
            try:
                return [
                    session.run(
                        [f"whole/{name}" for name in tensors], {f"whole/{name}": value for name, value in run.items()}
                    )
                    for run in runs
                ]
            except tf.errors.OpError as error:
                raise ImportModelError(
                    f"TensorFlow cannot run the model on strings: {describe_error(error.message)}"
                ) from error


@dataclass(frozen=True)
class WordCut:
    """A model with feeds of numbers in place of strings (``raw``), and the steps from strings to them (``recipe``).

    ``shapes``: the shapes of all its feeds. ``whole``: the graph before the cut. ``sources``: its tensors that are fed
    with strings, by feed. ``cuts``: those that become feeds, by name of the feed. ``inputs``: the strings that the
    steps read. ``examples``: runs of strings of many kinds. ``pads``: the values that fill up shorter rows, by feed
    whose rows have the text's own length.
    """

    raw: RawGraph
    shapes: dict[str, Shape]
    recipe: Recipe
    whole: RawGraph
    sources: Mapping[str, str]
    cuts: Mapping[str, str]
    inputs: tuple[StringPort, ...]
    examples: tuple[Run, ...]
    pads: Mapping[str, Any] = field(default_factory=dict)


def shapes_of(raw: RawGraph, tensors: Sequence[Any], runs: Sequence[Run]) -> dict[str, OpenShape]:
    """Return the shape of an item for those of ``tensors`` that have one in all runs, with None for a row's length."""
    by_name: dict[str, set[Shape | None]] = {tensor.name: set() for tensor in tensors}
    if not by_name:
        return {}
    for run, values in zip(runs, compute_answers(raw, list(by_name), runs), strict=True):
        (count,) = {len(strings) for strings in run.values()}
        for name, value in zip(by_name, values, strict=True):
            shape = np.shape(value)
            by_name[name].add(shape[1:] if shape[:1] == (count,) else None)
    return {name: merged for name, shapes in by_name.items() if (merged := _merge_shapes(shapes)) is not None}


def _merge_shapes(shapes: set[Shape | None]) -> OpenShape | None:
    """Return the common shape, with None for a first length that differs, or None if there is none."""
    (first, *rest) = shapes
    if first is None or not rest:
        return first
    alike = first and all(shape and shape[1:] == first[1:] for shape in rest)
    return (None, *first[1:]) if alike else None


def with_pads(cut: WordCut, feeds: Sequence[str], truncated: Sequence[str] = ()) -> WordCut:
    """Return ``cut`` with the values with which TensorFlow fills up shorter rows of ``feeds``.

    ``truncated``: those of them whose longer rows the function cuts off and does not refuse. Raises ImportModelError if
    a feed is filled up with several values.
    """
    if not feeds:
        return cut
    fill_values: dict[str, set[Any]] = {name: set() for name in feeds}
    for items, rows in _run_both(cut, cut.examples):
        for item, row in zip(items, zip(*rows, strict=True), strict=True):
            for name, padded in zip(cut.cuts, row, strict=True):
                if name in fill_values:
                    fill_values[name] |= set(padded[item[name].shape[1] :].ravel().tolist())
    if several := [name for name, values in fill_values.items() if len(values) > 1]:
        raise ImportModelError(
            f"Shorter texts are filled up to the length of the longest, and what with is not always the same "
            f"({escape_invisible(several[0])}): give the model a fixed length (output_sequence_length)."
        )
    pads = {name: next(iter(values), 0) for name, values in fill_values.items()}
    for output in cut.recipe.outputs:
        if output["feed"] in pads:
            output["pad"] = pads[output["feed"]]
        if output["feed"] in truncated:
            output["truncate"] = True
    return replace(cut, pads=pads)


def _run_both(cut: WordCut, runs: Sequence[Run]) -> Iterator[tuple[list[dict[str, Any]], list[NDArray[Any]]]]:
    """Yield, for each run, the feeds of each item as the function computes them, and those of all from TensorFlow.

    Raises ImportModelError if the function refuses an item.
    """
    from handler.errors import HandlerError
    from handler.text.words import parse_program

    words = parse_program(cut.recipe.to_bytes())
    for run, expected in zip(runs, compute_answers(cut.whole, list(cut.cuts.values()), runs), strict=True):
        items = []
        for item in iterate_items(cut, run):
            try:
                items.append(words.compute_arrays(item))
            except HandlerError as error:
                raise ImportModelError(f"{_describe_difference(cut, item)}: {error.message}.") from error
        yield items, expected


def iterate_items(cut: WordCut, run: Run) -> Iterator[list[list[bytes]]]:
    """Yield the strings of each item of a run, for each of the inputs that take strings."""
    columns = [run[tensor] for tensor in cut.sources.values()]
    for number in range(len(columns[0])):
        yield [column[number : number + 1].ravel().tolist() for column in columns]


def encode_runs(cut: WordCut, runs: Sequence[Run]) -> list[dict[str, NDArray[Any]]]:
    """Return the feeds of numbers, by name, that the function's own code computes for each of ``runs``.

    Raises ImportModelError if TensorFlow computes other values.
    """
    encoded = []
    for run, (items, expected) in zip(runs, _run_both(cut, runs), strict=True):
        for number, (item, arrays) in enumerate(zip(iterate_items(cut, run), items, strict=True)):
            for name, rows in zip(cut.cuts, expected, strict=True):
                array, row = arrays[name], rows[number : number + 1]
                if name in cut.pads:
                    array = _pad_row(array, row.shape[1], cut.pads[name])
                if not _has_same_values(array.shape, array.values, row):
                    raise ImportModelError(f"{_describe_difference(cut, item)}.")
        encoded.append(dict(zip(cut.cuts, expected, strict=True)))
    return encoded


def _pad_row(one: Any, length: int, pad: Any) -> Any:
    """Return a row of its own length (an Array of the function) filled up to ``length``."""
    missing = (length - one.shape[1]) * int(np.prod(one.shape[2:], dtype=np.int64))
    return one._replace(shape=(1, length, *one.shape[2:]), values=one.values + [pad] * missing)


def keep_fitting_examples(cut: WordCut) -> WordCut:
    """Return ``cut`` with only those examples that are no longer than its feeds, in full runs.

    Each run has a text with a word, if any text has one, as TensorFlow runs no recurrent layer over empty rows. Raises
    ImportModelError if no example fits.
    """
    fitting: list[tuple[Run, int, bool]] = []
    for run, (items, _) in zip(cut.examples, _run_both(cut, cut.examples), strict=True):
        for number, encoded in enumerate(items):
            if all(encoded[name].shape[1] <= cut.shapes[name][1] for name in cut.pads):
                fitting.append((run, number, all(encoded[name].shape[1] for name in cut.pads)))
    if not fitting:
        raise ImportModelError(
            f"No text is as short as the length of {', '.join(map(escape_invisible, cut.pads))}: give more."
        )
    ((batch, *_), *_) = [strings.shape for strings in cut.examples[0].values()]
    worded = [example for example in fitting if example[2]]
    runs = []
    for at in range(0, len(fitting), batch):
        batch_rows = [fitting[number % len(fitting)] for number in range(at, at + batch)]
        if worded and not any(has_words for _, _, has_words in batch_rows):
            batch_rows[0] = worded[at % len(worded)]
        runs.append({tensor: np.stack([run[tensor][n] for run, n, _ in batch_rows]) for tensor in cut.examples[0]})
    return replace(cut, examples=tuple(runs))


def write_words(cut: WordCut, fetches: Sequence[str], folder: Path, of_words: Collection[str] = ()) -> None:
    """Write ``model.words`` and ``words.npz`` into ``folder``; ``cut.raw`` has been admitted.

    Before that, TensorFlow's answers to the examples (``fetches``, by name) are compared with its answers to the
    numbers that the function computes of them. ``of_words``: those of them that have a row for each word. Raises
    ImportModelError if they differ.
    """
    encoded = encode_runs(cut, cut.examples)
    if cut.pads:
        cut = keep_fitting_examples(cut)
        encoded = [
            {name: _pad_rows(rows, cut.shapes[name], cut.pads.get(name)) for name, rows in run.items()}
            for run in encode_runs(cut, cut.examples)
        ]
    if not cut.raw.states:
        _require_answers(cut, fetches, encoded, of_words)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WORDS).write_bytes(cut.recipe.to_bytes())
    save_arrays(
        folder / EXAMPLES,
        {f"{at}/{name}": value for at, arrays in enumerate(encoded[:CASES]) for name, value in arrays.items()},
    )


def _pad_rows(rows: NDArray[Any], shape: Shape, pad: Any) -> NDArray[Any]:
    """Return ``rows`` filled up with ``pad`` to ``shape``."""
    sides = [(0, length - size) for size, length in zip(rows.shape, shape, strict=True)]
    return np.pad(rows, sides, constant_values=pad) if any(after for _, after in sides) else rows


def _require_answers(
    cut: WordCut, fetches: Sequence[str], made: Sequence[Mapping[str, NDArray[Any]]], of_words: Collection[str]
) -> None:
    graph = load_graph(cut.raw.graph_def)
    random = np.random.Generator(np.random.PCG64(1))
    other_feeds = {}
    for name, tensor in cut.raw.feeds.items():
        if name not in cut.cuts:
            dtype = graph.get_tensor_by_name(tensor).dtype.as_numpy_dtype
            values = random.standard_normal(cut.shapes[name]) if np.issubdtype(dtype, np.floating) else 1
            other_feeds[tensor] = np.broadcast_to(np.asarray(values, dtype), cut.shapes[name])
    expected = compute_answers(
        cut.whole, [cut.whole.fetches[name] for name in fetches], [{**run, **other_feeds} for run in cut.examples]
    )
    runs = [{cut.raw.feeds[name]: value for name, value in feeds.items()} | other_feeds for feeds in made]
    actual = compute_answers(cut.raw, [cut.raw.fetches[name] for name in fetches], runs)
    for name, ours, theirs in (
        pair for answers in zip(actual, expected, strict=True) for pair in zip(fetches, *answers, strict=True)
    ):
        if name in of_words and theirs.ndim > 1:
            ours = ours[:, : theirs.shape[1]]
        if ours.shape != theirs.shape:
            raise ImportModelError(
                f"The answer {name!r} has the shape {list(theirs.shape)} for texts that become {list(ours.shape)} when "
                "they are filled up: an answer has to have one size for all texts, or labels for each word "
                '(kind = "tokens").'
            )
        if not np.allclose(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True):
            raise ImportModelError(
                f"The answer {name!r} to strings is not that to the numbers that the function makes of them: it is off "
                f"by {np.abs(ours - theirs).max():.2g}." + (f" {_MASK}" if cut.pads else "")
            )


_MASK = (
    "Shorter texts are filled up to a length that is compiled, so the model has to leave out what they are filled up "
    "with: Embedding(mask_zero=True)."
)


def _has_same_values(shape: Shape, values: Sequence[Any], wanted: NDArray[Any]) -> bool:
    if shape != wanted.shape:
        return False
    if wanted.dtype.kind == "f":
        return bool(np.allclose(values, wanted.ravel(), rtol=1e-6, atol=0, equal_nan=True))
    return bool(values == wanted.ravel().tolist())


def _describe_difference(cut: WordCut, item: Sequence[Sequence[bytes]]) -> str:
    texts = ", ".join(repr(text[:60].decode(errors="replace")) for column in item for text in column[:3])
    return (
        f"What the function makes of {texts} alone is not what the model makes of it among others "
        f"({', '.join(step['op'] for step in cut.recipe.steps[:16])})"
    )
