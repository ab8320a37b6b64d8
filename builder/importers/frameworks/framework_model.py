"""A model of another framework in a process of that framework, and the files that its golden inputs cross in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.arrays import Array, save_arrays
from builder.importers.loaded import make_names_unique
from builder.importers.ports import GraphFacts, ModelPorts, PortInfo
from builder.importers.strings.counted_terms import TermSteps

ASKED, ANSWERED = "asked.npz", "answered.npz"
"""The files of the inputs of every case, and of its answers; an array is named ``<case>/<number>`` in both."""

_NAME = re.compile(r"[\w.:-]+")


@dataclass(frozen=True)
class FrameworkModel:
    """A model; ``make_function`` makes a JAX function from the feeds to the fetches, in the order of ``ports``.

    ``answer`` does the same with arrays, run by the framework itself. ``channels_first``: whether the format's images
    have their channels first. ``states``: what the model keeps from one call to the next, with the values at first. The
    function takes them after the feeds and gives the new ones after the fetches; ``answer`` keeps its own.
    """

    ports: ModelPorts
    make_function: Callable[[], Callable[..., Sequence[Any]]]
    answer: Callable[[Sequence[Array]], Sequence[Array]]
    channels_first: bool = False
    states: Mapping[str, Array] = field(default_factory=dict)
    samples: Mapping[str, Array] = field(default_factory=dict)
    """Values [count, ...] of feeds that are better golden inputs than random ones."""
    vocabularies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The strings that the model knows, for each feed of strings.

    Such a feed is int64 to the function and to ``answer``: the number of a string, or -1 for one that is unknown.
    """
    terms: TermSteps | None = None
    """The steps for feeds of texts, which are the counts of their terms to the function and to ``answer``."""

    encode_texts: Callable[[Sequence[tuple[str, ...]], int], Mapping[str, Array]] | None = None
    """The framework's own tokenizer: IDS and perhaps TYPES [items, length] of texts or pairs, which feeds take."""

    process_images: Callable[[Array], Array] | None = None
    """What the framework makes of uint8 pixels [images, height, width, channels] that have the model's own size."""

    def fix_feeds(self, values: Mapping[str, Array]) -> FrameworkModel:
        """Return the model without the inputs of ``values``, which always have these values."""
        if not values:
            return self

        def fill(feeds: Sequence[Any]) -> list[Any]:
            rest = iter(feeds)
            return [*(values[port.name] if port.name in values else next(rest) for port in self.ports.feeds), *rest]

        def make_function() -> Callable[..., Sequence[Any]]:
            function = self.make_function()
            return lambda *feeds: function(*fill(feeds))

        ports = replace(self.ports, feeds=tuple(port for port in self.ports.feeds if port.name not in values))
        return replace(self, ports=ports, make_function=make_function, answer=lambda feeds: self.answer(fill(feeds)))


def number_strings(ports: ModelPorts) -> ModelPorts:
    """Return ``ports`` with feeds of int64, the numbers of strings, in the place of strings."""
    feeds = (replace(port, dtype="int64") if port.dtype == "string" else port for port in ports.feeds)
    return replace(ports, feeds=tuple(feeds))


def decode_strings(numbers: Array, vocabulary: Sequence[str]) -> Array:
    """Return the strings of ``numbers`` as objects; a number that is none of the vocabulary's is another string."""
    unknown = "?" * (1 + max(map(len, vocabulary), default=0))
    texts = [vocabulary[number] if 0 <= number < len(vocabulary) else unknown for number in numbers.reshape(-1)]
    return np.array(texts, object).reshape(numbers.shape)


def open_rows(open_model: Callable[[], FrameworkModel], batch: int) -> FrameworkModel:
    """Return the model that ``open_model`` gives; one for a batch of 1, for any batch if ``batch`` is another.

    Each row is a run of its own. A model with states has them for each of ``batch`` rows.
    """
    model = open_model()
    ports = model.ports
    if batch == 1 or not all(port.shape and port.shape[0] == 1 for port in (*ports.feeds, *ports.fetches)):
        return model
    answers = [model.answer, *(open_model().answer for _ in range(batch - 1 if model.states else 0))]

    def answer(feeds: Sequence[Array]) -> list[Array]:
        rows = [answers[i % len(answers)]([feed[i : i + 1] for feed in feeds]) for i in range(len(feeds[0]))]
        return [np.concatenate(column) for column in zip(*rows, strict=True)]

    opened = replace(ports, feeds=_open_batch(ports.feeds), fetches=_open_batch(ports.fetches))
    states = {name: np.repeat(value[None], batch, 0) for name, value in model.states.items()}
    return replace(model, ports=opened, make_function=lambda: _map_rows(model), answer=answer, states=states)


def _open_batch(ports: Sequence[PortInfo]) -> tuple[PortInfo, ...]:
    return tuple(replace(port, shape=(None, *(port.shape or ())[1:])) for port in ports)


def _map_rows(model: FrameworkModel) -> Callable[..., Sequence[Any]]:
    """Return the function of feeds [n, ...] and states that calls that of ``model`` with the rows, all at once."""
    import jax  # The builder's own process has none.

    function, feeds, fetches = model.make_function(), len(model.ports.feeds), len(model.ports.fetches)

    def run(*values: Any) -> list[Any]:
        rows = [value[:, None] for value in values[:feeds]], values[feeds:]
        results = jax.vmap(lambda row, states: tuple(function(*row, *states)))(*rows)
        return [*(value[:, 0] for value in results[:fetches]), *results[fetches:]]

    return run


def make_port(name: str, dtype: str, sizes: Sequence[Any]) -> PortInfo:
    """Return a port with ``sizes`` that are integers, or the names of open dimensions; a term is no name."""
    fixed = [size if isinstance(size, int) else None for size in sizes]
    names = (str(size) if not isinstance(size, int) and _NAME.fullmatch(str(size)) else "" for size in sizes)
    return PortInfo(name, dtype, tuple(fixed), dimensions=tuple(names) if None in fixed else ())


def find_endings(
    results: Mapping[str, Any], makers: Mapping[Any, tuple[str, Any]], transparent: Collection[str]
) -> GraphFacts:
    """Return the facts of a graph: the operator that computes each of ``results``, a value by the name of its port.

    ``makers``: the operator of a value, and its first input. ``transparent`` ones leave the numbers as they are.
    """
    endings = {}
    for port, value in results.items():
        while value in makers and makers[value][0] in transparent:
            value = makers[value][1]
        if value in makers and makers[value][0].title() != "Div":  # It may end a softmax written in steps.
            endings[port] = makers[value][0]
    return GraphFacts((), endings)


def save_cases(path: Path, cases: Mapping[str, Sequence[Array]]) -> None:
    """Write the arrays of each case. A case without arrays is left out."""
    save_arrays(
        path, {f"{case}/{number}": value for case, values in cases.items() for number, value in enumerate(values)}
    )


def load_cases(path: Path) -> dict[str, list[Array]]:
    """Return the arrays of each case in a file that ``save_cases`` wrote."""
    cases: dict[str, list[Array]] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            cases.setdefault(key.rpartition("/")[0], []).append(arrays[key])
    return cases


def distinct_names(paths: Sequence[Sequence[Any]], kind: str) -> list[str]:
    """Return a name for each path, made of its keys, with ``kind`` ("input", "output") if they are only numbers.

    All names differ as C identifiers. A single one is ``kind`` alone. A key that is not text is a position.
    """
    if len(paths) == 1 and not any(isinstance(key, str) for key in paths[0]):
        return [kind]
    names = []
    for number, path in enumerate(paths):
        words = [key for key in path if isinstance(key, str)]
        numbers = [str(_read_position(key, number)) for key in path if not isinstance(key, str)]
        names.append("_".join([*words, *numbers] if words else [kind, *(numbers or [str(number)])]))
    return make_names_unique(names)


def _read_position(key: Any, default: int) -> int:
    """Return the position that a key of a sequence stands for."""
    position = getattr(key, "idx", key)
    return position if isinstance(position, int) else default
