"""Loops found in a disassembly, and what llvm-mca says of one."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import cycles
from benchmarks.cycles import Loop, busiest_loops

MULTIPLY = "".join(f"      {16 + 4 * n:x}:      \tfmla\tv{n}.4s, v30.4s, v31.4s\n" for n in range(12))
DISASSEMBLY = f"""
tile.o:\tfile format elf64-littleaarch64

Disassembly of section .text:

0000000000000000 <tile>:
       0:      \tmov\tx8, xzr
       4:      \tfmla\tv0.4s, v1.4s, v2.4s
       8:      \tadd\tx8, x8, #0x1
       c:      \tcbnz\tx8, 0x4 <tile+0x4>
{MULTIPLY}      40:      \tsubs\tx1, x1, #0x1
      44:      \tb.ne\t0x10 <tile+0x10>
      48:      \tcmp\tx2, x3
      4c:      \tb.lt\t0x0 <tile>
      50:      \tret

0000000000000054 <copy>:
      54:      \tldr\tq0, [x0], #16
      58:      \tstr\tq0, [x1], #16
      5c:      \tb.ne\t0x54 <copy>
"""


def test_the_innermost_loop_that_multiplies_most() -> None:
    found = busiest_loops(DISASSEMBLY)
    assert set(found) == {"tile"}
    loop = found["tile"]
    assert len(loop.instructions) == 14
    assert loop.instructions[0] == "fmla v0.4s, v30.4s, v31.4s"
    assert loop.multiplies == {"fmla": 12}
    assert loop.products == 48


def test_bytes_are_more_products() -> None:
    assert Loop((), {"sdot": 24}).products == 384
    assert Loop((), {"smmla": 24}).products == 768


def test_cycles_are_those_of_the_multipliers() -> None:
    """N1 has two, V1 and V2 four."""
    if not any(shutil.which(f"llvm-mca{version}") for version in cycles.VERSIONS[:-1]):
        pytest.skip("there is no llvm-mca that knows these processors")
    loop = busiest_loops(DISASSEMBLY)["tile"]
    assert cycles.cycles(loop, "neoverse-n1") == pytest.approx(6, rel=0.05)
    assert cycles.cycles(loop, "neoverse-v1") == pytest.approx(4, rel=0.05)  # of latency: a sum is added to in each


def test_the_page_has_every_kernel() -> None:
    page = cycles.PAGE.read_text(encoding="utf-8")
    assert "No Graviton was timed" in page
    for kernel in cycles.KERNELS:
        assert f"| {kernel.what} " in page
