"""Golden inputs, on which every library is run, the same on every machine."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from builder.base.arrays import Array
from builder.config import ImageSpec, ModelSpec, TextSpec
from builder.config.tensor import IndexRange, TensorSpec
from builder.importers.graph import FrozenGraph

RANDOM_CASES = 3

DRAWS = 8
"""The largest number of further random cases, in place of cases that decide nothing."""

PHOTOGRAPHS = Path(__file__).parent / "photographs"
"""A face, a person and a cup: public domain, see the README beside them."""


TEXTS = Path(__file__).parent / "texts.txt"
"""This project's own sentences in several languages."""

TEXT_CASES = 6
_TEXT = "text-"
_PHOTO, _EXAMPLE = "photo-", "example-"

NOT_FINITE = MISSING, INFINITE = ("missing", "infinite")
"""Cases with NaN and with infinities, in inputs that take them."""
ENDS = "ends"
"""A case with the smallest and largest values of wide integers."""

PROBES = {"extremes", "wide", *NOT_FINITE, ENDS}
"""Cases to which a valid model may have no answer."""

EDGES = {"zeros", *PROBES}
"""Cases unlike usual inputs: models that divide by their sum, or compare with it, have no certain answer."""

_SCALE = 50.0
"""A factor and divisor that moves random floats far to either side of a threshold."""

_WIDE = 100
"""A bound on integers in further cases, for models that take tokens or amounts."""

_FAR = (1 << 31) - 1
"""The end of a range of indices that no table limits."""


def list_drawn_feeds(spec: ModelSpec, graph: FrozenGraph) -> list[TensorSpec]:
    """Return the feeds of ``graph`` as golden inputs are drawn for them; ids of a text are not drawn, and stay."""
    return [port.spec if spec.text else port.golden_spec for port in graph.feeds]


def make_cases(spec: ModelSpec, feeds: list[TensorSpec]) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield every case's name and its arrays by feed, seeded by the feeds' names and so the same on every machine."""
    if spec.text:
        yield from make_text_cases(spec.text, feeds, spec.batch)
        return
    yield "zeros", {f.name: np.zeros(f.shape, f.dtype) for f in feeds}
    yield "extremes", {f.name: make_extremes(f) for f in feeds}
    for i in range(RANDOM_CASES):
        values = {f.name: make_random_values(f, i) for f in feeds}
        last = i == RANDOM_CASES - 1
        yield f"random-{i}", {f.name: _insert_zeros(values[f.name], f) for f in feeds} if last else values
    if any(_may_be_index(f) for f in feeds):
        yield "wide", {f.name: make_random_values(f, RANDOM_CASES, _WIDE) for f in feeds}
        yield ENDS, {f.name: _insert_ends(f) for f in feeds}
    floats = [f for f in feeds if f.dtype.startswith("float") and f.name in {own.name for own in spec.feeds if own.nan}]
    for case, numbers in ((MISSING, (np.nan,)), (INFINITE, (np.inf, -np.inf))) if floats else ():
        values = {f.name: make_random_values(f, RANDOM_CASES) for f in feeds}
        yield case, values | {f.name: _sprinkle_numbers(values[f.name], numbers, f) for f in floats}
    if spec.image is None:
        return
    feed = spec.image.feed or feeds[0].name
    for i, (case, batch) in enumerate(make_photograph_cases(spec.image, spec.batch)):
        yield case, {f.name: make_random_values(f, RANDOM_CASES + i) for f in feeds} | {feed: batch}


def make_photograph_cases(image: ImageSpec, count: int) -> Iterator[tuple[str, Array]]:
    """Yield cases of ``count`` photographs as the function decodes them: uint8 [count, height, width, channels]."""
    paths = sorted(PHOTOGRAPHS.glob("*.jpg"))
    photographs = [read_photograph(path, image) for path in paths]
    for i, path in enumerate(paths):
        yield f"{_PHOTO}{path.stem}", np.stack([photographs[(i + item) % len(paths)] for item in range(count)])


def make_text_cases(text: TextSpec, feeds: list[TensorSpec], batch: int) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield cases of text in several languages, of all lengths: the function's ids, and random other feeds."""
    for number in range(TEXT_CASES):
        random_feeds = {feed.name: make_random_values(feed, number) for feed in feeds}
        yield f"{_TEXT}{number}", random_feeds | make_text_feeds(_choose_items(number, batch, text.pairs), text, feeds)


def is_photograph(case: str) -> bool:
    """Tell whether a golden case is one of the photographs."""
    return case.startswith(_PHOTO)


def is_text(case: str) -> bool:
    """Return whether a case is from ``make_text_cases``, to which every correct tokenizer's model has an answer."""
    return case.startswith(_TEXT)


def list_texts(case: str, batch: int, text: TextSpec) -> list[tuple[str, ...]]:
    """Return what the tokenizer gets of a golden case: a text or a pair for each item; [] for another kind of case."""
    items = _choose_items(int(case.removeprefix(_TEXT)), batch, text.pairs) if is_text(case) else []
    return [(text.opening + first, *second) for first, *second in items]


def _choose_items(number: int, count: int, pairs: bool) -> list[tuple[str, ...]]:
    """Return ``count`` passages, or pairs of passages of like and of unlike lengths."""
    sides = [number, number // 2 + 1] if pairs else [number]
    return list(zip(*(_choose_passages(side, count) for side in sides), strict=True))


def _choose_passages(number: int, count: int) -> list[str]:
    """Return ``count`` passages: beginnings of sentences (2 to 128 characters), or running text for an odd number."""
    lines = TEXTS.read_text(encoding="utf-8").splitlines()
    if number % 2:
        return [" ".join(lines[(number + item + at) % len(lines)] for at in range(len(lines))) for item in range(count)]
    return [lines[(number * 5 + item) % len(lines)][: 2 << 2 * ((number // 2 + item) % 4)] for item in range(count)]


def make_text_feeds(items: Sequence[tuple[str, ...]], text: TextSpec, feeds: Sequence[TensorSpec]) -> dict[str, Array]:
    """Return the feeds of texts or pairs, by name, as the function makes them, with its usual prompt, and cut off."""
    from builder.importers.text import make_encoder

    names = text.with_feed_names([feed.name for feed in feeds])
    ports = {feed.name: feed for feed in feeds}
    ids = ports[names.ids or ""]
    encode = make_encoder(text, ids.shape[1])
    found, mask, types = (np.full((len(items), ids.shape[1]), fill, ids.dtype) for fill in (encode.pad, 0, 0))
    for row, (first, *second) in enumerate(items):
        encoding = encode.encode_item((text.opening + first, *second))
        count = len(encoding.ids)
        found[row, :count], mask[row, :count], types[row, :count] = encoding.ids, 1, encoding.types or 0
    arrays = {names.ids: found, names.mask: mask, names.types: types}
    return {name: array.astype(ports[name].dtype) for name, array in arrays.items() if name}


def read_examples(graph: FrozenGraph) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield cases of a graph with examples, of strings or of rows of a table, and random values for other feeds."""
    if not graph.examples_path.exists():
        return
    with np.load(graph.examples_path, allow_pickle=False) as arrays:
        numbers = dict.fromkeys(name.partition("/")[0] for name in arrays.files)
        for at, number in enumerate(numbers):
            feeds = {}
            for port in graph.feeds:
                key = f"{number}/{port.spec.name}"
                feeds[port.spec.name] = arrays[key] if key in arrays else make_random_values(port.spec, at)
            yield f"{_EXAMPLE}{number}", feeds


def is_example(case: str) -> bool:
    """Return whether a golden case is one of ``read_examples``."""
    return case.startswith(_EXAMPLE)


def make_further_cases(feeds: list[TensorSpec]) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield ``DRAWS`` more cases of random values."""
    for i in range(RANDOM_CASES, RANDOM_CASES + DRAWS):
        yield f"random-{i}", {f.name: make_random_values(f, i) for f in feeds}


def make_scaled_cases(feeds: list[TensorSpec]) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield further cases; if the data decide how many results a model gives, some give none and some all."""
    for name, factor in (("faint", 1 / _SCALE), ("strong", _SCALE), ("lowest", -_SCALE), ("highest", _SCALE)):
        plain = name in ("lowest", "highest")
        yield name, {f.name: _make_scaled_values(f, factor, plain) for f in feeds}


def _make_scaled_values(feed: TensorSpec, factor: float, plain: bool) -> Array:
    """Return random floats times ``factor``, or the ``plain`` factor; for other types the nearest values."""
    if feed.dtype.startswith("float"):
        values = np.ones(feed.shape) if plain else make_random_values(feed, RANDOM_CASES)
        return _insert_indices((values * factor).astype(feed.dtype), feed)
    if not plain:
        return make_random_values(feed, RANDOM_CASES)
    return _insert_indices(np.full(feed.shape, _find_ends(feed)[factor > 0], feed.dtype), feed)


def _find_ends(feed: TensorSpec) -> tuple[int, int]:
    """Return the smallest and largest value of 8-bit types, and 0 and 1 for other integers, which may be indices."""
    return {"uint8": (0, 255), "int8": (-128, 127)}.get(feed.dtype, (0, 1))


def make_extremes(feed: TensorSpec) -> Array:
    """Return both ends of a range, alternating: all of 8 bits, -1 and 1 for floats, 0 and 1 for integers.

    Indices have the ends of their own range.
    """
    low, high = _find_ends(feed)
    if feed.dtype.startswith("float"):
        low = -1
    values = np.resize(np.array([high, low], feed.dtype), feed.elements).reshape(feed.shape)
    for part, indices in _find_indices(values, feed):
        indices[:] = np.resize([end if abs(end) < _FAR else 0 for end in (part.maximum, part.minimum)], indices.shape)
    return values


def _find_indices(values: Array, feed: TensorSpec) -> Iterator[tuple[IndexRange, Array]]:
    """Yield the ranges of indices in ``feed``, each with its elements of ``values``."""
    for part in feed.ranges:
        yield part, values.reshape(-1, part.period)[:, part.first : part.first + part.count]


def _insert_indices(values: Array, feed: TensorSpec) -> Array:
    """Replace indices in ``values`` that are out of range, or not integers, by others."""
    for one, indices in _find_indices(values, feed):
        numbers, size = np.rint(indices).astype(np.int64), one.maximum - one.minimum + 1
        far = size > _FAR
        indices[:] = np.clip(numbers, one.minimum, one.maximum) if far else (numbers - one.minimum) % size + one.minimum
    return values


def make_random_values(feed: TensorSpec, seed: int, end: int = 2) -> Array:
    """Return normal floats, any uint8 or int8, and integers below ``end`` for wider types, which may be indices.

    Values that are indices are in their range.
    """
    random = np.random.Generator(np.random.PCG64([seed, zlib.crc32(feed.name.encode())]))
    if feed.dtype.startswith("float"):
        values = random.standard_normal(feed.shape).astype(feed.dtype)
    elif feed.dtype in ("uint8", "int8"):
        info = np.iinfo(feed.dtype)
        values = random.integers(info.min, info.max, feed.shape, feed.dtype, endpoint=True)
    else:
        values = random.integers(0, end if _may_be_index(feed) else 2, feed.shape).astype(feed.dtype)
    return _insert_indices(np.asarray(values), feed)


def _insert_zeros(values: Array, feed: TensorSpec) -> Array:
    """Return ``values`` with zeros of both signs, which are ties, in every third place; one float stays as it is."""
    return _sprinkle_numbers(values, (-0.0, 0.0), feed) if values.dtype.kind == "f" and values.size > 1 else values


def _insert_ends(feed: TensorSpec) -> Array:
    """Return random values; a wide integer has the ends of its type in a third of the places."""
    values = make_random_values(feed, RANDOM_CASES)
    if not _may_be_index(feed):
        return values
    info = np.iinfo(feed.dtype)
    return _sprinkle_numbers(values, (info.max, info.min), feed)


def _sprinkle_numbers(values: Array, numbers: Sequence[float], feed: TensorSpec) -> Array:
    """Return ``values`` with ``numbers``, in turn, in every third place from the second, except at indices."""
    flat = values.flatten()
    places = slice(min(1, flat.size - 1), None, 3)
    flat[places] = np.resize(np.array(numbers, values.dtype), flat[places].size)
    for (_, indices), (_, own) in zip(_find_indices(flat, feed), _find_indices(values, feed), strict=True):
        indices[:] = own
    return flat.reshape(values.shape)


def _may_be_index(feed: TensorSpec) -> bool:
    return "int" in feed.dtype and not feed.dtype.endswith("int8")


def read_photograph(path: Path, image: ImageSpec) -> Array:
    """Return an image as uint8 [height, width, channels], as the spec's image input takes it."""
    from PIL import Image

    with Image.open(path) as opened:
        photograph = opened.convert("L" if image.mode == "grey" else "RGB")
    photograph = photograph.resize((image.width, image.height), Image.Resampling.BILINEAR)
    return np.asarray(photograph, np.uint8).reshape(image.height, image.width, image.channels)
