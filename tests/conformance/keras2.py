"""Every layer class of Keras 2, in both kinds of files that Keras 2 wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from unittest import mock

from builder.base.tf import import_tensorflow
from builder.config import Source
from tests.conformance.case import Case
from tests.conformance.layers import LAYERS, LINE, PICTURE, PLANE, Config, make
from tests.support.keras2 import tf_keras

GROUP = "tf_keras.layers"

OWN: Mapping[str, Config] = {
    "LocallyConnected1D": ({"filters": 3, "kernel_size": 2}, [LINE]),
    "LocallyConnected2D": ({"filters": 3, "kernel_size": 2}, [PLANE]),
    "ThresholdedReLU": ({"theta": 0.5}, [LINE]),
    "RandomHeight": ({"factor": 0.2}, [PICTURE]),
    "RandomWidth": ({"factor": 0.2}, [PICTURE]),
}
"""Layers that Keras 3 does not have."""

CHANGED: Mapping[str, Config] = {
    "EinsumDense": ({"equation": "abc,cd->abd", "output_shape": (None, 6), "bias_axes": "d"}, [LINE]),
    "Discretization": ({"bin_boundaries": [-1.0, 0.0, 1.0]}, [(5,)]),
    "IntegerLookup": ({"vocabulary": [0, 1, 5]}, [(4,)]),
}
"""Layers that Keras 2 takes other arguments for."""


def configs() -> Mapping[str, Config]:
    """The layers of Keras 2, each with arguments and the shapes of its inputs."""
    keras = tf_keras()
    known: dict[str, Config] = {name: first for name, (first, *_) in LAYERS.items() if hasattr(keras.layers, name)}
    return dict(sorted((known | OWN | CHANGED).items()))


def cases() -> list[Case]:
    return [
        Case(GROUP, f"{name} {suffix}", partial(_save, name, config, suffix))
        for name, config in configs().items()
        for suffix in (".h5", ".keras")
    ]


def untried() -> Iterator[str]:
    """Layer classes of Keras 2 that none of the cases is of."""
    keras = tf_keras()
    tried = {getattr(keras.layers, name) for name in configs()}
    for name in dir(keras.layers):
        found = getattr(keras.layers, name)
        if isinstance(found, type) and issubclass(found, keras.layers.Layer) and found not in tried:
            yield name


def _save(name: str, config: Config, suffix: str, folder: Path, seed: int) -> Source:
    keras = tf_keras()
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    path = folder / f"model{suffix}"
    # SpectralNormalization asks for tf.keras, by which it means tf-keras.
    with mock.patch.object(import_tensorflow().keras.layers, "InputSpec", keras.layers.InputSpec):
        make(name, *config, keras).save(path)
    return Source("keras" if suffix == ".keras" else "h5", path, trust=suffix == ".h5")
