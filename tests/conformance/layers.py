"""Every layer class of Keras that a trained model may hold, in two configurations each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from tests.conformance.case import Case, of_keras

GROUP = "keras.layers"

Shape = tuple[int, ...]
Config = tuple[Mapping[str, Any], Sequence[Shape]]
"""The arguments of a layer, and the shapes of its inputs, without the batch."""

LINE, PLANE, ROOM = (12, 4), (9, 11, 4), (6, 7, 8, 3)
"""Sequences, pictures and volumes, channels last."""

PICTURE = (16, 18, 3)


def _each(names: str, *configs: Config) -> dict[str, Sequence[Config]]:
    return dict.fromkeys(names.split(), configs)


def _sizes(
    name: str, shapes: Sequence[Shape], *configs: Mapping[str, Any], steps: int | None = None
) -> dict[str, Sequence[Config]]:
    """A layer that Keras has for one, two and three dimensions. ``steps``: of a sequence of what has the shape."""
    before = () if steps is None else (steps,)
    return {f"{name}{len(shape) - 1}D": [(config, [(*before, *shape)]) for config in configs] for shape in shapes}


ALL = (LINE, PLANE, ROOM)

TRANSPOSED = ({"filters": 5, "kernel_size": 3}, {"filters": 3, "kernel_size": 4, "strides": 2, "padding": "same"})

LAYERS: Mapping[str, Sequence[Config]] = {
    "Activation": [({"activation": "gelu"}, [LINE]), ({"activation": "softplus"}, [PLANE])],
    **_each("ActivityRegularization Identity", ({}, [LINE]), ({}, [PLANE])),
    **_each("AlphaDropout Dropout GaussianDropout", ({"rate": 0.5}, [LINE]), ({"rate": 0.1}, [PLANE])),
    "GaussianNoise": [({"stddev": 0.5}, [LINE]), ({"stddev": 0.1}, [PLANE])],
    **_sizes("SpatialDropout", ALL, {"rate": 0.5}, {"rate": 0.1}),
    **_sizes("AdaptiveAveragePooling", ALL, {"output_size": 2}, {"output_size": 3}),
    **_sizes("AdaptiveMaxPooling", ALL, {"output_size": 2}, {"output_size": 3}),
    **_sizes("AveragePooling", ALL, {"pool_size": 2}, {"pool_size": 3, "strides": 2, "padding": "same"}),
    **_sizes("MaxPooling", ALL, {"pool_size": 2}, {"pool_size": 3, "strides": 2, "padding": "same"}),
    **_sizes("GlobalAveragePooling", ALL, {}, {"keepdims": True}),
    **_sizes("GlobalMaxPooling", ALL, {}, {"keepdims": True}),
    **_sizes(
        "Conv",
        (LINE, PLANE),
        {"filters": 4, "kernel_size": 2, "strides": 2, "padding": "same", "activation": "relu"},
        {"filters": 8, "kernel_size": 3, "groups": 2, "padding": "same", "dilation_rate": 2},
    ),
    **_sizes(
        "Conv",
        (ROOM,),
        {"filters": 6, "kernel_size": 3},
        {"filters": 4, "kernel_size": 2, "strides": 2, "padding": "same"},
    ),
    **_sizes(
        "DepthwiseConv",
        (LINE, PLANE),
        {"kernel_size": 3},
        {"kernel_size": 3, "depth_multiplier": 2, "dilation_rate": 2, "padding": "same"},
    ),
    **_sizes(
        "SeparableConv",
        (LINE, PLANE),
        {"filters": 6, "kernel_size": 3},
        {"filters": 5, "kernel_size": 3, "strides": 2, "padding": "same"},
    ),
    **{
        f"{name}Transpose": [(config, shapes) for config, (_, shapes) in zip(TRANSPOSED, configs, strict=True)]
        for name, configs in _sizes("Conv", ALL, {}, {}).items()
    },
    **_sizes(
        "ConvLSTM",
        ((8, 2), (6, 7, 2), (4, 5, 6, 2)),
        {"filters": 3, "kernel_size": 3},
        {"filters": 2, "kernel_size": 2, "return_sequences": True, "padding": "same"},
        steps=3,
    ),
    **_sizes("Cropping", ALL, {"cropping": 1}, {"cropping": 2}),
    **_sizes("ZeroPadding", ALL, {"padding": 1}, {"padding": 2}),
    **_sizes("UpSampling", (LINE, ROOM), {"size": 2}, {"size": 3}),
    "UpSampling2D": [({"size": 2}, [PLANE]), ({"size": (2, 3), "interpolation": "bicubic"}, [PLANE])],
    **_each("Add Average Maximum Minimum Multiply", ({}, [LINE, LINE]), ({}, [PLANE, (1, 11, 4), PLANE])),
    "Subtract": [({}, [LINE, LINE]), ({}, [PLANE, (1, 11, 4)])],
    "Concatenate": [({}, [LINE, LINE]), ({"axis": 1}, [PLANE, PLANE])],
    "Dot": [({"axes": 1}, [LINE, LINE]), ({"axes": 2, "normalize": True}, [LINE, LINE])],
    **_each("Attention AdditiveAttention", ({}, [(5, 8), (7, 8)]), ({"use_scale": True}, [(6, 4), (6, 4)])),
    "MultiHeadAttention": [
        ({"num_heads": 2, "key_dim": 4}, [(5, 8), (7, 8)]),
        ({"num_heads": 3, "key_dim": 2, "value_dim": 5, "use_bias": False}, [LINE, LINE]),
    ],
    "GroupQueryAttention": [
        ({"head_dim": 4, "num_query_heads": 4, "num_key_value_heads": 2}, [(5, 8), (7, 8)]),
        ({"head_dim": 2, "num_query_heads": 6, "num_key_value_heads": 3, "use_bias": False}, [LINE, LINE]),
    ],
    **_each("BatchNormalization LayerNormalization RMSNormalization UnitNormalization", ({}, [LINE]), ({}, [PLANE])),
    "GroupNormalization": [({"groups": 2}, [PLANE]), ({"groups": -1}, [LINE])],
    "SpectralNormalization": [({"layer": "Dense"}, [(7,)]), ({"layer": "Conv2D"}, [PLANE])],
    "Dense": [({"units": 5}, [(7,)]), ({"units": 9, "activation": "softmax", "use_bias": False}, [LINE])],
    "EinsumDense": [
        ({"equation": "abc,cd->abd", "output_shape": (None, 6), "bias_axes": "d"}, [LINE]),
        ({"equation": "ab,bc->ac", "output_shape": 5}, [(7,)]),
    ],
    "Embedding": [
        ({"input_dim": 20, "output_dim": 6}, [(5,)]),
        ({"input_dim": 2, "output_dim": 3, "mask_zero": True}, [(4,)]),
    ],
    "ReversibleEmbedding": [
        ({"input_dim": 20, "output_dim": 6}, [(5,)]),
        ({"input_dim": 9, "output_dim": 3, "tie_weights": False}, [(4,)]),
    ],
    **_each("ELU LeakyReLU ReLU Softmax", ({}, [LINE]), ({}, [PLANE])),
    "PReLU": [({}, [LINE]), ({"shared_axes": [1, 2]}, [PLANE])],
    "Flatten": [({}, [LINE]), ({}, [ROOM])],
    "Permute": [({"dims": (2, 1)}, [LINE]), ({"dims": (3, 1, 2)}, [PLANE])],
    "RepeatVector": [({"n": 3}, [(7,)]), ({"n": 1}, [(4,)])],
    "Reshape": [({"target_shape": (6, 8)}, [LINE]), ({"target_shape": (-1, 4)}, [PLANE])],
    "Masking": [({"mask_value": 0.0}, [LINE]), ({"mask_value": 1.0}, [(5, 3)])],
    **_each(
        "GRU LSTM SimpleRNN",
        ({"units": 5}, [LINE]),
        ({"units": 3, "return_sequences": True, "go_backwards": True}, [LINE]),
    ),
    "RNN": [({"cell": "LSTMCell"}, [LINE]), ({"cell": "GRUCell", "return_sequences": True}, [LINE])],
    "StackedRNNCells": [({"cells": "LSTMCell"}, [LINE]), ({"cells": "SimpleRNNCell"}, [LINE])],
    "Bidirectional": [({"layer": "LSTM"}, [LINE]), ({"layer": "GRU", "merge_mode": "sum"}, [LINE])],
    "TimeDistributed": [({"layer": "Dense"}, [LINE]), ({"layer": "Conv2D"}, [(3, *PLANE)])],
    "Normalization": [
        ({"mean": 0.5, "variance": 2.0, "axis": None}, [LINE]),
        ({"mean": (1.0, 2.0, 3.0, 4.0), "variance": (1.0, 2.0, 3.0, 4.0)}, [PLANE]),
    ],
    "Rescaling": [({"scale": 0.25}, [PICTURE]), ({"scale": 2.0, "offset": -1.0}, [PICTURE])],
    "Resizing": [
        ({"height": 7, "width": 30}, [PICTURE]),
        ({"height": 20, "width": 20, "interpolation": "bicubic", "crop_to_aspect_ratio": True}, [PICTURE]),
    ],
    "CenterCrop": [({"height": 7, "width": 9}, [PICTURE]), ({"height": 20, "width": 24}, [PICTURE])],
    "CategoryEncoding": [
        ({"num_tokens": 4, "output_mode": "multi_hot"}, [(5,)]),
        ({"num_tokens": 3, "output_mode": "one_hot"}, [(1,)]),
    ],
    "Discretization": [
        ({"bin_boundaries": (-1.0, 0.0, 1.0)}, [(5,)]),
        ({"bin_boundaries": (0.0, 0.5), "output_mode": "one_hot"}, [(1,)]),
    ],
    "IntegerLookup": [
        ({"vocabulary": (0, 1, 5)}, [(4,)]),
        ({"vocabulary": (0, 1), "output_mode": "multi_hot"}, [(4,)]),
    ],
    "HashedCrossing": [({"num_bins": 5}, [(1,), (1,)]), ({"num_bins": 3, "output_mode": "one_hot"}, [(1,), (1,)])],
    "Hashing": [({"num_bins": 5}, [(4,)]), ({"num_bins": 3, "output_mode": "multi_hot"}, [(4,)])],
    "MelSpectrogram": [
        ({"fft_length": 64, "num_mel_bins": 8}, [(400,)]),
        ({"fft_length": 48, "sequence_stride": 16, "power_to_db": False}, [(400,)]),
    ],
    "STFTSpectrogram": [
        ({"frame_length": 32, "frame_step": 16, "fft_length": 32, "window": None}, [(200, 1)]),
        ({"mode": "real", "frame_length": 24, "frame_step": 10, "fft_length": 48, "window": None}, [(200, 1)]),
    ],
    **_each(
        "AugMix AutoContrast ContrastLimitedAdaptiveHistogramEqualization CutMix Equalization MixUp RandAugment "
        "RandomColorJitter RandomElasticTransform RandomErasing RandomFlip RandomGaussianBlur RandomInvert "
        "RandomPerspective RandomShear Solarization",
        ({}, [PICTURE]),
        ({"data_format": "channels_last"}, [(12, 12, 3)]),
    ),
    **_each(
        "RandomBrightness RandomColorDegeneration RandomContrast RandomGrayscale RandomHue RandomSaturation "
        "RandomSharpness",
        ({"factor": 0.2}, [PICTURE]),
        ({"factor": 0.5}, [(12, 12, 3)]),
    ),
    "RandomPosterization": [({"factor": 4}, [PICTURE]), ({"factor": 2}, [(12, 12, 3)])],
    "RandomRotation": [({"factor": 0.2}, [PICTURE]), ({"factor": 0.1, "fill_mode": "nearest"}, [(12, 12, 3)])],
    "RandomZoom": [({"height_factor": 0.2}, [PICTURE]), ({"height_factor": 0.1, "width_factor": 0.3}, [(12, 12, 3)])],
    "RandomCrop": [({"height": 8, "width": 8}, [PICTURE]), ({"height": 12, "width": 10}, [(12, 12, 3)])],
    "RandomTranslation": [
        ({"height_factor": 0.2, "width_factor": 0.2}, [PICTURE]),
        ({"height_factor": 0.1, "width_factor": 0.3}, [(12, 12, 3)]),
    ],
}

INTEGERS = {"Embedding", "ReversibleEmbedding", "CategoryEncoding", "IntegerLookup", "Hashing", "HashedCrossing"}

NOT_IN_A_GRAPH = {"Equalization"}
"""Layers that Keras 3.15.1 has no symbolic answer for, other than what goes in."""

INNER = {"Dense": {"units": 5}, "Conv2D": {"filters": 3, "kernel_size": 3}, "LSTM": {"units": 4}, "GRU": {"units": 4}}


def cases() -> list[Case]:
    return [
        of_keras(GROUP, f"{name} {number}", partial(_make, name, number))
        for name, configs in sorted(LAYERS.items())
        for number in range(1, len(configs) + 1)
    ]


def untried() -> Iterator[str]:
    """Layer classes of this Keras that LAYERS has not, under none of their names."""
    tried = {getattr(keras.layers, name) for name in LAYERS}
    for name in dir(keras.layers):
        found = getattr(keras.layers, name)
        if isinstance(found, type) and issubclass(found, keras.layers.Layer) and found not in tried:
            yield name


def _make(name: str, number: int) -> Any:
    return make(name, *LAYERS[name][number - 1])


def make(name: str, config: Mapping[str, Any], shapes: Sequence[Shape], package: Any = keras) -> Any:
    """A model of one layer, by ``package``, which is Keras 2 or 3."""
    dtype = "int32" if name in INTEGERS else "float32"
    inputs = [package.Input(shape, dtype=dtype, name=f"input_{i}") for i, shape in enumerate(shapes)]
    layer = _layer(name, config, package.layers)
    if name in NOT_IN_A_GRAPH:
        network = Calls(layer)
        network(np.zeros((1, *shapes[0]), dtype))
        return network
    call = (
        layer(inputs)
        if len(inputs) > 1 and name not in ("MultiHeadAttention", "GroupQueryAttention")
        else layer(*inputs)
    )
    return package.Model(inputs, call)


class Calls(keras.Model):
    """A network of a class of its own, which people save with ``export``."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def call(self, inputs: Any) -> Any:
        return self.layer(inputs, training=False)


def _layer(name: str, config: Mapping[str, Any], layers: Any) -> Any:
    """The layer, with those inside it that the configuration only names."""
    made = dict(config)
    if "layer" in made:
        made["layer"] = _layer(made["layer"], INNER[made["layer"]], layers)
    if "cell" in made:
        made["cell"] = getattr(layers, made["cell"])(4)
    if name == "StackedRNNCells":
        cell = getattr(layers, made["cells"])
        return layers.RNN(layers.StackedRNNCells([cell(4), cell(3)]))
    return getattr(layers, name)(**made)
