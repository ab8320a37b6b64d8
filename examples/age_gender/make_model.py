"""Build the age and gender network with seeded weights: ``python examples/age_gender/make_model.py``.

Writes ``build/age_gender/model.keras``: a WideResNet-16-8, 64x64x3 in, two softmax heads (gender 2, age
101), 11 M parameters. Nobody trained these weights. They are drawn so that everything a compiler could
get wrong still shows: BatchNorm scales, shifts and statistics are all different from their defaults,
activations stay in range through every layer, and the answers depend on the picture.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "age_gender"
SEED = 16_8
SIZE = 64
DEPTH = 16
WIDTH = 8
CALIBRATION_IMAGES = 16
HEADS = {"gender": 2, "age": 101}
LOGIT_SPREAD = 0.4  # standard deviation of the logits over the calibration pictures; photographs spread more

Array = npt.NDArray[np.float32]


def network() -> keras.Model:
    """Pre-activation WideResNet (Zagoruyko and Komodakis 2016), pixels 0..255 BGR in, two softmaxes out."""
    blocks = (DEPTH - 4) // 6
    image = keras.Input((SIZE, SIZE, 3), name="image")
    x = _conv(image, 16, 3, 1)
    for stage, channels in enumerate((16 * WIDTH, 32 * WIDTH, 64 * WIDTH)):
        for block in range(blocks):
            x = _block(x, channels, stride=2 if stage > 0 and block == 0 else 1)
    x = keras.layers.Flatten()(keras.layers.AveragePooling2D(8)(_activated(x)))
    heads = [
        keras.layers.Dense(units, activation="softmax", use_bias=False, name=name)(x) for name, units in HEADS.items()
    ]
    return keras.Model(image, heads, name="age_gender")


def _block(x: Any, channels: int, stride: int) -> Any:
    """Two 3x3 convolutions, each after BatchNorm and ReLU, beside a shortcut.

    Where the width changes, the shortcut is a 1x1 convolution of the activated input.
    """
    activated = _activated(x)
    shortcut = x if x.shape[-1] == channels else _conv(activated, channels, 1, stride)
    y = _conv(activated, channels, 3, stride)
    y = _conv(_activated(y), channels, 3, 1)
    return keras.layers.Add()([y, shortcut])


def _activated(x: Any) -> Any:
    return keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.0)(x))


def _conv(x: Any, channels: int, size: int, stride: int) -> Any:
    return keras.layers.Conv2D(channels, size, strides=stride, padding="same", use_bias=False)(x)


def seed_weights(model: keras.Model) -> None:
    """Draw every weight, then run pictures through once so that BatchNorm's statistics fit them."""
    rng = np.random.default_rng(SEED)
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    for layer in model.layers:
        if layer in norms:
            layer.gamma.assign(rng.uniform(0.6, 1.4, layer.gamma.shape))
            layer.beta.assign(rng.normal(0.0, 0.2, layer.beta.shape))
        elif isinstance(layer, keras.layers.Conv2D):
            fan_in = int(np.prod(layer.kernel.shape[:-1]))
            layer.kernel.assign(rng.normal(0.0, (2.0 / fan_in) ** 0.5, layer.kernel.shape))
        elif isinstance(layer, keras.layers.Dense):
            layer.kernel.assign(rng.normal(0.0, 1.0, layer.kernel.shape))
    pictures = calibration_images(rng)
    model(pictures, training=True)  # momentum 0: each BatchNorm keeps the statistics of this one batch
    for layer in norms:
        # Coarse values: the last bits of a convolution's sum differ between processors.
        layer.moving_mean.assign(_coarse(layer.moving_mean))
        layer.moving_variance.assign(_coarse(layer.moving_variance))
    pooled = keras.Model(model.inputs, model.get_layer("gender").input)([pictures]).numpy()
    for name in HEADS:
        head = model.get_layer(name)
        # The mean picture's features say nothing of a picture: without its share of the kernel,
        # every picture would get nearly the same answer.
        kernel = head.kernel.numpy()
        mean = pooled.mean(axis=0)
        kernel -= np.outer(mean, mean @ kernel) / (mean @ mean)
        spread = float((pooled @ kernel).std())
        head.kernel.assign(_coarse(kernel * (LOGIT_SPREAD / spread)))


def calibration_images(rng: np.random.Generator) -> Array:
    """Soft random blobs with noise, float32 [n, 64, 64, 3] in 0..255: closer to photographs than noise."""
    coarse = rng.uniform(0, 255, (CALIBRATION_IMAGES, 6, 6, 3)).astype(np.float32)
    soft = tf.image.resize(coarse, (SIZE, SIZE), method="bilinear").numpy()
    pictures: Array = np.clip(soft + rng.normal(0, 12, soft.shape), 0, 255).astype(np.float32)
    return pictures


def _coarse(values: object) -> Array:
    return np.asarray(values).astype(np.float16).astype(np.float32)


def main() -> None:
    tf.config.experimental.enable_op_determinism()
    model = network()
    seed_weights(model)
    FOLDER.mkdir(parents=True, exist_ok=True)
    # In one move at the end: make takes the file's presence for success.
    unfinished = FOLDER / "unfinished.keras"
    model.save(unfinished)
    unfinished.replace(FOLDER / "model.keras")
    print(f"{FOLDER.relative_to(ROOT)}/model.keras: {model.count_params():,} seeded parameters")


if __name__ == "__main__":
    main()
