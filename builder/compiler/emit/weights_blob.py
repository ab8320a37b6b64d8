"""weights.bin: every constant, 64-byte aligned, mapped read-only as one section of the library."""

from __future__ import annotations

from pathlib import Path

from builder.base.cache import file_digest
from builder.compiler.lower.steps.base import ALIGNMENT

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
