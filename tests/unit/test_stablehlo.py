"""The size of the constants in a StableHLO program, as JAX exports it (tests/data/README.md says of what)."""

from __future__ import annotations

import pytest

from builder.importers.stablehlo import constants_size
from tests.conftest import ROOT

MODULE = (ROOT / "tests" / "data" / "dense.stablehlo").read_bytes()
WEIGHTS = 4 * (16 * 24 + 24 * 5)


def test_the_constants_are_counted_and_little_else() -> None:
    assert WEIGHTS <= constants_size(MODULE) <= WEIGHTS + 400
    assert len(MODULE) > WEIGHTS + 1000  # the rest of the program is not


def test_every_section_is_found_by_the_lengths_before_it() -> None:
    """Twice the attributes, as a section of its own with a length of two bytes and an alignment of 8."""
    body = bytes(1000)
    more = bytes([2 | 0x80]) + (1000 << 2 | 2).to_bytes(2, "little") + bytes([8 << 1 | 1])
    padding = b"\xcb" * (-(len(MODULE) + len(more)) % 8)
    assert constants_size(MODULE + more + padding + body) == constants_size(MODULE) + 1000


@pytest.mark.parametrize("module", [b"", b"module {}", MODULE[:5], MODULE[:17], b"ML\xefR\x0dx\x00\x82\x03\x01"])
def test_what_is_no_bytecode_is_counted_whole(module: bytes) -> None:
    assert constants_size(module) == len(module)
