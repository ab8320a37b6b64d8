"""weights.bin: every constant, 64-byte aligned, mapped read-only as one section of the library."""

from __future__ import annotations

from pathlib import Path

from builder.lower.program import ALIGNMENT, Program

ASSEMBLY = f"""\
/* The weights, as they stand in weights.bin: nothing to parse, copy or relocate at load. */
    .section .rodata.cf_weights,"a"
    .balign {ALIGNMENT}
    .globl cf_weights
    .hidden cf_weights
    .type cf_weights, %object
cf_weights:
    .incbin "weights.bin"
    .size cf_weights, . - cf_weights
    .section .note.GNU-stack,"",%progbits
"""


def write_weights(program: Program, path: Path) -> None:
    """Write the weights to ``path``, padded with zeros to the alignment; never empty."""
    with path.open("wb") as file:
        for weight in program.weights:
            file.seek(weight.offset)
            file.write(weight.data)
        file.truncate(max(ALIGNMENT, program.weights_size))
