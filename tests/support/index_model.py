"""A small model, without TensorFlow, whose inputs are indices: one of each type, of which the function takes any number
of items and the library one or four.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, BoundState, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.config import ModelSpec, Source
from builder.config.tensor import INTEGERS, IndexRange, TensorSpec
from tests.support.instrumented import link
from tests.support.places import batch_of

PARTS = 4
SPEC = ModelSpec(Path("model.toml"), "rows", "1", Source("graph_def", Path("g.pb")), batches=(1, PARTS))
DTYPES = (*INTEGERS, "float32", "float64")
MOST = 9


def ranges_of(dtype: str) -> tuple[IndexRange, ...]:
    """Of three elements of each item the first and the last; the first also counts from the end if it has a sign."""
    return (IndexRange(0, 1, 3, 0 if dtype.startswith("u") else -10, MOST), IndexRange(2, 1, 3, 0, MOST - 4))


def program() -> Program:
    """``same`` is the input called int32."""
    specs = [TensorSpec(dtype, dtype, (1, 3), ranges=ranges_of(dtype)) for dtype in DTYPES]
    feeds = tuple(BoundPort(spec, Buffer("arena", 64 * at, spec.size)) for at, spec in enumerate(specs))
    source, same = feeds[DTYPES.index("int32")].buffer, Buffer("arena", 64 * len(feeds), 12)
    return Program(
        steps=(CopyStep("same", source, same, 4, (3,), (1,), (1,)),),
        feeds=feeds,
        fetches=(BoundPort(TensorSpec("same", "int32", (1, 3)), same),),
        weights=(Weight(0, bytes(12)),),
        arena_size=64 * (len(feeds) + 2),
        weights_size=64,
    )


def build(folder: Path) -> Path:
    """Its libmodel.so, in ``folder``."""
    batch = {SPEC.variants[1]: batch_of(program(), PARTS)}
    return link(emit_sources(program(), SPEC, X86_64, folder, others=batch), [], folder)


def build_with_state(folder: Path) -> Path:
    """The same for one item, and with a variable that keeps the last ``int32``."""
    plain = program()
    kept = BoundState(
        TensorSpec("kept", "int32", (1, 3)), 0, Buffer("arena", plain.arena_size - 64, 12), plain.feeds[4].buffer,
        Buffer("weights", 0, 12),
    )  # fmt: skip
    return link(emit_sources(replace(plain, states=(kept,)), replace(SPEC, batches=()), X86_64, folder), [], folder)
