"""Published networks at the smallest picture they take, with weights that let an input matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import applications
from keras import layers as kl

from .case import CASES, Case, Function, case, f32, stir

CLASSES = 10


def _application(name: str, constructor: Callable[..., Any], size: int, **options: Any) -> None:
    def build() -> Function:
        shape = (size, size, 3)
        network = constructor(weights=None, input_shape=shape, classes=CLASSES, classifier_activation=None, **options)
        stir(network)
        # A saturated softmax would hide every mistake before it.
        spread = float(np.std(network(np.random.default_rng(1).normal(size=(4, *shape)), training=False)))
        return lambda image: tf.nn.softmax(network(image, training=False) / spread)

    CASES.append(Case(name, build, (f32("image", 1, size, size, 3),), big=True, covers=("Convolution",)))


_application("efficientnet_b0", applications.EfficientNetB0, 32)
_application("mobilenet_v2", applications.MobileNetV2, 32, alpha=0.5)
_application("mobilenet_v3_small", applications.MobileNetV3Small, 32, include_preprocessing=False)
_application("convnext_tiny", applications.ConvNeXtTiny, 32, include_preprocessing=False)
_application("densenet121", applications.DenseNet121, 32)
_application("inception_v3", applications.InceptionV3, 75)
_application("xception", applications.Xception, 71)
_application("resnet50", applications.ResNet50, 32)


@case(f32("image", 2, 16, 16, 3), covers=("Convolution",))
def wide_resnet() -> Function:
    """The write-up's network, narrow: pre-activation blocks and two heads."""

    def activated(x: Any) -> Any:
        return kl.ReLU()(kl.BatchNormalization()(x))

    def conv(x: Any, channels: int, size: int, stride: int) -> Any:
        return kl.Conv2D(channels, size, strides=stride, padding="same", use_bias=False)(x)

    image = keras.Input((16, 16, 3))
    x = conv(image, 8, 3, 1)
    for channels, stride in ((16, 1), (32, 2)):
        before = activated(x)
        inner = activated(conv(before, channels, 3, stride))
        x = conv(inner, channels, 3, 1) + conv(before, channels, 1, stride)
    x = kl.Flatten()(kl.AveragePooling2D(4)(activated(x)))
    heads = [kl.Dense(2, activation="softmax")(x), kl.Dense(11, activation="softmax")(x)]
    network = keras.Model(image, heads)
    stir(network)
    return lambda image: network(image, training=False)
