"""SavedModels that take encoded pictures and answer in words, as people export them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.tf import import_tensorflow

tf = import_tensorflow()
LABELS = ("ant", "bee", "cat", "dog")
_WEIGHTS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def head(pictures: Any) -> Any:
    """Four probabilities of each of ``pictures`` [n, height, width, 1 or 3], whose numbers are about 0 to 1."""
    return tf.nn.softmax(tf.reduce_mean(pictures, (1, 2)) @ tf.constant(_WEIGHTS[: pictures.shape[-1]]))


def each(function: Callable[[Any], Any], data: Any, dtype: Any = None) -> Any:
    return tf.map_fn(function, data, fn_output_signature=dtype or tf.float32)


def plain(data: Any) -> Any:
    """The usual one: what TensorFlow Serving's guides do."""
    small = each(lambda one: tf.image.resize(tf.io.decode_jpeg(one, channels=3), (40, 32)), data)
    return {"y": head(small / 255)}


def alone(data: Any) -> Any:
    """One picture, without a batch."""
    picture = tf.image.convert_image_dtype(tf.io.decode_image(data, 3, expand_animations=False), tf.float32)
    picture = tf.image.resize(picture, (64, 48), "bicubic", antialias=True)
    return {"y": head((picture[None] - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225])}


def grey(data: Any) -> Any:
    small = each(lambda one: tf.image.resize(tf.io.decode_png(one, channels=1), (28, 28), "area"), data)
    return {"y": head(small / 127.5 - 1)}


def padded(data: Any) -> Any:
    """[n, 1] strings, and a batch that is asked for."""
    data = tf.reshape(data, [-1])
    small = each(lambda one: tf.image.resize_with_pad(tf.io.decode_jpeg(one, channels=3), 96, 80), data)
    return {"y": head(tf.reshape(small, [tf.shape(data)[0], 96, 80, 3]) / 255)}


def base64(data: Any) -> Any:
    def prepared(one: Any) -> Any:
        return tf.image.resize(tf.io.decode_jpeg(tf.io.decode_base64(one), channels=3), (40, 40)) / 255

    return {"y": head(each(prepared, data))}


def normalised(data: Any) -> Any:
    """In blue, green, red; in a function of its own."""

    @tf.function
    def prepared(one: Any) -> Any:
        small = tf.image.resize(tf.io.decode_jpeg(one, channels=3), (40, 40))
        return (small[..., ::-1] / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]

    return {"y": head(each(prepared, data))}


def cut_off(data: Any) -> Any:
    """Whole numbers, which a cast made."""

    def prepared(one: Any) -> Any:
        return tf.cast(tf.image.resize(tf.io.decode_jpeg(one, channels=3), (40, 40), antialias=True), tf.uint8)

    return {"y": head(tf.image.convert_image_dtype(each(prepared, data, tf.uint8), tf.float32))}


def labelled(data: Any) -> Any:
    """Scores, the classes as TensorFlow's classifiers give them, the best one's label and the best two's."""
    y, names = plain(data)["y"], tf.constant(LABELS)
    values, best = tf.math.top_k(y, 2)
    return {
        "scores": y,
        "classes": tf.tile(names[None], [tf.shape(y)[0], 1]),
        "label": tf.gather(names, tf.argmax(y, -1)),
        "best": tf.gather(names, best),
        "values": values,
    }


def cropped(data: Any) -> Any:
    """As Inception's exports do."""

    def prepared(one: Any) -> Any:
        picture = tf.image.convert_image_dtype(tf.io.decode_jpeg(one, channels=3), tf.float32)
        return tf.image.resize(tf.image.central_crop(picture, 0.875), (56, 48))

    return {"y": head((each(prepared, data) - 0.5) * 2)}


def square(data: Any) -> Any:
    """As TensorFlow's model garden exports: the square in the middle of 7/8 of the short side."""

    def prepared(one: Any) -> Any:
        picture = tf.io.decode_jpeg(one, channels=3)
        left, top, side = _middle(tf.shape(picture)[0], tf.shape(picture)[1])
        cut = tf.slice(picture, tf.stack([left, top, 0]), tf.stack([side, side, -1]))
        return tf.reshape(tf.image.resize(cut, (56, 56)), (56, 56, 3))

    return {"y": head(each(prepared, data) / 255)}


def square_by_the_decoder(data: Any) -> Any:
    """As EfficientNet's: the decoder leaves out what is not wanted."""

    def prepared(one: Any) -> Any:
        shape = tf.image.extract_jpeg_shape(one)
        left, top, side = _middle(shape[0], shape[1])
        cut = tf.image.decode_and_crop_jpeg(one, tf.stack([left, top, side, side]), channels=3)
        return tf.image.resize(cut, (56, 56), "bicubic")

    return {"y": head(each(prepared, data) / 255)}


def _middle(height: Any, width: Any) -> tuple[Any, Any, Any]:
    side = tf.cast(224 / (224 + 32) * tf.cast(tf.minimum(height, width), tf.float32), tf.int32)
    return (height - side + 1) // 2, (width - side + 1) // 2, side


def short(data: Any) -> Any:
    def prepared(one: Any) -> Any:
        picture = tf.io.decode_jpeg(one, channels=3)
        sides = tf.cast(tf.shape(picture)[:2], tf.float32)
        small = tf.image.resize(picture, tf.cast(sides * (64 / tf.reduce_min(sides)), tf.int32), antialias=True)
        return tf.image.resize_with_crop_or_pad(small, 56, 48)

    return {"y": head(each(prepared, data) / 255)}


def corner(data: Any) -> Any:
    """The upper left quarter."""

    def prepared(one: Any) -> Any:
        picture = tf.io.decode_jpeg(one, channels=3)
        height, width = tf.unstack(tf.shape(picture)[:2])
        return tf.image.resize(picture[: height // 2, : width // 2], (40, 40))

    return {"y": head(each(prepared, data) / 255)}


def by_tensorflow_1(method: str = "bilinear", **options: bool) -> Callable[[Any], Any]:
    """The resizing of TensorFlow 1."""
    resize = getattr(tf.compat.v1.image, f"resize_{method}")

    def prepared(one: Any) -> Any:
        picture = tf.cast(tf.io.decode_jpeg(one, channels=3), tf.float32)[None]
        return resize(picture, (40, 32), **options)[0]

    return lambda data: {"y": head(each(prepared, data) / 255)}


def short_side(data: Any) -> Any:
    def prepared(one: Any) -> Any:
        picture = tf.io.decode_jpeg(one, channels=3)
        sides = tf.cast(tf.shape(picture)[:2], tf.float32)
        small = tf.image.resize(picture, tf.cast(tf.round(sides * 64 / tf.reduce_min(sides)), tf.int32))
        return tf.image.resize_with_crop_or_pad(small, 56, 56) / 255

    return {"y": head(each(prepared, data))}


def save(function: Callable[[Any], Any], path: Path, shape: Sequence[int | None] = (None,)) -> Path:
    """``function`` of strings "data" of that shape as the SavedModel at ``path``."""
    module = tf.Module()
    module.serve = tf.function(function, input_signature=[tf.TensorSpec(shape, tf.string, name="data")])
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.serve})
    return path


def save_with_key(path: Path) -> Path:
    """As AutoML exports it: a key that comes back with the answer, and the classes' names."""
    module = tf.Module()
    strings = tf.TensorSpec([None], tf.string)

    @tf.function(input_signature=[strings, strings])
    def serve(image_bytes: Any, key: Any) -> Any:
        found = labelled(image_bytes)
        return {"key": tf.identity(key), "labels": found["classes"], "scores": found["scores"]}

    module.serve = serve
    tf.saved_model.save(module, str(path), signatures={"serving_default": serve})
    return path


def save_with_table(path: Path) -> Path:
    """A number in, its label by a table that an init op fills out."""
    module = tf.Module()
    filled = tf.lookup.KeyValueTensorInitializer(tf.range(4, dtype=tf.int64), tf.constant(LABELS))
    module.table = tf.lookup.StaticHashTable(filled, "?")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def serve(x: Any) -> Any:
        y = tf.nn.softmax(x)
        return {"label": module.table.lookup(tf.argmax(y, -1)), "y": y}

    tf.saved_model.save(module, str(path), signatures={"serving_default": serve})
    return path


def save_of_tensorflow_1(path: Path) -> Path:
    """Loops as TensorFlow 1 has them, variables, and a table filled from constants."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_control_flow_v2()
        data = v1.placeholder(tf.string, [None], name="data")
        small = v1.map_fn(lambda one: tf.image.resize(tf.io.decode_jpeg(one, channels=3), (40, 32)), data, tf.float32)
        weights = v1.get_variable("weights", initializer=_WEIGHTS, use_resource=False)
        y = tf.nn.softmax(tf.reduce_mean(small / 255, (1, 2)) @ weights)
        filled = tf.lookup.KeyValueTensorInitializer(tf.range(4, dtype=tf.int64), tf.constant(LABELS))
        table = tf.lookup.StaticHashTable(filled, "?")
        best = tf.math.top_k(y, 2)[1]
        outputs = {"classes": table.lookup(tf.cast(best, tf.int64)), "scores": y}
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.predict_signature_def({"data": data}, outputs)
        init = v1.tables_initializer()
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, main_op=init)
        builder.save()
    v1.enable_control_flow_v2()
    return path
