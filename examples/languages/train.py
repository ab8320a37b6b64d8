"""Train a network that tells which language a text is in: ``python examples/languages/train.py``.

Writes ``build/languages/model.keras``, whose input is strings, and ``build/languages/held_out.json`` (``texts`` and
``labels``: passages of articles that the network never saw). Seeds are fixed and TensorFlow's ops deterministic, so one
machine gives the same weights every time. Fails when fewer than 96 % of the held-out passages are told right.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from declarations import load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "languages"
REQUIRED_ACCURACY = 0.96
SEED = 1
EPOCHS = 4
PASSAGES, HELD_OUT = 300, 40  # of each language
HELD_OUT_EVERY = 5  # every fifth article is kept away from training
VOCABULARY = 6000
SHORTEST, LONGEST = 20, 120  # characters of a passage


def passages(articles: list[str], count: int, random: np.random.Generator) -> list[str]:
    """``count`` pieces of the articles, the longer ones more often, each from the beginning of a word."""
    weights = np.array([len(article) for article in articles], float)
    found = []
    while len(found) < count:
        article = articles[int(random.choice(len(articles), p=weights / weights.sum()))]
        start = int(random.integers(max(1, len(article) - SHORTEST)))
        if start and " " in article[start : start + 20]:
            start = article.index(" ", start) + 1
        piece = article[start : start + int(random.integers(SHORTEST, LONGEST + 1))]
        if len(piece) >= SHORTEST // 2:
            found.append(piece)
    return found


def network(texts: list[str], languages: int) -> keras.Model:
    """Strings -> logits: which one, two and three characters in a row a text has, and one dense layer."""
    characters = keras.layers.TextVectorization(
        max_tokens=VOCABULARY, standardize="lower", split="character", ngrams=3, output_mode="multi_hot"
    )
    characters.adapt(texts)
    return keras.Sequential(
        [
            keras.Input((), dtype="string", name="text"),
            characters,
            keras.layers.Dense(languages, name="logits"),
        ],
        name="languages",
    )


def main() -> None:
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    random = np.random.default_rng(SEED)
    declarations = load(FOLDER / "download")
    train: list[tuple[str, int]] = []
    held: list[tuple[str, int]] = []
    for label, articles in enumerate(declarations.values()):
        for chosen, count, kept in ((train, PASSAGES, False), (held, HELD_OUT, True)):
            own = [text for number, text in articles.items() if (number % HELD_OUT_EVERY == 3) == kept and text]
            chosen += [(text, label) for text in passages(own, count, random)]
    texts, labels = [text for text, _ in train], np.array([label for _, label in train])
    model = network(texts, len(declarations))
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(tf.constant(texts), labels, epochs=EPOCHS, batch_size=64, verbose=2)
    held_texts, held_labels = [text for text, _ in held], [label for _, label in held]
    _, accuracy = model.evaluate(tf.constant(held_texts), np.array(held_labels), verbose=0)
    print(f"{accuracy:.2%} of {len(held)} held-out passages told right")
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"expected at least {REQUIRED_ACCURACY:.0%}; no model written")
    (FOLDER / "held_out.json").write_text(json.dumps({"texts": held_texts, "labels": held_labels}), encoding="utf-8")
    # Last, and in one move: make takes the file's presence for success.
    unfinished = FOLDER / "unfinished.keras"
    model.save(unfinished)
    unfinished.replace(FOLDER / "model.keras")


if __name__ == "__main__":
    main()
