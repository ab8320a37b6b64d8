"""Networks that no kernel of this project was tuned on: what users bring, by ``make bench-wide``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.models import Network, application

AIM = 1.15, 1.15


def _convolve(x: Any, channels: int, size: int = 3, stride: int = 1, activation: str = "relu") -> Any:
    from keras import layers as kl

    y = kl.Conv2D(channels, size, stride, padding="same", use_bias=False)(x)
    return kl.Activation(activation)(kl.BatchNormalization()(y))


def _unet(side: int = 256) -> Any:
    """Return a U-Net of four levels for one class of pixels."""
    import keras
    from keras import layers as kl

    y = x = keras.Input((side, side, 3), name="x")
    levels = []
    for channels in (32, 64, 128):
        y = _convolve(_convolve(y, channels), channels)
        levels.append(y)
        y = kl.MaxPooling2D()(y)
    y = _convolve(_convolve(y, 256), 256)
    for level in reversed(levels):
        channels = level.shape[-1]
        y = kl.Concatenate()([kl.Conv2DTranspose(channels, 2, 2)(y), level])
        y = _convolve(_convolve(y, channels), channels)
    return keras.Model(x, kl.Conv2D(1, 1, activation="sigmoid")(y), name="unet")


def _detector(side: int = 320, classes: int = 80) -> Any:
    """Return a detector with YOLOv8n's widths: split stages with SiLU, pooled pyramids, and heads of three scales."""
    import keras
    from keras import layers as kl

    def stage(x: Any, channels: int, depth: int) -> Any:
        parts = [_convolve(x, channels // 2, 1, activation="silu"), _convolve(x, channels // 2, 1, activation="silu")]
        for _ in range(depth):
            y = _convolve(_convolve(parts[-1], channels // 2, activation="silu"), channels // 2, activation="silu")
            parts.append(kl.Add()([parts[-1], y]))
        return _convolve(kl.Concatenate()(parts), channels, 1, activation="silu")

    x = keras.Input((side, side, 3), name="x")
    y = _convolve(x, 16, stride=2, activation="silu")
    scales = []
    for channels, depth in ((32, 1), (64, 2), (128, 2), (256, 1)):
        y = stage(_convolve(y, channels, stride=2, activation="silu"), channels, depth)
        scales.append(y)
    pooled = [_convolve(y, 128, 1, activation="silu")]
    for _ in range(3):
        pooled.append(kl.MaxPooling2D(5, 1, padding="same")(pooled[-1]))
    y = _convolve(kl.Concatenate()(pooled), 256, 1, activation="silu")
    answers = []
    for level in (y, *reversed(scales[1:3])):
        if level is not y:
            y = kl.Concatenate()([kl.UpSampling2D()(y), level])
            y = stage(y, level.shape[-1], 1)
        head = _convolve(y, 64, activation="silu")
        answers.append(kl.Reshape((-1, 4 + classes))(kl.Conv2D(4 + classes, 1)(head)))
    return keras.Model(x, kl.Concatenate(axis=1)(answers), name="detector")


def _dilated(positions: int = 10_000, channels: int = 32) -> Any:
    """Return a network of SpliceAI's shape: residual blocks of dilated filters over the letters of a sequence."""
    import keras
    from keras import layers as kl

    x = keras.Input((positions, 4), name="x")
    y = kl.Conv1D(channels, 1)(x)
    ends = kl.Conv1D(channels, 1)(y)
    for dilation in (1, 1, 1, 1, 4, 4, 4, 4):
        inner = y
        for _ in range(2):
            inner = kl.ReLU()(kl.BatchNormalization()(inner))
            inner = kl.Conv1D(channels, 11, dilation_rate=dilation, padding="same")(inner)
        y = kl.Add()([y, inner])
    ends = kl.Add()([ends, kl.Conv1D(channels, 1)(y)])
    return keras.Model(x, kl.Conv1D(3, 1, activation="softmax")(ends), name="dilated")


def _tcn(steps: int = 200, features: int = 16, channels: int = 64) -> Any:
    """Return a temporal convolutional network (Bai et al., 2018): causal filters whose dilation doubles."""
    import keras
    from keras import layers as kl

    y = x = keras.Input((steps, features), name="x")
    for level in range(6):
        inner = y
        for _ in range(2):
            inner = kl.Conv1D(channels, 3, dilation_rate=2**level, padding="causal", activation="relu")(inner)
        y = kl.ReLU()(kl.Add()([inner, y if y.shape[-1] == channels else kl.Conv1D(channels, 1)(y)]))
    return keras.Model(x, kl.Dense(10, activation="softmax")(y[:, -1]), name="tcn")


def _recurrent(bidirectional: bool, steps: int = 100, features: int = 32) -> Any:
    """Return a GRU of 128 units, or LSTMs of 64 in both directions with an answer at each step."""
    import keras
    from keras import layers as kl

    x = keras.Input((steps, features), name="x")
    y = kl.Bidirectional(kl.LSTM(64, return_sequences=True))(x) if bidirectional else kl.GRU(128)(x)
    return keras.Model(x, kl.Dense(10, activation="softmax")(y))


def _wide_deep(numbers: int = 40, categories: int = 20) -> Any:
    """Return a wide and deep network (Cheng et al., 2016) of numbers, of which the last are bucketed and embedded."""
    import keras
    from keras import layers as kl

    x = keras.Input((numbers + categories,), name="x")
    ids = keras.ops.cast(keras.ops.clip(x[:, numbers:] * 20 + 50, 0, 99), "int32")
    embedded = kl.Flatten()(kl.Embedding(100, 16)(ids))
    y = kl.Concatenate()([x[:, :numbers], embedded])
    for width in (256, 128, 64):
        y = kl.Dense(width, activation="relu")(y)
    answer = kl.Dense(1)(y) + kl.Dense(1)(x)
    return keras.Model(x, kl.Activation("sigmoid")(answer), name="wide_deep")


UNTUNED: dict[str, Network] = {
    network.name: network
    for network in (
        Network("densenet121", "224×224×3", application("DenseNet121"), AIM),
        Network("inception_v3", "299×299×3", application("InceptionV3", 299), AIM),
        Network("xception", "299×299×3", application("Xception", 299), AIM),
        Network("nasnet_mobile", "224×224×3", application("NASNetMobile"), AIM),
        Network("efficientnet_v2_b0", "224×224×3", application("EfficientNetV2B0"), AIM, 0, 255),
        Network("mobilenet_v3_large", "224×224×3", application("MobileNetV3Large"), AIM, 0, 255),
        Network("convnext_t", "224×224×3, of Keras", application("ConvNeXtTiny"), AIM, 0, 255),
        Network("resnet50_v2", "224×224×3", application("ResNet50V2"), AIM),
        Network("unet", "four levels, 256×256×3", _unet, AIM),
        Network("detector", "YOLOv8n's widths, 320×320×3", _detector, AIM),
        Network("dilated", "SpliceAI's blocks of 32 channels, 10,000 positions", _dilated, AIM),
        Network("tcn", "six levels of 64 channels, 200 steps", _tcn, AIM),
        Network("gru", "100 steps of 32, 128 units", lambda: _recurrent(bidirectional=False), AIM),
        Network("bilstm", "100 steps of 32, 64 units each way", lambda: _recurrent(bidirectional=True), AIM),
        Network("wide_deep", "40 numbers and 20 categories", _wide_deep, AIM),
    )
}

UNTUNED_SET = (
    *UNTUNED,
    "bert_base-128",
    "vit_b16",
    *(str(path) for path in sorted(Path(__file__).with_name("published").glob("*.toml"))),
)
"""The arguments of every network of ``make bench-wide``."""
