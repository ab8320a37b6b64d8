"""What a layer's kernel should give, in float64 NumPy, and strategies for what there may be after its sums."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.fused import Case

LIBRARY = "COLDFORGE_TEST_FUSED"
"""Names the library to test instead of a fresh build; set in the sanitized run."""

ACTIVATIONS = (
    "identity", "clamp", "sigmoid", "swish", "hard_sigmoid", "hard_swish", "gelu", "gelu_tanh", "tanh", "elu",
    "prelu",
)  # fmt: skip


def examples(count: int, sanitized: int | None = None) -> settings:
    """Try ``count`` examples, and fewer under the sanitizers, which are slow: a fifth, or ``sanitized``."""
    if LIBRARY in os.environ:
        count = count // 5 if sanitized is None else sanitized
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


def erf(x: Any) -> Any:
    return np.vectorize(math.erf)(x)


def activate(name: str, x: Any, low: float, high: float, slopes: Any = 0.0) -> Any:
    """In float64."""
    sigmoid = 1 / (1 + np.exp(-x))
    hard = np.clip(x + 3, 0, 6) / 6
    return {
        "identity": lambda: x,
        "clamp": lambda: np.clip(x, low, high),
        "sigmoid": lambda: sigmoid,
        "swish": lambda: x * sigmoid,
        "hard_sigmoid": lambda: hard,
        "hard_swish": lambda: x * hard,
        "gelu": lambda: 0.5 * x * (1 + erf(x / math.sqrt(2))),
        "gelu_tanh": lambda: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "tanh": lambda: np.tanh(x),
        "elu": lambda: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "prelu": lambda: np.where(x > 0, x, x * slopes),
    }[name]()


def convolve(x: Any, weights: Any, case: Case) -> Any:
    """The plain sums, in float64."""
    g = case.geometry
    top, left, bottom, right = case.padding
    x = np.pad(x.astype(np.float64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    (oh, ow), inner, outer = g.out_size, g.in_channels // g.groups, g.out_channels // g.groups
    out = np.zeros((g.batch, oh, ow, g.groups, outer))
    for i in range(g.kernel_size[0]):
        for j in range(g.kernel_size[1]):
            y0, x0 = i * g.dilation[0], j * g.dilation[1]
            y1, x1 = y0 + (oh - 1) * g.stride[0] + 1, x0 + (ow - 1) * g.stride[1] + 1
            part = x[:, y0 : y1 : g.stride[0], x0 : x1 : g.stride[1]].reshape(g.batch, oh, ow, g.groups, inner)
            tap = weights[i, j].astype(np.float64).reshape(inner, g.groups, outer)
            out += np.einsum("nhwgi,igo->nhwgo", part, tap)
    return out.reshape(g.batch, oh, ow, g.out_channels)


halos = st.tuples(*[st.integers(0, 2)] * 4)


@st.composite
def epilogues(draw: st.DrawFn) -> dict[str, Any]:
    activation = draw(st.sampled_from(ACTIVATIONS))
    residual = draw(st.sampled_from(["none", "none", "apart", "in_place"]))
    return {
        "activation": activation,
        "low": draw(st.sampled_from([0.0, -1.0])) if activation == "clamp" else -math.inf,
        "high": draw(st.sampled_from([6.0, math.inf])) if activation == "clamp" else math.inf,
        "residual": residual == "apart",
        "residual_in_place": residual == "in_place",
        "residual_share": draw(st.sampled_from([1.0, 0.4, 0.8])) if residual == "apart" else 1.0,
        "residual_scale": residual != "none" and draw(st.booleans()),
        **draw(st.sampled_from([{}, {"second": True}, {"finishes": True}])),
        "halo": draw(halos),
        "out_gap": draw(st.sampled_from([0, 0, 5, 16])),
        "seed": draw(st.integers(0, 1000)),
    }
