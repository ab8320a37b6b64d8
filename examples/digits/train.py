"""Train the beginner's digit network: ``python examples/digits/train.py``.

Writes ``build/digits/model.keras`` and ``build/digits/held_out.npz`` (``images`` uint8 [n, 28, 28, 1] and
``labels`` int64 [n]: digits the network never saw). Seeds are fixed and TensorFlow's ops deterministic,
so one machine gives the same weights every time. Fails when fewer than 96 % of the held-out digits are
read right.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from mnist_digits import Images, Labels, load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "digits"
REQUIRED_ACCURACY = 0.96
SEED = 1
EPOCHS = 6
HELD_OUT_EVERY = 10  # every tenth digit is kept away from training
# Each training digit is also shown moved by a pixel (MNIST leaves a margin of four): 9,000 digits alone
# take this network to about 95 %, whatever the number of epochs.
MOVES = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))


def split(images: Images, labels: Labels) -> tuple[tuple[Images, Labels], tuple[Images, Labels]]:
    """(train, held out), each ``(images, labels)``; ``labels`` is sorted, so classes keep their share."""
    held = np.arange(len(labels)) % HELD_OUT_EVERY == 0
    return (images[~held], labels[~held]), (images[held], labels[held])


def network() -> keras.Model:
    """28x28x1 in [0, 1] -> 10 logits: one hidden layer of 128, dropout 0.2."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1), name="image"),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10, name="logits"),
        ],
        name="digits",
    )


def main() -> None:
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    images, labels = load(FOLDER / "download")
    (train_images, train_labels), (held_images, held_labels) = split(images[..., None], labels)
    moved = np.concatenate([np.roll(train_images, move, axis=(1, 2)) for move in MOVES])
    model = network()
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(moved / np.float32(255), np.tile(train_labels, len(MOVES)), epochs=EPOCHS, batch_size=32, verbose=2)
    _, accuracy = model.evaluate(held_images / np.float32(255), held_labels, verbose=0)
    print(f"{accuracy:.2%} of {len(held_labels)} held-out digits read right")
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"expected at least {REQUIRED_ACCURACY:.0%}; no model written")
    np.savez_compressed(FOLDER / "held_out.npz", images=held_images, labels=held_labels)
    # Last, and in one move: make takes the file's presence for success.
    unfinished = FOLDER / "unfinished.keras"
    model.save(unfinished)
    unfinished.replace(FOLDER / "model.keras")


if __name__ == "__main__":
    main()
