"""A real library whose weights are a file: it answers x + w, and with w itself."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from builder.base.targets import X86_64
from builder.compiler.emit import GeneratedSources, emit_sources
from builder.compiler.link.shared_library import SharedLibrary
from builder.compiler.lower.program import BoundPort, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.config import ModelSpec, Source, Weights
from builder.config.tensor import TensorSpec
from tests.support.instrumented import link

ITEMS = 5000
SPEC = ModelSpec(Path("model.toml"), "outside", "1", Source("graph_def", Path("g.pb")), weights=Weights(place="layer"))


def program(seed: int = 0, items: int = ITEMS) -> Program:
    """Copies its weights (``values`` of the seed) to the fetch ``copied``, and has them as the fetch ``bound``."""
    size = 4 * items
    shape = TensorSpec("copied", "float32", (1, items))
    return Program(
        steps=(CopyStep("copy", Buffer("weights", 0, size), Buffer("arena", 64, size), 4, (items,), (1,), (1,)),),
        feeds=(BoundPort(TensorSpec("x", "float32", (1, 1)), Buffer("arena", 0, 4)),),
        fetches=(
            BoundPort(shape, Buffer("arena", 64, size)),
            BoundPort(replace(shape, name="bound"), Buffer("weights", 0, size)),
        ),
        weights=(Weight(0, values(seed, items).tobytes()),),
        arena_size=64 + size,
        weights_size=size,
    )


def values(seed: int, items: int = ITEMS) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(items).astype(np.float32)


def build(
    folder: Path, seed: int = 0, items: int = ITEMS, spec: ModelSpec = SPEC
) -> tuple[SharedLibrary, GeneratedSources]:
    """The library in ``folder``, model.weights beside it, and what it was made of."""
    made = folder / "sources"
    made.mkdir(parents=True)
    (made / "none.c").write_text("typedef int none;\n")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.34", "-c", "none.c"]
    subprocess.run(command, cwd=made, check=True)
    sources = emit_sources(program(seed, items), spec, X86_64, made, kernels=[made / "none.o"])
    link(sources, [made / "none.o"], folder)
    return SharedLibrary(folder, X86_64), sources
