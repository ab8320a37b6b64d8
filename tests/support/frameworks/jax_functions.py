"""Functions of JAX that StableHLO has under names of its own, and those of LAPACK, exported by JAX.

    python jax_functions.py FOLDER

writes ``FOLDER/functions.jax`` and ``algebra.jax``, each with an ``.npz`` of an input and what JAX answers to it, and
``calls.jax``, which calls what XLA does not have. It runs in the environment that coldforge makes for JAX.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.scipy import linalg, special
from jax.sharding import AxisType, NamedSharding, PartitionSpec

ONE_DEVICE = NamedSharding(jax.make_mesh((1,), ("d",), axis_types=(AxisType.Auto,)), PartitionSpec("d"))


def functions(x: Any) -> dict[str, Any]:
    x = lax.with_sharding_constraint(x, ONE_DEVICE)
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


def algebra(x: Any) -> dict[str, Any]:
    a = jnp.tanh(x) + 4 * jnp.eye(5)
    lower, upper = jnp.tril(a), jnp.triu(a)
    inside, _ = lax.scan(lambda carry, row: (carry + jnp.linalg.det(row), None), jnp.float32(0), a)
    return {
        "solved": jnp.linalg.solve(a, x[..., :2]),
        "inverse": jnp.linalg.inv(a),
        "inside": inside,
        "determinants": jnp.stack([jnp.linalg.det(a), jnp.linalg.slogdet(a)[1]]),
        "cholesky": jnp.linalg.cholesky(a @ a.mT, symmetrize_input=False),
        "lower": linalg.solve_triangular(lower, x, lower=True, unit_diagonal=True),
        "upper": linalg.solve_triangular(upper, x, trans=1),
        "right": lax.linalg.triangular_solve(upper, x, left_side=False),
        "pivots": linalg.lu_factor(x)[1],
    }


def main(folder: Path) -> None:
    random = np.random.default_rng(0)
    for function, shape in ((functions, (3, 13)), (algebra, (2, 5, 5))):
        name, x = function.__name__, random.standard_normal(shape).astype(np.float32)
        exported = export.export(jax.jit(function), platforms=["cpu"])(x)
        (folder / f"{name}.jax").write_bytes(exported.serialize())
        answers = jax.tree.leaves(jax.jit(function)(x))
        np.savez(folder / f"{name}.npz", feed_0=x, **{f"fetch_{i}": value for i, value in enumerate(answers)})
    calls = export.export(jax.jit(jnp.linalg.eigvalsh), platforms=["cpu"])(jax.ShapeDtypeStruct((4, 4), jnp.float32))
    (folder / "calls.jax").write_bytes(calls.serialize())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
