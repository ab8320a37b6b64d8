"""Functions of JAX that StableHLO has under names of its own, exported by JAX.

    python jax_functions.py FOLDER

writes ``FOLDER/functions.jax``, and ``functions.npz`` with an input and what JAX answers to it. It runs in the
environment that coldforge makes for JAX.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.scipy import special


def functions(x: Any) -> dict[str, Any]:
    small = jnp.tanh(x)
    values, places = lax.top_k(x, 3)
    last, _ = lax.scan(lambda carry, row: (special.erf(carry + row), None), jnp.zeros(x.shape[1:]), x)  # inside a loop
    return {
        "values": values,
        "places": places,
        "gelu": x * 0.5 * (1 + special.erf(x / np.float32(2**0.5))),
        "hyperbolic": jnp.stack([jnp.sinh(x), jnp.cosh(x), jnp.arcsinh(x), jnp.arccosh(x * x + 1), jnp.arctanh(small)]),
        "angles": jnp.stack([jnp.arcsin(small), jnp.arccos(small)]),
        "last": last,
    }


def main(folder: Path) -> None:
    function = jax.jit(functions)
    exported = export.export(function, platforms=["cpu"])(jax.ShapeDtypeStruct((3, 13), jnp.float32))
    (folder / "functions.jax").write_bytes(exported.serialize())
    x = np.random.default_rng(0).standard_normal((3, 13)).astype(np.float32)
    answers = jax.tree.leaves(function(x))
    np.savez(folder / "functions.npz", feed_0=x, **{f"fetch_{i}": value for i, value in enumerate(answers)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
