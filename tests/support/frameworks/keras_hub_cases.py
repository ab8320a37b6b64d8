"""Writes presets of KerasHub with random weights, and says whether they are read as what Keras computes.

Run in the environment of KerasHub: ``python keras_hub_cases.py FOLDER``. What the published preprocessing and the task
make of the files of tests/data lies beside the preset that tests build, as ``answers.json`` in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import keras
import keras_hub
import numpy as np
from keras_hub import models
from PIL import Image

from builder.importers.frameworks.keras_hub_model import open_keras_hub
from tests.support.frameworks.agreement import report_agreement, run_in_folder

PHOTOS = Path(__file__).parents[2] / "data"
NAMES = ("astronaut.jpg", "coffee.jpg", "face.jpg")
SIDE = 64
SHAPE = (SIDE, SIDE, 3)
COLOURS = {"scale": [1 / 58.4, 1 / 57.1, 1 / 57.4], "offset": [-2.1, -2.0, -1.8]}
RESNET = {
    "input_conv_filters": [64],
    "input_conv_kernel_sizes": [7],
    "stackwise_num_filters": [64, 64],
    "stackwise_num_blocks": [1, 1],
    "stackwise_num_strides": [1, 2],
    "block_type": "basic_block",
}
VIT = {"patch_size": 16, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32, "image_shape": SHAPE}
DEIT = {"patch_size": 16, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
DENSE = {"stackwise_num_repeats": [2, 2], "compression_ratio": 0.5, "growth_rate": 8}
VGG = {"stackwise_num_repeats": [1, 1], "stackwise_num_filters": [8, 16]}
XCEPTION = {
    "stackwise_conv_filters": [[8, 8], [8, 8]],
    "stackwise_pooling": [True, False],
}
MIX = {
    "layerwise_depths": [1, 1, 1, 1],
    "num_layers": 4,
    "layerwise_num_heads": [1, 2, 2, 2],
    "layerwise_sr_ratios": [8, 4, 2, 1],
    "max_drop_path_rate": 0.1,
    "layerwise_patch_sizes": [7, 3, 3, 3],
    "layerwise_strides": [4, 2, 2, 2],
    "hidden_dims": [8, 16, 16, 32],
    "image_shape": SHAPE,
}
EFFICIENT = {
    "stackwise_width_coefficients": [0.25] * 2,
    "stackwise_depth_coefficients": [0.5] * 2,
    "stackwise_kernel_sizes": [3, 3],
    "stackwise_num_repeats": [1, 2],
    "stackwise_input_filters": [32, 16],
    "stackwise_output_filters": [16, 24],
    "stackwise_expansion_ratios": [1, 6],
    "stackwise_squeeze_and_excite_ratios": [0.25, 0.25],
    "stackwise_strides": [1, 2],
    "stackwise_block_types": ["v1", "v1"],
    "dropout": 0.2,
}
MOBILE = {
    "stackwise_expansion": [[40, 56], [64, 144]],
    "stackwise_num_blocks": [2, 2],
    "stackwise_num_filters": [[16, 16], [24, 24]],
    "stackwise_kernel_size": [[3, 3], [5, 5]],
    "stackwise_num_strides": [[2, 1], [2, 1]],
    "stackwise_se_ratio": [[None, None], [0.25, 0.25]],
    "stackwise_activation": [["relu6", "relu6"], ["hard_swish", "hard_swish"]],
    "stackwise_padding": [[1, 1], [2, 2]],
    "output_num_filters": 32,
    "input_num_filters": 16,
    "input_activation": "hard_swish",
    "output_activation": "hard_swish",
    "depthwise_filters": 8,
    "depthwise_stride": 2,
    "depthwise_residual": False,
    "last_layer_filter": 32,
    "squeeze_and_excite": 0.5,
}
SWIN = {"image_shape": SHAPE, "embed_dim": 8, "depths": [1, 2], "num_heads": [1, 2], "window_size": 4}
CROP, WHOLE = {"crop_to_aspect_ratio": True}, {"crop_to_aspect_ratio": False}
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "ResNet": (RESNET, COLOURS | CROP | {"interpolation": "bicubic", "antialias": True}, None),
    "ViT": (VIT, {"scale": 1 / 127.5, "offset": -1.0} | WHOLE, "softmax"),
    "DeiT": (DEIT | {"image_shape": SHAPE}, COLOURS | CROP, None),
    "DenseNet": (DENSE, COLOURS | WHOLE, "sigmoid"),
    "VGG": (VGG | {"image_shape": SHAPE}, {"interpolation": "nearest"} | CROP, None),
    "Xception": (XCEPTION, {"scale": 1 / 255} | CROP, "softmax"),
    "EfficientNet": (EFFICIENT, COLOURS | WHOLE | {"antialias": True}, None),
    "MobileNet": (MOBILE, {"interpolation": "lanczos3", "antialias": True} | CROP, None),
    "MiT": (MIX, COLOURS | WHOLE, None),
    "SwinTransformer": (SWIN, COLOURS | CROP | {"interpolation": "bicubic"}, None),
}
"""The sizes of each architecture, the settings of its converter of images, and the activation of its classes."""


def make_task(kind: str, **converter: Any) -> Any:
    """Return a classifier of five classes; its statistics are those of random images."""
    sizes, pixels, activation = MODELS[kind]
    keras.utils.set_random_seed(len(kind))
    pixels = {"image_size": (SIDE, SIDE)} | pixels | converter
    preprocessor = getattr(models, f"{kind}ImageClassifierPreprocessor")(
        getattr(keras_hub.layers, f"{kind}ImageConverter")(**pixels)
    )
    task = getattr(models, f"{kind}ImageClassifier")(
        backbone=getattr(models, f"{kind}Backbone")(**sizes),
        num_classes=5,
        preprocessor=preprocessor,
        **({"activation": activation} if activation else {}),
    )
    settle(task)
    return task


def make_own_task() -> Any:
    """Return a classifier of grey images around a network of Keras' layers."""
    image = keras.Input((SIDE, SIDE, 1))
    network = keras.Model(image, keras.layers.Conv2D(8, 3, 2, activation="relu")(image))
    converter = keras_hub.layers.ImageConverter(image_size=(SIDE, SIDE), scale=1 / 127.5, offset=-1.0)
    return models.ImageClassifier(network, 5, models.ImageClassifierPreprocessor(converter))


def settle(task: Any) -> None:
    """Give normalisations weights, by which answers depend on them, and the last layer larger ones."""
    numbers = np.random.default_rng(0)
    for weight in task.weights:
        value = np.asarray(weight)
        if weight.path.endswith(("beta", "bias", "moving_mean")):
            weight.assign(value + numbers.uniform(-0.1, 0.1, value.shape))
        elif weight.path.endswith("kernel") and "predictions" in weight.path:
            weight.assign(value * 4)


def agrees(folder: Path, task: Any) -> bool:
    """Say whether the JAX function of the preset gives what the task does that was saved, for random photographs."""
    task.save_to_preset(str(folder))
    model = open_keras_hub(folder)
    pixels = np.random.default_rng(0).integers(0, 256, (3, SIDE, SIDE, task.input.shape[-1]), np.uint8)
    numbers = np.asarray(task.preprocessor(pixels), np.float32)
    wanted = np.asarray(task(numbers, training=False))
    (answer,) = jax.jit(model.make_function())(numbers)
    facts, largest = model.ports.facts, np.abs(wanted).max()
    near = facts is not None and facts.image is not None and facts.image.mean < 0.5
    differ = np.ptp(wanted, 0).max() > largest / 1000
    return bool(near and differ and np.abs(wanted - answer).max() < 1e-4 * largest)


def ask_published(task: Any) -> list[list[float]]:
    """Return the task's probabilities for the photographs NAMES, by its own preprocessor."""
    rows = []
    for name in NAMES:
        with Image.open(PHOTOS / name) as opened:
            pixels = np.asarray(opened.convert("RGB"))
        scores = task(task.preprocessor(pixels[None]), training=False)
        rows.append(np.asarray(keras.ops.softmax(scores))[0].tolist())
    return rows


def write_refused(folder: Path) -> None:
    """Write presets that cannot be read."""
    task = make_task("ResNet")
    task.backbone.save_to_preset(str(folder / "backbone"))
    task.save_to_preset(str(folder / "headless"))
    (folder / "headless" / "task.weights.h5").unlink()
    make_task("ResNet", image_size=None).save_to_preset(str(folder / "any_size"))
    padded = make_task("ResNet", crop_to_aspect_ratio=False, pad_to_aspect_ratio=True)
    padded.save_to_preset(str(folder / "padded"))
    for name, package, kind in (("foreign", "theirs", "Block"), ("code", "keras.layers", "Lambda")):
        task.save_to_preset(str(folder / name))
        change_class(folder / name / "task.json", {"module": package, "class_name": kind, "registered_name": None})
    task.save_to_preset(str(folder / "registered"))
    change_class(folder / "registered" / "task.json", {"module": "", "registered_name": "theirs>Block"})
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "a"]
    encoder = models.BertBackbone(len(words), num_layers=1, num_heads=1, hidden_dim=8, intermediate_dim=8)
    texts = models.BertTextClassifierPreprocessor(models.BertTokenizer(words), sequence_length=8)
    models.BertTextClassifier(encoder, 2, texts).save_to_preset(str(folder / "texts"))


def change_class(path: Path, entries: Mapping[str, str | None]) -> None:
    config = json.loads(path.read_text())
    config["config"]["backbone"] |= entries
    path.write_text(json.dumps(config))


def main(folder: Path) -> None:
    task = make_task("ResNet", image_size=(48, 64))
    task.save_to_preset(str(folder / "pets"))
    (folder / "pets" / "answers.json").write_text(json.dumps([NAMES, ask_published(task)]))
    write_refused(folder)
    with TemporaryDirectory() as scratch:
        same = {kind: agrees(Path(scratch) / kind, make_task(kind)) for kind in MODELS}
        same["own network"] = agrees(Path(scratch) / "own", make_own_task())
    report_agreement(same)


if __name__ == "__main__":
    run_in_folder(main)
