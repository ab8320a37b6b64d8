"""The generated C, against files that a person has read. After a wanted change: UPDATE_GOLDEN=1 pytest ..."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.steps.base import walk_steps
from tests.support.every_step import EVERY_STEP, SPEC

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return emit_sources(EVERY_STEP, SPEC, X86_64, tmp_path).folder


@pytest.mark.parametrize("name", ["program.c", "model.h", "weights.S", "model.json"])
def test_generated_files_are_as_read(sources: Path, name: str) -> None:
    generated = (sources / name).read_text()
    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / name).write_text(generated)
    assert generated == (GOLDEN / name).read_text()


def test_weights_stand_at_their_offsets(sources: Path) -> None:
    data = (sources / "weights.bin").read_bytes()
    assert data == bytes(range(16)) + bytes(48) + b"\x01\x00\x01" + bytes(61)


def test_walk_finds_nested_steps() -> None:
    names = [s.name for s in walk_steps(EVERY_STEP.steps)]
    assert names.count("add.1") == 6
    assert "call.13" in names
