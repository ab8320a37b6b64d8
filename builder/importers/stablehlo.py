"""The constants inside a StableHLO program, which is what JAX puts into a SavedModel as one op, ``XlaCallModule``.

The program is MLIR bytecode (https://mlir.llvm.org/docs/BytecodeFormat/): a header, then sections, each with its number
and length. Every constant stands once, as plain bytes, among the attributes or the resources.
"""

from __future__ import annotations

MAGIC = b"ML\xefR"
ATTRIBUTES, RESOURCES = 2, 5
_ALIGNED = 0x80  # of a section's number: an alignment and padding follow its length


def constants_size(module: bytes) -> int:
    """Bytes of the constants of ``module``, the attribute of an ``XlaCallModule``.

    The other attributes are counted too, since only the program's dialect could tell them apart: a few hundred bytes.
    All of ``module`` is counted where it is no MLIR bytecode.
    """
    if not module.startswith(MAGIC):
        return len(module)
    try:
        _, at = _number(module, len(MAGIC))  # the format's version
        at = module.index(0, at) + 1  # the producer's name
        size = 0
        while at < len(module):
            section = module[at]
            length, at = _number(module, at + 1)
            if section & _ALIGNED:
                alignment, at = _number(module, at)
                at = -(-at // alignment) * alignment
            if section & ~_ALIGNED in (ATTRIBUTES, RESOURCES):
                size += length
            at += length
    except (IndexError, ValueError, ZeroDivisionError):
        return len(module)
    return size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends: zeros at the low end of its first byte say how many follow."""
    first = data[at]
    if first == 0:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    length = (first & -first).bit_length()
    return int.from_bytes(data[at : at + length], "little") >> length, at + length
