"""Hashes of whole numbers that are written as strings first, as Keras' Hashing does it: arithmetic, without strings.

``tf.as_string`` and ``tf.strings.to_hash_bucket_fast`` (FarmHash) or ``..._strong`` (SipHash) become one function of
uint64. A number has 20 letters at most, so a few of the hashes' cases are enough. The same bits:
handler/text/fingerprint.py has the hashes of any string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from builder.base.tf import dtype_of, tf
from builder.importers.rewrite import copy_message, source_of, stand_in
from builder.importers.rewrites.hashing import mixed, remainder, turned, word

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_SIP = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_DIGITS = 19
"""Of the largest int64."""


class _Written(NamedTuple):
    """A whole number in decimal, uint64 each: how many letters; the first 24 of them, eight in each of three, the first
    in the lowest bits, and 0 behind the last; the last eight, and the eight before, the last in the highest bits.
    """

    size: Any
    words: tuple[Any, ...]
    last: Any
    before: Any


def hashed_numbers(graph_def: Any) -> Any:
    """``graph_def`` with arithmetic in the place of hashes of written numbers. Leaves its argument alone.

    The graph may be any: what is not as TensorFlow writes it, stays as it is.
    """
    nodes = {node.name: node for node in graph_def.node}
    found = {n.name: one for n in graph_def.node if _is_hash(n) and (one := written_from(n.input[0], nodes))}
    if not found:
        return graph_def
    result = copy_message(graph_def)
    for number, node in enumerate(one for one in result.node if one.name in found):
        source = found[node.name]
        dtype = dtype_of(source.attr["T"].type)
        hashed = _HASHES[node.op](node)

        def function(x: Any, hashed: Callable[[_Written], Any] = hashed) -> Any:
            return hashed(_written(tf.cast(x, tf.int64)))

        inputs = [source.input[0], *(given for given in node.input if given.startswith("^"))]
        stand_in(node, f"hashed_{number}", result.library, function, inputs, [dtype], [tf.int64])
    return result


def _is_hash(node: Any) -> bool:
    if node.op not in _HASHES or not node.input or node.attr["num_buckets"].i < 1:
        return False
    return node.op != "StringToHashBucketStrong" or len(node.attr["key"].list.i) == 2


def fingerprints(x: Any) -> Any:
    """Of whole numbers of any shape: int64, the bits of FarmHash's Fingerprint64 of each as it is written."""
    return tf.bitcast(_fingerprint(_written(tf.cast(x, tf.int64))), tf.int64)


def written_from(tensor: str, nodes: Mapping[str, Any]) -> Any | None:
    """The node that writes whole numbers as ``tensor``, as they are."""
    node = nodes.get(source_of(tensor, nodes))
    if node is None or node.op != "AsString" or not node.input:
        return None
    whole = {
        dtype.as_datatype_enum for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64)
    }
    width = node.attr["width"].i if "width" in node.attr else -1
    return node if width == -1 and not node.attr["fill"].s and node.attr["T"].type in whole else None


def _written(x: Any) -> _Written:
    """int64 of any shape."""
    bitwise, zero = tf.bitwise, word(0)
    negative, bits = x < 0, tf.bitcast(x, tf.uint64)
    rest = tf.where(negative, zero - bits, bits)
    sign = tf.cast(negative, tf.uint64)
    digits, count = [], tf.ones_like(bits)
    for place in range(_DIGITS):  # from the last one
        if place:
            count += tf.cast(rest > 0, tf.uint64)
        digits.append(tf.math.floormod(rest, word(10)) + word(ord("0")))
        rest = tf.math.floordiv(rest, word(10))
    size = count + sign
    words = [sign * word(ord("-")), tf.zeros_like(bits), tf.zeros_like(bits)]
    ends = [tf.zeros_like(bits), tf.zeros_like(bits)]
    for place, digit in enumerate(digits):
        digit = tf.where(count > word(place), digit, zero)
        at = size - word(place + 1)  # from the first letter
        moved = bitwise.left_shift(digit, 8 * bitwise.bitwise_and(at, word(7)))
        for number in range(3):
            here = tf.equal(bitwise.right_shift(at, word(3)), word(number))
            words[number] = bitwise.bitwise_or(words[number], tf.where(here, moved, zero))
        if place < 16:
            moved = bitwise.left_shift(digit, word(8 * (7 - place % 8)))
            ends[place // 8] = bitwise.bitwise_or(ends[place // 8], moved)
    for number in range(2):
        here = negative & tf.equal(bitwise.right_shift(count, word(3)), word(number))
        moved = bitwise.left_shift(word(ord("-")), 8 * (word(7) - bitwise.bitwise_and(count, word(7))))
        ends[number] = bitwise.bitwise_or(ends[number], tf.where(here, moved, zero))
    return _Written(size, tuple(words), ends[0], ends[1])


def _fast(node: Any) -> Callable[[_Written], Any]:
    buckets = node.attr["num_buckets"].i
    return lambda text: remainder(_fingerprint(text), buckets)


def _fingerprint(text: _Written) -> Any:
    """FarmHash's Fingerprint64 of 1 to 20 letters. It turns bits down, by 64 less than here."""
    bitwise, size = tf.bitwise, text.size
    times = word(_K2) + 2 * size
    first, second, _ = text.words
    letters = [bitwise.bitwise_and(bitwise.right_shift(first, by), word(255)) for by in (word(0), 8 * (size // 2))]
    y, z = letters[0] + letters[1] * 256, size + bitwise.right_shift(text.last, word(56)) * 4
    to_3 = mixed(bitwise.bitwise_xor(y * word(_K2), z * word(_K0))) * word(_K2)
    half = bitwise.bitwise_and(first, word(0xFFFFFFFF))
    to_7 = _pair(size + half * 8, bitwise.right_shift(text.last, word(32)), times)
    a, b = first + word(_K2), text.last
    to_16 = _pair(turned(b, 27) * times + a, (turned(a, 39) + b) * times, times)
    a, b, c, d = first * word(_K1), second, text.last * times, text.before * word(_K2)
    to_32 = _pair(turned(a + b, 21) + turned(c, 34) + d, a + turned(b + word(_K2), 46) + c, times)
    longer = tf.where(size > word(16), to_32, to_16)
    return tf.where(size > word(7), longer, tf.where(size > word(3), to_7, to_3))


def _pair(u: Any, v: Any, times: Any) -> Any:
    xor = tf.bitwise.bitwise_xor
    return mixed(xor(v, mixed(xor(u, v) * times)) * times) * times


def _strong(node: Any) -> Callable[[_Written], Any]:
    buckets, key = node.attr["num_buckets"].i, [one % 2**64 for one in node.attr["key"].list.i]
    return lambda text: remainder(_siphash(text, (key[0], key[1])), buckets)


def _siphash(text: _Written, key: tuple[int, int]) -> Any:
    """SipHash-2-4 of at most 23 letters."""
    bitwise = tf.bitwise
    state = [tf.zeros_like(text.size) + word(one ^ key[at % 2]) for at, one in enumerate(_SIP)]
    whole = bitwise.right_shift(text.size, word(3))
    for number, letters in enumerate(text.words):
        last = tf.equal(whole, word(number))
        block = bitwise.bitwise_or(letters, tf.where(last, bitwise.left_shift(text.size, word(56)), word(0)))
        a, b, c, d = state
        made = _rounds([a, b, c, bitwise.bitwise_xor(d, block)], 2)
        made[0] = bitwise.bitwise_xor(made[0], block)
        there = whole >= word(number)
        state = [tf.where(there, new, old) for new, old in zip(made, state, strict=True)]
    state[2] = bitwise.bitwise_xor(state[2], word(255))
    a, b, c, d = _rounds(state, 4)
    return bitwise.bitwise_xor(bitwise.bitwise_xor(a, b), bitwise.bitwise_xor(c, d))


def _rounds(state: list[Any], count: int) -> list[Any]:
    xor = tf.bitwise.bitwise_xor
    a, b, c, d = state
    for _ in range(count):
        a, c = a + b, c + d
        b, d = xor(turned(b, 13), a), xor(turned(d, 16), c)
        a, c = turned(a, 32) + d, c + b
        b, d = xor(turned(b, 17), c), xor(turned(d, 21), a)
        c = turned(c, 32)
    return [a, b, c, d]


_HASHES: Mapping[str, Callable[[Any], Callable[[_Written], Any]]] = {
    "StringToHashBucketFast": _fast,
    "StringToHashBucketStrong": _strong,
}

HASHES = frozenset({"AsString", *_HASHES})
"""Ops that this module takes away. Each gives the same for the same inputs, and reaches nothing outside."""
