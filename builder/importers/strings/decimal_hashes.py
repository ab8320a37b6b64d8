"""Arithmetic hashes of integers in decimal form, as of ``tf.as_string``, for any shape: no string is made.

A number has at most 20 digits, so a few cases of the hashes are enough. handler/text/fingerprint.py has the hashes of
any string, with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from builder.base.tf import tf
from builder.importers.rewrites.bits import make_uint64, mix_bits, rotate_left

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_SIP = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_DIGITS = 19
"""The number of digits of the largest int64."""


class _DigitString(NamedTuple):
    """A decimal integer of ``size`` letters in uint64 words of eight; ``words``: the first 24 letters.

    The first letter is in the lowest bits, and 0 follows the last. ``last`` and ``before`` are the last eight letters
    and the eight before them, the last letter in the highest bits.
    """

    size: Any
    words: tuple[Any, ...]
    last: Any
    before: Any


def farmhash_numbers(x: Any) -> Any:
    """Return FarmHash's Fingerprint64, uint64, of the decimal form of int64."""
    text = _write_digits(x)
    bitwise, size = tf.bitwise, text.size
    times = make_uint64(_K2) + 2 * size
    first, second, _ = text.words
    letters = [
        bitwise.bitwise_and(bitwise.right_shift(first, by), make_uint64(255))
        for by in (make_uint64(0), 8 * (size // 2))
    ]
    y, z = letters[0] + letters[1] * 256, size + bitwise.right_shift(text.last, make_uint64(56)) * 4
    to_3 = mix_bits(bitwise.bitwise_xor(y * make_uint64(_K2), z * make_uint64(_K0))) * make_uint64(_K2)
    half = bitwise.bitwise_and(first, make_uint64(0xFFFFFFFF))
    to_7 = _hash_pair(size + half * 8, bitwise.right_shift(text.last, make_uint64(32)), times)
    a, b = first + make_uint64(_K2), text.last
    to_16 = _hash_pair(rotate_left(b, 27) * times + a, (rotate_left(a, 39) + b) * times, times)
    a, b, c, d = first * make_uint64(_K1), second, text.last * times, text.before * make_uint64(_K2)
    to_32 = _hash_pair(
        rotate_left(a + b, 21) + rotate_left(c, 34) + d, a + rotate_left(b + make_uint64(_K2), 46) + c, times
    )
    longer = tf.where(size > make_uint64(16), to_32, to_16)
    return tf.where(size > make_uint64(7), longer, tf.where(size > make_uint64(3), to_7, to_3))


def _write_digits(x: Any) -> _DigitString:
    """Return the decimal form of int64 of any shape."""
    bitwise, zero = tf.bitwise, make_uint64(0)
    negative, bits = x < 0, tf.bitcast(x, tf.uint64)
    rest = tf.where(negative, zero - bits, bits)
    sign = tf.cast(negative, tf.uint64)
    digits, count = [], tf.ones_like(bits)
    for place in range(_DIGITS):  # The last digit comes first.
        if place:
            count += tf.cast(rest > 0, tf.uint64)
        digits.append(tf.math.floormod(rest, make_uint64(10)) + make_uint64(ord("0")))
        rest = tf.math.floordiv(rest, make_uint64(10))
    size = count + sign
    words = [sign * make_uint64(ord("-")), tf.zeros_like(bits), tf.zeros_like(bits)]
    ends = [tf.zeros_like(bits), tf.zeros_like(bits)]
    for place, digit in enumerate(digits):
        digit = tf.where(count > make_uint64(place), digit, zero)
        at = size - make_uint64(place + 1)  # This index counts from the first letter.
        moved = bitwise.left_shift(digit, 8 * bitwise.bitwise_and(at, make_uint64(7)))
        for number in range(3):
            selected = tf.equal(bitwise.right_shift(at, make_uint64(3)), make_uint64(number))
            words[number] = bitwise.bitwise_or(words[number], tf.where(selected, moved, zero))
        if place < 16:
            moved = bitwise.left_shift(digit, make_uint64(8 * (7 - place % 8)))
            ends[place // 8] = bitwise.bitwise_or(ends[place // 8], moved)
    for number in range(2):
        selected = negative & tf.equal(bitwise.right_shift(count, make_uint64(3)), make_uint64(number))
        moved = bitwise.left_shift(
            make_uint64(ord("-")), 8 * (make_uint64(7) - bitwise.bitwise_and(count, make_uint64(7)))
        )
        ends[number] = bitwise.bitwise_or(ends[number], tf.where(selected, moved, zero))
    return _DigitString(size, tuple(words), ends[0], ends[1])


def _hash_pair(u: Any, v: Any, times: Any) -> Any:
    xor = tf.bitwise.bitwise_xor
    return mix_bits(xor(v, mix_bits(xor(u, v) * times)) * times) * times


def siphash_numbers(x: Any, key: Sequence[int]) -> Any:
    """Return SipHash-2-4, uint64, of the decimal form of int64, with a key of two words of 64 bits."""
    bitwise, text = tf.bitwise, _write_digits(x)
    state = [tf.zeros_like(text.size) + make_uint64(word ^ key[at % 2]) for at, word in enumerate(_SIP)]
    words = bitwise.right_shift(text.size, make_uint64(3))
    for number, letters in enumerate(text.words):
        last = tf.equal(words, make_uint64(number))
        block = bitwise.bitwise_or(
            letters, tf.where(last, bitwise.left_shift(text.size, make_uint64(56)), make_uint64(0))
        )
        a, b, c, d = state
        mixed = _run_rounds([a, b, c, bitwise.bitwise_xor(d, block)], 2)
        mixed[0] = bitwise.bitwise_xor(mixed[0], block)
        present = words >= make_uint64(number)
        state = [tf.where(present, new, old) for new, old in zip(mixed, state, strict=True)]
    state[2] = bitwise.bitwise_xor(state[2], make_uint64(255))
    a, b, c, d = _run_rounds(state, 4)
    return bitwise.bitwise_xor(bitwise.bitwise_xor(a, b), bitwise.bitwise_xor(c, d))


def _run_rounds(state: list[Any], count: int) -> list[Any]:
    xor = tf.bitwise.bitwise_xor
    a, b, c, d = state
    for _ in range(count):
        a, c = a + b, c + d
        b, d = xor(rotate_left(b, 13), a), xor(rotate_left(d, 16), c)
        a, c = rotate_left(a, 32) + d, c + b
        b, d = xor(rotate_left(b, 17), c), xor(rotate_left(d, 21), a)
        c = rotate_left(c, 32)
    return [a, b, c, d]
