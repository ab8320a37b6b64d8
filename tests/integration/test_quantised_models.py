"""Quantised models out of TensorFlow's converter, whose layers run on integers and answer with LiteRT's own bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.slow]

CONVERT = """
import sys
import numpy as np
import tensorflow as tf
layers, random = tf.keras.layers, np.random.default_rng(0)
x = given = tf.keras.Input((20, 20, 3), batch_size=int(sys.argv[2]))
x = layers.Conv2D(16, 3, 2, "same", activation="relu6")(x)
y = layers.Conv2D(16, 1, activation="relu")(layers.DepthwiseConv2D(3, padding="same", activation="relu")(x))
x = layers.Conv2D(24, 3, padding="same", activation="relu")(layers.Add()([x, y]))
x = layers.AveragePooling2D(2, 2, "same")(layers.MaxPool2D(2)(x))
x = layers.Conv2D(24, 3, padding="same", activation="relu")(x)
model = tf.keras.Model(given, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
converter = tf.lite.TFLiteConverter.from_keras_model(model)
converter.optimizations = [tf.lite.Optimize.DEFAULT]
converter.representative_dataset = lambda: ([random.normal(0, 1, given.shape).astype("f4")] for _ in range(4))
converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
converter.inference_input_type = converter.inference_output_type = tf.int8
open(sys.argv[1], "wb").write(converter.convert())
"""


@pytest.mark.parametrize("batch", [1, 8])
def test_a_converted_model_runs_on_integers(tmp_path: Path, batch: int) -> None:
    """A bundle that is made agrees with LiteRT; every product and pool of it reads and stores bytes."""
    subprocess.run([sys.executable, "-c", CONVERT, "model.tflite", str(batch)], cwd=tmp_path, check=True)
    (tmp_path / "model.toml").write_text('[model]\nname = "small"\nsource = "model.tflite"\n')
    command = [sys.executable, "-m", "builder.cli", "bundle", "model.toml"]
    subprocess.run(command, cwd=tmp_path, check=True)
    manifest = tmp_path / "dist/small/manifest.json"
    steps = json.loads(manifest.read_text())["lowering"]["fused_steps"]
    assert sorted(step["algorithm"] for step in steps if step["kind"] == "layer") == [
        "integer", "integer", "integer", "integer", "integer", "integer_depthwise"
    ]  # fmt: skip
    kinds = [step["kind"] for step in steps]
    assert (kinds.count("add"), kinds.count("pool"), kinds.count("xla")) == (1, 3, 0)
