"""TensorFlow's ops on strings, which are bytes as in TensorFlow, and always valid UTF-8.

Each op is TensorFlow's of that name, with its attributes as keywords that begin in lower case; see
https://www.tensorflow.org/api_docs/python/tf/raw_ops. The builder translated the patterns: their time is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from math import prod

from ..budget import require_comparisons
from ..errors import UnfitTextError
from ..typed import Any
from .arrays import Array, Op, apply_elementwise, collect_strings, make_vector, require_bytes
from .fingerprint import compute_farmhash, compute_siphash

_A_PATTERN = "one of the model's patterns"
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.I
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")


def _map_strings(function: Callable[[bytes], Any]) -> Callable[[Array], Array]:
    return lambda x: Array(x.shape, list(map(function, x.values)))


def _make_case_op(of_ascii: Callable[[bytes], bytes], of_text: Callable[[str], str]) -> Op:
    """Return an op that changes the case of ASCII letters alone, unless the encoding is utf-8."""

    def change_text(text: bytes) -> bytes:
        return of_text(text.partition(b"\0")[0].decode()).encode()  # TensorFlow's string for ICU ends at the first NUL

    return lambda x, *, encoding="": _map_strings(change_text if encoding == "utf-8" else of_ascii)(x)


def compile_pattern(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an op, with its ``pattern`` compiled if it has one."""
    if "pattern" not in attributes:
        return attributes
    return attributes | {"pattern": re.compile(attributes["pattern"], re.ASCII)}


def _replace_matches(
    x: Array, *, pattern: Any, rewrite: Sequence[str | int], everywhere: bool, cost: int, slope: int
) -> Array:
    """Replace the first match of ``pattern``, or all, by ``rewrite``: texts, and numbers of groups."""
    require_comparisons(x.values, cost, slope, _A_PATTERN)
    replacement = make_replacement(rewrite)

    def replace_in(text: bytes) -> bytes:
        return str(pattern.sub(replacement, text.decode(), count=0 if everywhere else 1)).encode()

    return _map_strings(replace_in)(x)


def make_replacement(rewrite: Sequence[str | int]) -> Callable[[re.Match[str]], str]:
    """Return a function that gives the text for a match. It raises TextTooLongError when it has given too much."""
    size = 0

    def expand(match: re.Match[str]) -> str:
        nonlocal size
        text = "".join(part if isinstance(part, str) else match[part] or "" for part in rewrite)
        size += len(text)
        require_bytes(size)
        return text

    return expand


def _match_strings(x: Array, *, pattern: Any, cost: int, slope: int) -> Array:
    require_comparisons(x.values, cost, slope, _A_PATTERN)
    return _map_strings(lambda text: pattern.fullmatch(text.decode()) is not None)(x)


def _split_strings(x: Array, separator: Array, *, maxsplit: int = -1) -> tuple[Array, Array, Array]:
    """Split a vector of texts. Returns each part's row and column, [n, 2]; the parts, [n]; and the dense shape."""
    parts = [_split_string(text, separator.scalar, maxsplit) for text in x.values]
    places = [number for row, own in enumerate(parts) for at in range(len(own)) for number in (row, at)]
    flat = list(chain.from_iterable(parts))
    return Array((len(flat), 2), places), make_vector(flat), make_vector([len(parts), max(map(len, parts), default=0)])


def _split_string(text: bytes, separator: bytes, maxsplit: int) -> list[bytes]:
    if maxsplit == 0:
        return [text]
    if separator or maxsplit < 0:
        return text.split(separator or None, maxsplit)
    parts = text.split(None, maxsplit)
    if len(parts) == maxsplit:  # TensorFlow keeps the rest behind the last part, even an empty one
        parts.append(b"")
    return parts


def _make_ngrams(
    data: Array, splits: Array, *,
    separator: bytes, ngram_widths: Sequence[int], left_pad: bytes, right_pad: bytes, pad_width: int,
    preserve_short_sequences: bool,
) -> tuple[Array, Array]:  # fmt: skip
    ends = [0]

    def generate_ngrams() -> Iterator[bytes]:
        for start, end in pairwise(splits.values):
            tokens, count = data.values[start:end], 0
            for width in ngram_widths:
                padding = width - 1 if pad_width < 0 else min(pad_width, width - 1)
                padded = [left_pad] * padding + tokens + [right_pad] * padding
                yield from (_join_parts(separator, padded[at : at + width]) for at in range(len(padded) - width + 1))
                count += max(len(padded) - width + 1, 0)
            if preserve_short_sequences and tokens and not count:
                padding = max(pad_width, 0)
                yield _join_parts(separator, [left_pad] * padding + tokens + [right_pad] * padding)
                count = 1
            ends.append(ends[-1] + count)

    return make_vector(collect_strings(generate_ngrams())), make_vector(ends)


def _unicode_decode(x: Array) -> tuple[Array, Array]:
    """Return the index where each text of a vector begins in the code points, and all code points."""
    rows = [list(map(ord, text.decode())) for text in x.values]
    return make_vector(accumulate(map(len, rows), initial=0)), make_vector(chain.from_iterable(rows))


def _unicode_decode_with_offsets(x: Array) -> tuple[Array, Array, Array]:
    splits, points = _unicode_decode(x)
    offsets: list[int] = []
    for start, end in pairwise(splits.values):
        sizes = [len(chr(point).encode()) for point in points.values[start:end]]
        offsets += list(accumulate(sizes, initial=0))[:-1]
    return splits, points, make_vector(offsets)


def _unicode_encode(points: Array, splits: Array) -> Array:
    return make_vector("".join(map(chr, points.values[a:b])).encode() for a, b in pairwise(splits.values))


def _measure_strings(x: Array, *, unit: str = "BYTE") -> Array:
    return _map_strings(len if unit == "BYTE" else lambda text: len(text.decode()))(x)


def _cut_substrings(x: Array, begin: Array, count: Array) -> Array:
    """Cut parts out of texts, in characters. Raises IndexError for a begin beyond the text."""

    def cut_text(text: bytes, start: int, size: int) -> bytes:
        letters = text.decode()
        if not -len(letters) <= start <= len(letters):
            raise IndexError("a text is shorter than where its part begins")
        start = start + len(letters) if start < 0 else start
        return letters[start : start + size].encode()

    return apply_elementwise(cut_text, x, begin, count, collect=collect_strings)


def _join_strings(*texts: Array, separator: bytes = b"") -> Array:
    return apply_elementwise(lambda *parts: _join_parts(separator, parts), *texts, collect=collect_strings)


def _join_parts(separator: bytes, parts: Sequence[bytes]) -> bytes:
    """Join ``parts``. Raises TextTooLongError before it makes a string that is too large."""
    require_bytes(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _reduce_join(x: Array, axis: Array, *, separator: bytes = b"", keep_dims: bool = False) -> Array:
    """Join the strings along the last axis."""
    width = x.shape[-1]
    rows = (_join_parts(separator, x.values[at * width : at * width + width]) for at in range(prod(x.shape[:-1])))
    return Array((*x.shape[:-1], *([1] if keep_dims else [])), collect_strings(rows))


def _as_string(x: Array) -> Array:
    """Write whole numbers and bools as strings."""
    names = {True: b"true", False: b"false"}
    return Array(x.shape, [names[v] if isinstance(v, bool) else str(v).encode() for v in x.values])


def _to_number(x: Array, *, bits: int, whole: bool) -> Array:
    """Read numbers of ``bits`` bits. Raises UnfitTextError."""

    def parse_number(text: bytes) -> float | int:
        stripped = text.decode().strip(" \t\n\r\v\f")
        if whole and _WHOLE.fullmatch(stripped) and -(1 << bits - 1) <= int(stripped) < 1 << bits - 1:
            return int(stripped)
        if not whole and len(stripped) < 1000 and _NUMBER.fullmatch(stripped):
            return float(stripped)
        raise UnfitTextError(f"a text is no {'whole ' if whole else ''}number that the model can take")

    return _map_strings(parse_number)(x)


def _hash_fast(x: Array, *, num_buckets: int) -> Array:
    return _map_strings(lambda text: compute_farmhash(text) % num_buckets)(x)


def _hash_strong(x: Array, *, num_buckets: int, key: Sequence[int]) -> Array:
    first, second = key
    return _map_strings(lambda text: compute_siphash(text, (first, second)) % num_buckets)(x)


def _fingerprint_strings(x: Array, method: Array) -> Array:
    """Return the eight bytes of FarmHash's Fingerprint64 of each string of a vector, [n, 8], the lowest first."""
    values = [byte for text in x.values for byte in compute_farmhash(text).to_bytes(8, "little")]
    return Array((len(x.values), 8), values)


def _bitcast_bytes(x: Array) -> Array:
    """Convert bytes [..., 8], the lowest first, to signed whole numbers of 64 bits: ``Bitcast``."""
    numbers = [int.from_bytes(x.values[at : at + 8], "little", signed=True) for at in range(0, len(x.values), 8)]
    return Array(x.shape[:-1], numbers)


def _look_up(keys: Array, default: Array, *, table: Mapping[Any, Any]) -> Array:
    missing = default.scalar
    return _map_strings(lambda key: table.get(key, missing))(keys)


OPS: Mapping[str, Op] = {
    "AsString": _as_string,
    "Bitcast": _bitcast_bytes,
    "Fingerprint": _fingerprint_strings,
    "LookupTableFindV2": _look_up,
    "ReduceJoin": _reduce_join,
    "RegexFullMatch": _match_strings,
    "RegexReplace": _replace_matches,
    "StringJoin": _join_strings,
    "StringLength": _measure_strings,
    "StringLower": _make_case_op(bytes.lower, str.lower),
    "StringNGrams": _make_ngrams,
    "StringSplitV2": _split_strings,
    "StringStrip": _map_strings(bytes.strip),
    "StringToHashBucketFast": _hash_fast,
    "StringToHashBucketStrong": _hash_strong,
    "StringToNumber": _to_number,
    "StringUpper": _make_case_op(bytes.upper, str.upper),
    "Substr": _cut_substrings,
    "UnicodeDecode": _unicode_decode,
    "UnicodeDecodeWithOffsets": _unicode_decode_with_offsets,
    "UnicodeEncode": _unicode_encode,
}
