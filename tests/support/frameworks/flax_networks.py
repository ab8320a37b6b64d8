"""Small networks of Flax NNX's usual layers, each exported by JAX.

    python flax_networks.py FOLDER

writes ``FOLDER/<name>.jax`` for each, and ``<name>.npz`` with inputs and what JAX answers to them. It runs in
.venv-flax.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import export


class Dense(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.second = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 5, rngs=rngs)
        self.norm = nnx.LayerNorm(32, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return nnx.softmax(self.second(self.norm(nnx.gelu(self.first(x)))))


class Pictures(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(3, 16, (3, 3), rngs=rngs)
        self.depthwise = nnx.Conv(16, 16, (3, 3), strides=2, feature_group_count=16, rngs=rngs)
        self.transposed = nnx.ConvTranspose(16, 8, (2, 2), strides=(2, 2), rngs=rngs)
        self.norm, self.group = nnx.BatchNorm(16, rngs=rngs), nnx.GroupNorm(8, num_groups=4, rngs=rngs)
        self.last = nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.max_pool(nnx.relu(self.norm(self.first(x))), (2, 2), (2, 2))
        x = nnx.relu(self.group(self.transposed(nnx.silu(self.depthwise(x)))))
        return {"scores": self.last(nnx.avg_pool(x, (4, 4), (4, 4)).mean((1, 2))), "features": x}


class Attention(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.table = nnx.Embed(50, 16, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, 16, decode=False, rngs=rngs)
        self.norm, self.last = nnx.RMSNorm(16, rngs=rngs), nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, tokens: Any, mask: Any) -> Any:
        x = self.table(tokens)
        x = self.norm(x + self.attention(x, mask=mask[:, None, None, :] > 0))
        return self.last(x.mean(1))


class Recurrent(nnx.Module):
    def __init__(self, cell: Callable[..., Any], rngs: nnx.Rngs) -> None:
        self.cell, self.last = cell(6, 12, rngs=rngs), nnx.Linear(12, 2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        zeros = jnp.zeros((x.shape[0], 12))
        first = (zeros, zeros) if isinstance(self.cell, nnx.OptimizedLSTMCell) else zeros
        _, steps = jax.lax.scan(lambda state, step: self.cell(state, step), first, x.swapaxes(0, 1))
        return self.last(steps[-1])


def networks() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Each network's name, itself, and what it takes; ``b`` is an open batch."""

    def floats(*shape: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    (b,) = export.symbolic_shape("b")
    tokens = jax.ShapeDtypeStruct((2, 9), jnp.int32)
    yield "dense", Dense(nnx.Rngs(0)), (floats(b, 16),)
    yield "pictures", Pictures(nnx.Rngs(1)), (floats(1, 16, 16, 3),)
    yield "attention", Attention(nnx.Rngs(2)), (tokens, floats(2, 9))
    yield "lstm", Recurrent(nnx.OptimizedLSTMCell, nnx.Rngs(3)), (floats(1, 7, 6),)
    yield "gru", Recurrent(nnx.GRUCell, nnx.Rngs(4)), (floats(1, 7, 6),)


def vary(network: Any) -> Any:
    """Give every weight and statistic a value that matters: fresh ones leave norms and biases trivial."""
    random = np.random.default_rng(0)

    def varied(value: Any) -> Any:
        if not jnp.issubdtype(value.dtype, jnp.floating):
            return value
        return value + 0.1 * np.abs(random.standard_normal(value.shape)).astype(value.dtype)

    nnx.update(network, jax.tree.map(varied, nnx.state(network, (nnx.Param, nnx.BatchStat))))
    network.eval()
    return network


def sample(takes: jax.ShapeDtypeStruct) -> Any:
    """An input; an open batch is 1."""
    shape = [size if isinstance(size, int) else 1 for size in takes.shape]
    random = np.random.default_rng(1)
    if takes.dtype == jnp.int32:
        return random.integers(0, 50, shape, np.int32)
    return random.standard_normal(shape).astype(np.float32)


def main(folder: Path) -> None:
    for name, network, takes in networks():
        graph, state = nnx.split(vary(network))

        def run(*feeds: Any, graph: Any = graph, state: Any = state) -> Any:
            return nnx.merge(graph, state)(*feeds)

        exported = export.export(jax.jit(run), platforms=["cpu"])(*takes)
        (folder / f"{name}.jax").write_bytes(exported.serialize())
        feeds = [sample(one) for one in takes]
        answers = jax.tree.leaves(run(*feeds))
        arrays = {f"feed_{i}": value for i, value in enumerate(feeds)}
        np.savez(folder / f"{name}.npz", **arrays, **{f"fetch_{i}": value for i, value in enumerate(answers)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
