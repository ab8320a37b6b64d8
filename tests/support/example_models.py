"""SavedModels that take serialized tf.Examples, as Estimators and TFX export them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.tf import import_tensorflow

tf = import_tensorflow()
F: Any = tf.io.FixedLenFeature
COLOURS = ("red", "green", "blue")
FEATURES: Mapping[str, Any] = {
    "age": F([], tf.float32, default_value=40.0),
    "code/day": F([2], tf.int64),
    "measured": F([2, 2], tf.float32),
    "seen": F([], tf.int64, default_value=3),
}
WORDS: Mapping[str, Any] = {
    **FEATURES,
    "colour": F([], tf.string, default_value="green"),
    "tags": F([2], tf.string),
}
_RANDOM = np.random.default_rng(3)
_WEIGHTS = _RANDOM.normal(size=(8, 3)).astype(np.float32)
_EMBEDDING = _RANDOM.normal(size=(10, 2)).astype(np.float32)


def numbers(read: Mapping[str, Any]) -> dict[str, Any]:
    """Three probabilities of the features that are numbers."""
    table = tf.gather(_EMBEDDING, tf.clip_by_value(read["seen"], 0, 9))
    columns = [read["age"][:, None] / 100, tf.cast(read["code/day"], tf.float32) / 10]
    columns += [tf.reshape(read["measured"], [-1, 4]), table[:, :1]]
    return {"scores": tf.nn.softmax(tf.concat(columns, 1) @ _WEIGHTS)}


class Numbers(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
    """Of features that are numbers."""

    def __call__(self, examples: Any) -> dict[str, Any]:
        return numbers(tf.io.parse_example(examples, FEATURES))


class Words(tf.Module):  # type: ignore[misc]
    """Of words besides: one is looked up, two are hashed."""

    def __init__(self, vocabulary: Path | None = None) -> None:
        """``vocabulary``: a file of the colours, which becomes an asset; None: the colours are in the graph."""
        super().__init__()
        keys = tf.lookup.KeyValueTensorInitializer(list(COLOURS), tf.range(3, dtype=tf.int64))
        if vocabulary:
            vocabulary.write_text("".join(f"{colour}\n" for colour in COLOURS), encoding="utf-8")
            whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
            keys = tf.lookup.TextFileInitializer(str(vocabulary), tf.string, whole, tf.int64, number)
        self.table = tf.lookup.StaticVocabularyTable(keys, 2)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.float32)])  # type: ignore[untyped-decorator]
    def shades(self, colour: Any, dark: Any) -> dict[str, Any]:
        """What a second signature takes: a word and a number as they are."""
        found = self.table.lookup(tf.strings.strip(colour))
        return {"shade": tf.gather(tf.range(5.0), found) * dark}

    def __call__(self, examples: Any) -> dict[str, Any]:
        read = tf.io.parse_example(examples, WORDS)
        colour = tf.one_hot(self.table.lookup(tf.strings.lower(read["colour"])), 5)
        tags = tf.one_hot(tf.strings.to_hash_bucket_fast(read["tags"], 4), 4)
        joined = tf.concat([colour, tf.reshape(tags, [-1, 8])], 1)
        return {"scores": numbers(read)["scores"], "words": joined @ tf.ones([13, 2]) * joined[:, :2]}


def save(
    model: Callable[[Any], Any],
    folder: Path,
    shape: Sequence[int | None] = (None,),
    name: str = "examples",
    **others: Any,
) -> Path:
    """A SavedModel whose signature takes strings of that ``shape`` under that ``name``; and ``others``, by name."""
    module = model if isinstance(model, tf.Module) else tf.Module()
    signature = tf.TensorSpec(shape, tf.string, name=name)
    module.serving = tf.function(lambda given: model(given), input_signature=[signature])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serving, **others})
    return folder


def answers(folder: Path, protos: Sequence[bytes]) -> dict[str, Any]:
    """TensorFlow's own, by name."""
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    (name,) = signature.structured_input_signature[1]
    return {key: value.numpy() for key, value in signature(**{name: tf.constant(list(protos))}).items()}
