"""Constants, version and calls of the StableHLO program of an ``XlaCallModule``, as in JAX's SavedModels.

The program is MLIR bytecode (https://mlir.llvm.org/docs/BytecodeFormat/): a header, then sections, each with its number
and length. Every constant is stored once, as plain bytes, among the attributes or the resources.
"""

from __future__ import annotations

import re

from builder.base.tf import import_tensorflow

MAGIC = b"ML\xefR"
ATTRIBUTES, RESOURCES = 2, 5
_ALIGNED = 0x80  # A flag of a section's number: an alignment and padding follow its length.


def constants_size(module: bytes) -> int:
    """Return the bytes of the constants of ``module``, the attribute of an ``XlaCallModule``.

    The other attributes (a few hundred bytes) are counted too, since only the program's dialect distinguishes them.
    All of ``module`` is counted if it is not MLIR bytecode.
    """
    if not module.startswith(MAGIC):
        return len(module)
    try:
        _, at = _read_varint(module, len(MAGIC))  # This skips the format's version.
        at = module.index(0, at) + 1  # This skips the producer's name.
        size = 0
        while at < len(module):
            section = module[at]
            length, at = _read_varint(module, at + 1)
            if section & _ALIGNED:
                alignment, at = _read_varint(module, at)
                at = -(-at // alignment) * alignment
            if section & ~_ALIGNED in (ATTRIBUTES, RESOURCES):
                size += length
            at += length
    except (IndexError, ValueError, ZeroDivisionError):
        return len(module)
    return size


STABLEHLO = "1.13.7"
"""TensorFlow's version of StableHLO; JAX's is newer and would write ops that TensorFlow does not know."""

_WRITTEN_FOR = re.compile(rb"ML\xefR.StableHLO_v(\d+\.\d+\.\d+)\0", re.DOTALL)


def unreadable_version(module: bytes) -> str | None:
    """Return the version of StableHLO that ``module`` was written for, if TensorFlow cannot read all of it."""
    written = _WRITTEN_FOR.match(module)
    version = written[1].decode() if written else STABLEHLO
    if _parse_version(version) <= _parse_version(STABLEHLO):
        return None
    import_tensorflow()
    from tensorflow.compiler.mlir.stablehlo import stablehlo

    try:
        stablehlo.deserialize_portable_artifact_str(module)
    except ValueError:
        return version
    return None


def _parse_version(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


INSIDE = {
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "shape_assertion", "mhlo.erf", "mhlo.tan", "mhlo.topk",
    "tf.call_tf_function",
}  # fmt: skip
"""External functions that a program may call, as XLA or the graph around it has them."""

_CALL = re.compile(r"\bcustom_call(_v1)?\b")
_TARGET = re.compile(
    r"""stablehlo\.custom_call\s+@(?:(?P<plain>[\w$.]+)|"(?P<quoted>(?:[^"\\]|\\.)*)")"""
    r"""|call_target_name\s*=\s*(?:\#vhlo\.string_v1<)?"(?P<attribute>(?:[^"\\]|\\.)*)"""
)


def foreign_calls(module: bytes) -> list[str]:
    """Return the functions that ``module`` calls and that neither it nor XLA has, as any of this process might run.

    They are read from the output of MLIR's own printer, which is uniform. A program that it rejects calls ``?``.
    """
    if module.startswith(MAGIC) and b"custom_call" not in module:  # Bytecode has the names of ops as plain text.
        return []
    import_tensorflow()
    from tensorflow.python._pywrap_mlir import ExperimentalRunPassPipeline

    try:
        text = ExperimentalRunPassPipeline(module, "", False)  # This parses and prints.
    except Exception:
        return ["?"]
    targets = [match["plain"] or match["quoted"] or match["attribute"] or "" for match in _TARGET.finditer(text)]
    hidden = ["?"] if len(_CALL.findall(text)) != len(targets) else []
    return sorted(set(targets) - INSIDE) + hidden


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number, whose first byte's trailing zeros count the bytes that follow; return it and its end."""
    first = data[at]
    if first == 0:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    length = (first & -first).bit_length()
    return int.from_bytes(data[at : at + length], "little") >> length, at + length
