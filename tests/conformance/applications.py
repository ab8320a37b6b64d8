"""Every architecture of keras.applications, at the size that it was published for, with seeded weights."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import keras
import numpy as np

from tests.conformance.case import Case, of_keras
from tests.support.zoo.case import stir

GROUP = "keras.applications"

SMALL = {
    *("DenseNet121", "EfficientNetB0", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small"),
    "NASNetMobile",
}
"""Those that are built in less than a minute on two processors."""

SIDE = 224
"""Pixels, where the network takes any size."""


def cases() -> list[Case]:
    return [of_keras(GROUP, name, partial(_make, name)) for name in sorted(dir(keras.applications)) if _is_one(name)]


def _is_one(name: str) -> bool:
    return name[0].isupper() and inspect.isfunction(getattr(keras.applications, name))


def _make(name: str) -> Any:
    """The network with random weights, ending in a softmax of scores that are neither all alike nor saturated."""
    constructor = partial(getattr(keras.applications, name), weights=None, **_options(name))
    network = constructor()
    if None in network.input_shape[1:]:
        network = constructor(input_shape=(SIDE, SIDE, 3))
    stir(network)
    pictures = np.random.default_rng(1).normal(size=(2, *network.input_shape[1:]))
    spread = float(np.std(network(pictures, training=False)))
    scores = keras.layers.Rescaling(1 / spread)(network.output)
    return keras.Model(network.inputs, keras.layers.Softmax()(scores))


def _options(name: str) -> dict[str, Any]:
    """Scores in the place of probabilities; pixels as they are, as far as the network leaves that to its caller."""
    known = inspect.signature(getattr(keras.applications, name)).parameters
    return {"classifier_activation": None} | (
        {"include_preprocessing": False} if "include_preprocessing" in known else {}
    )
