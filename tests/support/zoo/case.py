"""What a zoo case is, and the registry the modules of this package fill."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from builder.config.tensor import TensorSpec

Array = npt.NDArray[Any]
Function = Callable[..., Any]

CASES: list[Case] = []
REFUSED: list[Case] = []


@dataclass(frozen=True)
class Case:
    """A small graph: ``build()`` gives a function of the feeds, in order, that returns its fetches.

    ``ranges`` bounds a feed's values to [low, high); others are drawn as ``sample`` says. ``random``
    graphs answer differently every time: only shapes, dtypes and ranges can be compared. ``big`` ones
    take seconds to build or compile. ``covers`` names what the case is here for: a thunk kind of XLA, or
    a trap. ``refused_op`` is the op that a refused case must be refused for.
    """

    name: str
    build: Callable[[], Function]
    feeds: tuple[TensorSpec, ...]
    absolute: float = 1e-5
    relative: float = 1e-4
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    random: bool = False
    big: bool = False
    covers: tuple[str, ...] = ()
    refused_op: str | None = None

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())

    def trace(self) -> Any:
        """A concrete function with static shapes, weights seeded by the case's name."""
        keras.utils.clear_session()  # layer names count up from the start: the same graph in any order
        keras.utils.set_random_seed(self.seed)
        signature = [tf.TensorSpec(feed.shape, feed.dtype, name=feed.name) for feed in self.feeds]
        return tf.function(self.build(), autograph=False).get_concrete_function(*signature)

    def sample(self, index: int = 0) -> dict[str, Array]:
        """Seeded values for every feed: normal floats, integers in [0, 100), fair booleans."""
        rng = np.random.default_rng([self.seed, index])
        return {feed.name: self._draw(rng, feed) for feed in self.feeds}

    def _draw(self, rng: np.random.Generator, feed: TensorSpec) -> Array:
        dtype = np.dtype(feed.dtype)
        if dtype.kind == "b":
            return rng.integers(0, 2, feed.shape).astype(dtype)
        if dtype.kind in "iu":
            low, high = self.ranges.get(feed.name, (0, 100))
            return rng.integers(int(low), int(high), feed.shape).astype(dtype)
        if feed.name in self.ranges:
            return rng.uniform(*self.ranges[feed.name], feed.shape).astype(dtype)
        return rng.normal(size=feed.shape).astype(dtype)


def case(*feeds: TensorSpec, **options: Any) -> Callable[[Callable[[], Function]], Callable[[], Function]]:
    """Register the decorated builder under its own name."""

    def register(build: Callable[[], Function]) -> Callable[[], Function]:
        if build.__name__ in {case.name for case in CASES}:
            raise ValueError(f"two cases are called {build.__name__}")  # the second would answer for the first
        CASES.append(Case(build.__name__, build, feeds, **options))
        return build

    return register


def refused(op: str, *feeds: TensorSpec, **options: Any) -> Callable[[Callable[[], Function]], Callable[[], Function]]:
    """Register a builder whose graph must be refused, naming ``op``."""

    def register(build: Callable[[], Function]) -> Callable[[], Function]:
        REFUSED.append(Case(build.__name__, build, feeds, refused_op=op, **options))
        return build

    return register


def f32(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "float32", shape)


def f64(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "float64", shape)


def i32(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "int32", shape)


def i64(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "int64", shape)


def u8(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "uint8", shape)


def boolean(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "bool", shape)


def weights(*shape: int, dtype: str = "float32", scale: float | None = None, seed: int = 0) -> Any:
    """A seeded constant, scaled so that a product with it keeps its input's size."""
    spread = (int(np.prod(shape[:-1])) or 1) ** -0.5 if scale is None else scale
    values = np.random.default_rng([seed, *shape]).normal(0, spread, shape)
    return tf.constant(values.astype(dtype))


def model(inputs: Any, outputs: Any) -> Function:
    """A Keras graph of layers as a function, with no weight left at a value that hides mistakes."""
    network = keras.Model(inputs, outputs)
    stir(network)
    return lambda *feeds: network(list(feeds) if len(feeds) > 1 else feeds[0], training=False)


_MOST_NUMBERS = 8 * 224 * 224 * 3
"""Of an input that BatchNorm's statistics come from."""


def stir(network: keras.Model) -> None:
    """Random biases, scales and shifts; BatchNorm statistics of seeded inputs.

    Left as Keras initialises them, BatchNorm folds to one scalar, biases vanish and some networks answer
    the same whatever goes in.
    """
    rng = np.random.default_rng(network.count_params())
    for variable in network.weights:
        kind, shape = variable.path.rsplit("/", 1)[-1], variable.shape
        if "layer_scale" in variable.path:
            variable.assign(rng.uniform(0.2, 0.6, shape))
        elif kind == "gamma":
            variable.assign(rng.uniform(0.6, 1.4, shape))
        elif kind in ("beta", "bias"):
            variable.assign(rng.normal(0, 0.2, shape))
        elif "kernel" in kind:
            variable.assign(rng.standard_normal(shape, np.float32) * _spread(variable.path, shape))
    norms = [layer for layer in _layers(network) if isinstance(layer, keras.layers.BatchNormalization)]
    if not norms:
        return
    for layer in norms:
        layer.momentum = 0.0  # one pass in training mode leaves exactly this batch's statistics
    # Keras keeps what every layer gives: of large pictures there are fewer.
    items = max(2, min(8, _MOST_NUMBERS // max(math.prod(tensor.shape[1:]) for tensor in network.inputs)))
    feeds = [rng.normal(size=(items, *tensor.shape[1:])).astype("float32") for tensor in network.inputs]
    network(feeds if len(feeds) > 1 else feeds[0], training=True)


def _layers(network: keras.Model) -> list[Any]:
    return [layer for layer in network._flatten_layers() if layer is not network]


def _spread(path: str, shape: tuple[int, ...]) -> np.float32:
    depthwise = "depthwise" in path or "dwconv" in path
    fan_in = int(np.prod(shape[:2] if depthwise and len(shape) == 4 else shape[:-1])) or 1
    return np.float32((1.7 / fan_in) ** 0.5)
