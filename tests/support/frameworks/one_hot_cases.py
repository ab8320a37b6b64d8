"""Functions of JAX whose inputs are one-hot encoded, or not; prints those for which another number of symbols is found.

It runs in the environment of JAX's or ONNX's models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.jax_program import make_program
from builder.importers.ports import ModelPorts, PortInfo

PORTS = ModelPorts(
    (PortInfo("ids", "int32", (2, 3)), PortInfo("x", "float32", (2,))), (PortInfo("y", "float32", None),)
)
NUMBERS, SHUFFLED = np.arange(300), np.array([3, 1, 0, 2])
CASES: dict[str, tuple[Callable[[Any], Any], int | None]] = {
    "one_hot": (lambda ids: jax.nn.one_hot(ids, 10), 10),
    "a large constant, which becomes a weight": (lambda ids: ids.T[:, :, None] == NUMBERS[None, None], 300),
    "on the left, in another order and type": (lambda ids: ids.astype(np.int64)[..., None] == SHUFFLED, 4),
    "the smaller of two": (lambda ids: (ids[..., None] == NUMBERS).sum() + jax.nn.one_hot(ids, 7).sum(), 7),
    "a gap": (lambda ids: ids[..., None] == np.array([0, 2, 3]), None),
    "a calculated number": (lambda ids: jax.nn.one_hot(ids + 1, 10), None),
    "one number": (lambda ids: ids == 0, None),
    "another comparison": (lambda ids: ids[..., None] < NUMBERS, None),
}

if __name__ == "__main__":
    for name, (function, expected) in CASES.items():
        program = make_program(lambda ids, x, f=function: [jnp.sum(f(ids)) + x], PORTS, {"ids": (2, 3), "x": (2,)}, {})
        if program.symbols != ({"ids": expected} if expected else {}):
            print(f"{name}: {program.symbols}")
    print(f"{len(CASES)} run")
