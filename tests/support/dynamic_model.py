"""A small model, without TensorFlow, whose callers say how large its answers are: they are what they give it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.emit.metadata import format_model_json
from builder.compiler.lower.program import BoundPort, BoundState, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from tests.support.instrumented import link

SPEC = ModelSpec(Path("model.toml"), "rows", "1", Source("graph_def", Path("g.pb")))
ROWS = TensorSpec("rows", "int16", (3, 2), (0,))
FLAGS = TensorSpec("flags", "bool", (2, 2), (0, 1))
X = np.arange(1, 7, dtype=np.int16)


def program() -> Program:
    """``rows`` and ``flags`` are ``x`` and ``m``, as large as the other feeds say; the state is the last ``m``."""
    specs = [
        TensorSpec("x", "int16", (6,)), TensorSpec("m", "bool", (4,)),
        TensorSpec("n", "int32", (2,)), TensorSpec("k", "int32", (2,)),
    ]  # fmt: skip
    x, m, n, k, kept = (Buffer("arena", 64 * number, size) for number, size in enumerate((12, 4, 8, 8, 4)))
    rows, flags = Buffer("arena", 320, 12), Buffer("arena", 384, 4)
    fetches = [(ROWS, rows), (TensorSpec("rows_shape", "int32", (2,)), n)]
    fetches += [(FLAGS, flags), (TensorSpec("flags_shape", "int32", (2,)), k)]
    return Program(
        steps=(
            CopyStep("rows", x, rows, 2, (6,), (1,), (1,)),
            CopyStep("flags", m, flags, 1, (4,), (1,), (1,)),
        ),
        feeds=tuple(BoundPort(spec, buffer) for spec, buffer in zip(specs, (x, m, n, k), strict=True)),
        fetches=tuple(BoundPort(spec, buffer) for spec, buffer in fetches),
        weights=(Weight(0, bytes(4)),),
        arena_size=448,
        weights_size=64,
        states=(BoundState(TensorSpec("kept", "bool", (4,)), 0, kept, m, Buffer("weights", 0, 4)),),
    )


def description() -> dict[str, Any]:
    """What its library says of itself."""
    found: dict[str, Any] = json.loads(format_model_json(program(), SPEC, {X86_64.name: ["x86-64-v3"]}))
    return found


def build(folder: Path) -> Path:
    """Its libmodel.so, in ``folder``, with model.json and model.h beside it."""
    return link(emit_sources(program(), SPEC, X86_64, folder), [], folder)
