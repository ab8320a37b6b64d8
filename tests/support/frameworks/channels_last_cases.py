"""Functions of pictures with channels first, run as they are and with their convolutions channels last.

    python channels_last_cases.py

prints a line for each case that differs, and how many were run. It needs JAX: .venv-flax has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.channels_last import make_channels_last

RANDOM = np.random.default_rng(0)
FIRST = ("NCHW", "OIHW", "NCHW")


def weights(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def conv(x: Any, kernel: Any, stride: int = 1, padding: Any = "SAME", **options: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=FIRST, **options)


K = {shape: weights(*shape) for shape in ((8, 3, 3, 3), (8, 8, 3, 3), (8, 1, 3, 3), (8, 2, 3, 3), (3, 8, 2, 2))}
SCALE, SHIFT, FULL, SQUARE = weights(1, 8, 1, 1), weights(8), weights(1, 8, 12, 10), weights(8, 8)


def stem(x: Any) -> Any:
    return conv(x, K[8, 3, 3, 3])


def network(x: Any) -> Any:
    """What a residual network has: one picture comes in, one vector goes out."""
    y = jax.nn.relu(stem(x) * SCALE + SHIFT[None, :, None, None])
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])
    y = y + jax.nn.gelu(
        conv(jax.nn.relu(conv(y, K[8, 8, 3, 3])), K[8, 1, 3, 3], feature_group_count=8), approximate=False
    )
    y = y * jax.nn.sigmoid(y.mean((2, 3), keepdims=True))
    return y.mean((2, 3)).reshape(y.shape[0], 8)


def cases() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    yield "network", network
    yield "groups", lambda x: conv(stem(x), K[8, 2, 3, 3], 2, feature_group_count=4)
    yield "dilated", lambda x: conv(stem(x), K[8, 8, 3, 3], rhs_dilation=(2, 3))
    yield "transposed", lambda x: conv(stem(x), K[3, 8, 2, 2], padding=[(1, 1), (1, 0)], lhs_dilation=(2, 2))
    yield (
        "kernel_io",
        lambda x: lax.conv_general_dilated(
            stem(x), K[8, 8, 3, 3], (1, 1), "VALID", dimension_numbers=("NCHW", "IOHW", "NCHW")
        ),
    )
    yield "kernel_of_the_input", lambda x: conv(x, jnp.ones((8, 3, 3, 3)) * x[0, 0, 0, 0])
    yield "flattened", lambda x: stem(x).reshape(2, -1)
    yield "tokens", lambda x: stem(x).reshape(2, 8, 120).transpose(0, 2, 1) @ SQUARE
    yield "split_in_reshape", lambda x: stem(x).reshape(2, 4, 2, 12, 10).sum(2)
    yield "shuffled", lambda x: stem(x).reshape(2, 2, 4, 12, 10).transpose(0, 2, 1, 3, 4).reshape(2, 8, 12, 10)
    yield (
        "pixels_shuffled",
        lambda x: stem(x).reshape(2, 2, 2, 2, 12, 10).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 24, 20) + 1,
    )
    yield (
        "last_and_first",
        lambda x: jnp.tanh(stem(x).transpose(0, 2, 3, 1) @ SQUARE).transpose(0, 3, 1, 2) + stem(x),
    )
    yield "transposed_oddly", lambda x: stem(x).transpose(3, 1, 0, 2) * 2
    yield (
        "of_size_1",
        lambda x: stem(x)[:, :, :1, :1].reshape(2, 8) + stem(x).max((2, 3), keepdims=True).squeeze((2, 3)),
    )
    yield "pooled_to_1", lambda x: stem(x).mean((2, 3), keepdims=True).reshape(2, 8, 1, 1) * stem(x)
    yield "reduced_over_channels", lambda x: stem(x) - stem(x).mean(1, keepdims=True)
    yield "reduced_over_a_side", lambda x: stem(x).sum(2)
    yield "argmax", lambda x: jnp.argmax(stem(x), 1)
    yield "softmax", lambda x: jax.nn.softmax(stem(x), 1)
    yield "joined", lambda x: jnp.concatenate([x, stem(x), jnp.zeros((2, 1, 12, 10))], 1)
    yield "cut", lambda x: jnp.concatenate([part * (i + 1) for i, part in enumerate(jnp.split(stem(x), 4, 1))][::-1], 1)
    yield "sliced", lambda x: stem(x)[:, 1:7:2, ::3, 2:]
    yield "padded", lambda x: jnp.pad(stem(x), ((0, 0), (1, 0), (2, 3), (0, 1)), constant_values=3.0)
    yield "reflected", lambda x: jnp.pad(stem(x), ((0, 0), (0, 0), (2, 2), (1, 1)), mode="reflect")
    yield "average_pool", lambda x: lax.reduce_window(stem(x), 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") / 4
    yield "a_full_bias", lambda x: FULL + stem(x)
    yield "a_channel_less", lambda x: jnp.where(x[:, :1] > 0, stem(x), 0.0)
    yield "resized", lambda x: jax.image.resize(stem(x), (2, 8, 24, 20), "bilinear")
    yield "repeated", lambda x: jnp.repeat(jnp.repeat(stem(x), 2, 2), 2, 3)
    yield "looped", lambda x: lax.fori_loop(0, 3, lambda _, y: conv(y, K[8, 8, 3, 3]) * 0.1, stem(x))
    yield "both", lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, stem(x))
    yield "in_a_jit", lambda x: jax.jit(lambda y: (y * 2, conv(y, K[8, 8, 3, 3])))(stem(x))[1]
    yield "of_both_kinds", lambda x: stem(x).transpose(0, 2, 3, 1).transpose(0, 3, 1, 2) + stem(x).astype(jnp.float32)
    yield "gathered", lambda x: stem(x)[:, jnp.array([3, 1, 1])]


def transpositions(function: Callable[..., Any], x: Any) -> int:
    """How many there are of pictures that the input decides."""
    jaxpr = jax.make_jaxpr(function)(x).jaxpr
    return Counter(e.primitive.name for e in jaxpr.eqns if np.prod(e.outvars[0].aval.shape) >= x.size)["transpose"]


def main() -> None:
    x, run = weights(2, 3, 12, 10), 0
    for name, function in cases():
        several = lambda *feeds, function=function: [function(*feeds)]  # noqa: E731
        wanted = function(x)
        for how in (make_channels_last(several), jax.jit(make_channels_last(several))):
            (found,) = how(x)
            run += 1
            if found.shape != wanted.shape or found.dtype != wanted.dtype:
                print(f"{name}: {found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}")
            elif not np.allclose(found, wanted, rtol=1e-4, atol=1e-4):
                print(f"{name}: off by {np.abs(found - wanted).max()}")
    if (count := transpositions(make_channels_last(lambda x: [network(x)]), x)) != 1:
        print(f"network: transposed {count} times, not once as it comes in")
    print(f"{run} runs")


if __name__ == "__main__":
    main()
