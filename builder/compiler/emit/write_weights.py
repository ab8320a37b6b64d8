"""The files of weights: weights.bin, a section of the library, or model.weights, a file of its own.

model.weights is little-endian: a header (``HEADER``), the SHA-256 of every ``CHUNK`` of weights in order, zeros up to a
multiple of ``PAGE``, the weights. Its digest ties it to the library that reads it. builder/runtime/abi/weights.c checks
the header; handler/weights.py also checks the weights.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import BinaryIO

from builder.base.cache import file_digest
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import ALIGNMENT
from builder.compiler.weights_file import Layout

MAGIC, FORMAT = b"CFWEIGHT", 1
HEADER = struct.Struct("<8sIIQ32sQ32s")
"""Magic, format, offset and bytes of the weights, layout, bytes of a chunk, SHA-256 of the chunks' list of hashes."""

PAGE = 4096
CHUNK = 8 << 20


def compute_weights_size(program: Program) -> int:
    """Compute the bytes of a program's weights, padded to the alignment; never 0."""
    return max(ALIGNMENT, program.weights_size)


def write_weights(program: Program, file: BinaryIO, start: int = 0) -> None:
    """Write the weights at offset ``start`` of ``file``, with zeros between them and after the last."""
    for weight in program.weights:
        file.seek(start + weight.offset)
        file.write(weight.data)
    file.truncate(start + compute_weights_size(program))


def write_weights_file(program: Program, layout: Layout, path: Path) -> None:
    """Write the file, with the same bytes for the same weights and layout."""
    count = -(-layout.size // CHUNK)
    start = -(-(HEADER.size + 32 * count) // PAGE) * PAGE
    with path.open("w+b") as file:
        write_weights(program, file, start)
        file.seek(start)
        hashes = b"".join(hashlib.sha256(file.read(CHUNK)).digest() for _ in range(count))
        list_hash = hashlib.sha256(hashes).digest()
        file.seek(0)
        file.write(HEADER.pack(MAGIC, FORMAT, start, layout.size, bytes.fromhex(layout.digest), CHUNK, list_hash))
        file.write(hashes)


_ELF = ('"a"', "%object", '\n    .section .note.GNU-stack,"",%progbits')
_WASM = ('"",@', "@object", "")


def format_weights_source(weights: Path, *, wasm: bool = False) -> str:
    """Format weights.S, which includes the file ``weights`` as a section that needs no relocation when it is loaded.

    The compiler caches objects by the text of their sources, so the text has to change with the weights.
    """
    flags, kind, end = _WASM if wasm else _ELF
    return f"""\
/* The weights, as they stand in {weights.name}: SHA-256 {file_digest(weights)}. */
    .section .rodata.cf_weights,{flags}
    .balign {ALIGNMENT}
    .globl cf_weights
    .hidden cf_weights
    .type cf_weights, {kind}
cf_weights:
    .incbin "{weights.name}"
.Lend:
    .size cf_weights, .Lend - cf_weights{end}
"""
