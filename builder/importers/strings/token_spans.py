"""Positions of the words in a text that a graph turns into numbers, for answers that label each word.

The recipe is followed from a feed back to the op that splits the text, and from there to the strings. Only ops that
handler/text/token_spans.py knows may occur on this way. Each word of the examples alone must become the number that it
has in its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible
from builder.importers.strings.string_frontend import WordCut, iterate_items
from builder.importers.strings.string_ops import Attributes, Recipe

_SAME = frozenset({"EnsureShape", "ExpandDims", "Identity", "Reshape", "Squeeze"})
"""Ops that do not change a single string."""


class _NoTokensError(Exception):
    """The reason why the positions of the words are unknown."""


def with_tokens(cut: WordCut) -> WordCut:
    """Return ``cut`` with the positions of words. Raises ImportModelError if they cannot be known."""
    reasons = []
    for output in cut.recipe.outputs:
        feed = output["feed"]
        try:
            recipe = replace(cut.recipe, tokens=_trace_tokens(cut.recipe, feed, output["value"]))
            if len(cut.shapes[feed]) != 2:
                raise _NoTokensError("it has no number for each word")
            _require_same_numbers(cut, recipe, feed)
        except _NoTokensError as error:
            reasons.append(f"{escape_invisible(feed)}: {error}")
            continue
        assert recipe.tokens is not None
        source = recipe.tokens["source"]
        inputs = tuple(replace(port, tokens=feed) if port.name == source else port for port in cut.inputs)
        return replace(cut, recipe=recipe, inputs=inputs)
    raise ImportModelError(
        'kind = "tokens" answers where each word stands in the text. That is known where a text is split at white '
        "space or into characters, after lower or upper case and patterns, and each part becomes one number: "
        f"{reasons[0]}."
    )


def _trace_tokens(recipe: Recipe, feed: str, value: int) -> Attributes:
    """Return the entry that the function reads for the ``feed`` of the value ``value``. Raises _NoTokensError."""
    from handler.text.token_spans import SPLITS, STEPS

    first, by_value = len(recipe.inputs), _index_steps(recipe)
    splits = [step for step in _list_steps_before(by_value, value) if step["op"] in SPLITS]
    if len(splits) != 1:
        raise _NoTokensError("it is not made by splitting a text once")
    (split,) = splits
    if split["op"] == "StringSplitV2":
        separator = recipe.constants[split["of"][1] - first]["strings"]
        if separator != [""] or split["maxsplit"] != -1:
            raise _NoTokensError("the text is not split at white space")
    steps: list[Attributes] = []
    at = split["of"][0]
    while at >= first:
        step = by_value.get(at)
        if step is None or step["op"] not in STEPS | _SAME:
            raise _NoTokensError(f"{step['op'] if step else 'a constant'} stands before the splitting")
        if step["op"] in STEPS:
            steps.insert(0, {key: item for key, item in step.items() if key != "of"})
        at = step["of"][0]
    source = recipe.inputs[at]
    if any(size != 1 for size in source["shape"]):
        raise _NoTokensError(f"{source['name']!r} takes several texts for one item")
    return {"source": source["name"], "feed": feed, "steps": steps, "split": split["op"]}


def _index_steps(recipe: Recipe) -> dict[int, Attributes]:
    """Return the steps by the numbers of their results."""
    from tensorflow.python.framework import op_def_registry

    results = [step for step in recipe.steps for _ in op_def_registry.get(step["op"]).output_arg]
    return dict(enumerate(results, len(recipe.inputs) + len(recipe.constants)))


def _list_steps_before(by_value: Mapping[int, Attributes], value: int) -> list[Attributes]:
    """Return the steps that ``value`` depends on."""
    visited: list[Attributes] = []
    todo = [value]
    while todo:
        step = by_value.get(todo.pop())
        if step is not None and not any(step is other for other in visited):
            visited.append(step)
            todo += step["of"]
    return visited


def _require_same_numbers(cut: WordCut, recipe: Recipe, feed: str) -> None:
    """Raise _NoTokensError unless each word of the examples alone becomes the number that it has in its text."""
    from handler.errors import HandlerError
    from handler.text.words import parse_program

    words = parse_program(recipe.to_bytes())
    tokens = words.tokens
    assert tokens is not None
    sources = [port["name"] for port in recipe.inputs]
    at = sources.index(tokens.source)
    by_word: dict[str, Any] = {}
    fill_values: set[Any] = set()

    def numbers(item: list[list[bytes]]) -> list[Any]:
        return list(words.compute_arrays(item)[feed].values)

    for run in cut.examples:
        for item in iterate_items(cut, run):
            text = item[at][0].decode()
            row, places = numbers(item), tokens.find_places(text, len(text) + 1)
            if len(places) != len(row) and feed in cut.pads:
                raise _NoTokensError(f"a text of {len(places)} words becomes {len(row)} numbers")
            fill_values |= set(row[len(places) :])
            if len(fill_values) > 1:
                raise _NoTokensError("it has other numbers behind those of the words")
            for place, own in zip(places, row, strict=False):
                word = text[place.start : place.end]
                if word not in by_word:
                    alone = [*item[:at], [word.encode()], *item[at + 1 :]]
                    try:
                        by_word[word] = next(iter(numbers(alone)), None)
                    except HandlerError:
                        by_word[word] = None
                if by_word[word] != own:
                    raise _NoTokensError(f"{word[:40]!r} alone becomes another number than in a text")
