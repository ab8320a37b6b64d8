"""Published image networks, which leave the scaling of pixels to their callers, by the names of their layers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from builder.config import ImageSpec

FAMILIES = {
    "keras.applications' ResNetV2": (r"conv2_block1_preact_bn", "tf"),
    "keras.applications' DenseNet": (r"conv2_block1_concat", "torch"),
    "keras.applications' ResNet": (r"conv2_block1_0_conv|res2a_branch2a", "caffe"),
    "keras.applications' Xception": (r"block2_sepconv1", "tf"),
    "keras.applications' VGG": (r"block5_conv3", "caffe"),
    "keras.applications' MobileNet": (r"conv_dw_1|expanded_conv_depthwise", "tf"),
    "keras.applications' Inception": (r"mixed0|mixed_5b", "tf"),
    "keras.applications' NASNet": (r"reduction_bn_1_stem_1", "tf"),
    "TensorFlow-Slim's Inception or MobileNet": (r"InceptionV[1-4]|InceptionResnetV2|MobilenetV[12]", "tf"),
}
"""For each family, a pattern for a layer that no earlier family has, and the mode of its ``preprocess_input``."""


def find_family(nodes: Iterable[str]) -> str:
    """Find the family to which a graph's ``nodes``, named by paths of layers, belong; return "" for none."""
    paths = "\n".join(nodes)  # A loaded Keras model numbers its layers, as in conv_dw_1_1.
    has_layer = (
        name for name, (layer, _) in FAMILIES.items() if re.search(rf"(^|/)({layer})(_\d+)?(/|$)", paths, re.M)
    )
    return next(has_layer, "")


def add_preprocessing(image: ImageSpec, family: str) -> ImageSpec:
    """Add to ``image`` the steps of the ``preprocess_input`` of the ``family``."""
    mode = FAMILIES[family][1]
    if mode == "tf":
        return replace(image, mean=(127.5,), scale=(1 / 127.5,))
    if mode == "caffe":
        return replace(image, mean=(103.939, 116.779, 123.68), scale=(1.0,), channel_order="bgr")
    mean, deviation = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    return replace(image, mean=mean, scale=tuple(float(f"{1 / value:.7g}") for value in deviation))
