"""Hashes of bytes that TensorFlow's ops compute: FarmHash's Fingerprint64, and SipHash-2-4 with a key.

FarmHash: https://github.com/google/farmhash, whose fingerprints never change. SipHash: Aumasson and Bernstein, 2012.
"""

from __future__ import annotations

_WORD = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def compute_farmhash(data: bytes) -> int:
    """Return the hash behind ``tf.strings.to_hash_bucket_fast``, 0 to 2**64 - 1."""
    size = len(data)
    if size <= 16:
        return _hash_up_to_16(data, size)
    if size <= 32:
        return _hash_up_to_32(data, size)
    if size <= 64:
        return _hash_up_to_64(data, size)
    return _hash_over_64(data, size)


def compute_siphash(data: bytes, key: tuple[int, int]) -> int:
    """Return the hash behind ``tf.strings.to_hash_bucket_strong``, 0 to 2**64 - 1. ``key``: two 64-bit numbers."""
    k0, k1 = (half & _WORD for half in key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    whole = len(data) & ~7
    last = data[whole:].ljust(7, b"\0") + bytes([len(data) & 255])
    for at in range(0, whole + 8, 8):
        word = int.from_bytes(data[at : at + 8] if at < whole else last, "little")
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 255
    _sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_rounds(v: list[int], count: int) -> None:
    a, b, c, d = v
    for _ in range(count):
        a = (a + b) & _WORD
        b = (b << 13 & _WORD | b >> 51) ^ a
        a = a << 32 & _WORD | a >> 32
        c = (c + d) & _WORD
        d = (d << 16 & _WORD | d >> 48) ^ c
        a = (a + d) & _WORD
        d = (d << 21 & _WORD | d >> 43) ^ a
        c = (c + b) & _WORD
        b = (b << 17 & _WORD | b >> 47) ^ c
        c = c << 32 & _WORD | c >> 32
    v[:] = a, b, c, d


def _read_uint64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _read_uint32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _rotate_right(value: int, by: int) -> int:
    """Rotate the lowest 64 bits of ``value`` to the right."""
    value &= _WORD
    return value >> by | value << 64 - by & _WORD


def _mix_bits(value: int) -> int:
    value &= _WORD
    return value ^ value >> 47


def _hash_pair(u: int, v: int, times: int) -> int:
    a = _mix_bits((u ^ v) * times)
    return _mix_bits((v ^ a) * times) * times & _WORD


def _hash_up_to_16(data: bytes, size: int) -> int:
    times = _K2 + 2 * size
    if size >= 8:
        a, b = _read_uint64(data, 0) + _K2 & _WORD, _read_uint64(data, size - 8)
        return _hash_pair(
            _rotate_right(b, 37) * times + a & _WORD, (_rotate_right(a, 25) + b) * times & _WORD, times & _WORD
        )
    if size >= 4:
        return _hash_pair(size + (_read_uint32(data, 0) << 3), _read_uint32(data, size - 4), times & _WORD)
    if size:
        first, last = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
        return _mix_bits(first * _K2 & _WORD ^ last * _K0 & _WORD) * _K2 & _WORD
    return _K2


def _hash_up_to_32(data: bytes, size: int) -> int:
    times = _K2 + 2 * size & _WORD
    a, b = _read_uint64(data, 0) * _K1 & _WORD, _read_uint64(data, 8)
    c, d = _read_uint64(data, size - 8) * times & _WORD, _read_uint64(data, size - 16) * _K2
    return _hash_pair(
        _rotate_right(a + b, 43) + _rotate_right(c, 30) + d & _WORD, a + _rotate_right(b + _K2, 18) + c & _WORD, times
    )


def _hash_up_to_64(data: bytes, size: int) -> int:
    times = _K2 + 2 * size & _WORD
    a, b = _read_uint64(data, 0) * _K2 & _WORD, _read_uint64(data, 8)
    c, d = _read_uint64(data, size - 8) * times & _WORD, _read_uint64(data, size - 16) * _K2
    y = _rotate_right(a + b, 43) + _rotate_right(c, 30) + d & _WORD
    z = _hash_pair(y, a + _rotate_right(b + _K2, 18) + c & _WORD, times)
    e, f = _read_uint64(data, 16) * times & _WORD, _read_uint64(data, 24)
    g, h = (y + _read_uint64(data, size - 32)) * times & _WORD, (z + _read_uint64(data, size - 24)) * times
    return _hash_pair(
        _rotate_right(e + f, 43) + _rotate_right(g, 30) + h & _WORD, e + _rotate_right(f + a, 18) + g & _WORD, times
    )


def _hash_weakly(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_read_uint64(data, at + step) for step in (0, 8, 16, 24))
    a += w
    b = _rotate_right(b + a + z, 21)
    c = a
    a += x + y
    return a + z & _WORD, b + _rotate_right(a, 44) + c & _WORD


def _hash_over_64(data: bytes, size: int) -> int:
    x, y = 81 * _K2 + _read_uint64(data, 0) & _WORD, 81 * _K1 + 113 & _WORD
    z = _mix_bits(y * _K2 + 113) * _K2 & _WORD
    v, w = (0, 0), (0, 0)
    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        x = _rotate_right(x + y + v[0] + _read_uint64(data, at + 8), 37) * _K1
        y = _rotate_right(y + v[1] + _read_uint64(data, at + 48), 42) * _K1
        x = (x ^ w[1]) & _WORD
        y = y + v[0] + _read_uint64(data, at + 40) & _WORD
        z = _rotate_right(z + w[0], 33) * _K1 & _WORD
        v = _hash_weakly(data, at, v[1] * _K1, x + w[0])
        w = _hash_weakly(data, at + 32, z + w[1], y + _read_uint64(data, at + 16))
        z, x = x, z
    times, at = _K1 + ((z & 255) << 1), size - 64
    w = w[0] + (size - 1 & 63) & _WORD, w[1]
    v = v[0] + w[0] & _WORD, v[1]
    w = w[0] + v[0] & _WORD, w[1]
    x = _rotate_right(x + y + v[0] + _read_uint64(data, at + 8), 37) * times
    y = _rotate_right(y + v[1] + _read_uint64(data, at + 48), 42) * times
    x = (x ^ w[1] * 9) & _WORD
    y = y + v[0] * 9 + _read_uint64(data, at + 40) & _WORD
    z = _rotate_right(z + w[0], 33) * times & _WORD
    v = _hash_weakly(data, at, v[1] * times, x + w[0])
    w = _hash_weakly(data, at + 32, z + w[1], y + _read_uint64(data, at + 16))
    z, x = x, z
    left = _hash_pair(v[0], w[0], times) + _mix_bits(y) * _K0 + z & _WORD
    return _hash_pair(left, _hash_pair(v[1], w[1], times) + x & _WORD, times)
