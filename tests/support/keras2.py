"""Models as Keras 2 wrote them: each kind that Keras 3 reads otherwise or not at all, made and saved by tf-keras."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from builder.base.tf import import_tensorflow

Build = Callable[[Any], Any]
"""Makes a model with the package of Keras 2 that it is given."""


def tf_keras() -> Any:
    """Keras 2, with weights that are the same each time."""
    import_tensorflow()
    import tf_keras

    tf_keras.utils.set_random_seed(7)
    return tf_keras


def save(build: Build, path: Path) -> Any:
    """The model that ``build`` makes, with biases that are not zero, saved at ``path`` in the format of its suffix."""
    keras = tf_keras()
    model = build(keras)
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        if not np.any(variable.numpy()):
            variable.assign(random.normal(size=variable.shape))
    model.save(path)
    return model


def without_version(path: Path) -> Path:
    """The same HDF5 file, which then does not say which Keras wrote it."""
    with h5py.File(path, "r+") as file:
        del file.attrs["keras_version"]
    return path


def as_keras_2_13(path: Path) -> Path:
    """The archive as Keras 2.13 wrote it: other names of modules, and of layers' places in the weights.

    It numbered layers of one class through, and those with weights twice.
    """
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["config.json"] = members["config.json"].replace(b"tf_keras.src.", b"keras.src.")
    weights, older = io.BytesIO(members["model.weights.h5"]), io.BytesIO()
    with h5py.File(weights) as file, h5py.File(older, "w") as copy:
        _copy_layers(file, copy)
    members["model.weights.h5"] = older.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def _copy_layers(group: h5py.Group, copy: h5py.Group) -> None:
    for name, value in group.items():
        if name != "layers":
            group.copy(value, copy, name)
            continue
        older = copy.create_group("_layer_checkpoint_dependencies")
        for layer, content in value.items():
            kind, _, number = layer.rpartition("_")
            doubled = f"{kind}_{2 * int(number)}" if kind and number.isdigit() else layer
            _copy_layers(content, older.create_group(doubled))


def examples(model: Any, batch: int = 2) -> list[Any]:
    """Random inputs for ``model``, in the order of its inputs."""
    random = np.random.default_rng(3)
    shapes = [(batch, *(size or 4 for size in tensor.shape[1:])) for tensor in model.inputs]
    whole = [tensor.dtype.is_integer for tensor in model.inputs]
    return [
        random.integers(0, 4, shape).astype(tensor.dtype.name)
        if integer
        else random.normal(size=shape).astype(tensor.dtype.name)
        for tensor, shape, integer in zip(model.inputs, shapes, whole, strict=True)
    ]


def answers(model: Any, feeds: list[Any]) -> list[Any]:
    """What tf-keras answers, in the order of the model's outputs."""
    result = model(feeds if len(feeds) > 1 else feeds[0], training=False)
    return [tensor.numpy() for tensor in import_tensorflow().nest.flatten(result)]


def _sequence(*layers: Callable[[Any], Any], shape: tuple[int, ...] = (6, 4)) -> Build:
    return lambda keras: keras.Sequential([keras.Input(shape), *(layer(keras.layers) for layer in layers)])


def _image(*layers: Callable[[Any], Any]) -> Build:
    return _sequence(*layers, shape=(8, 8, 3))


def _base(keras: Any) -> Any:
    """A functional image model as transfer learning takes it."""
    x = keras.Input((8, 8, 3))
    y = keras.layers.BatchNormalization()(keras.layers.Conv2D(4, 3, activation="relu")(x))
    return keras.Model(x, keras.layers.GlobalAveragePooling2D()(y), name="base")


def _transfer(keras: Any) -> Any:
    x = keras.Input((8, 8, 3))
    return keras.Model(x, keras.layers.Dense(3, activation="softmax")(_base(keras)(x, training=False)))


def _siamese(keras: Any) -> Any:
    """One encoder at two nodes, of which a reader that counts nodes otherwise takes the wrong one."""
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    encoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="tanh")])
    return keras.Model([a, b], [keras.layers.Dense(2)(encoder(a)), encoder(b)])


def _functional(keras: Any) -> Any:
    x = keras.Input((4,), name="x")
    y = keras.layers.Dense(4, activation="relu")(x)
    return keras.Model(x, {"sum": keras.layers.Add()([x, y]), "both": keras.layers.Concatenate()([x, y])})


def _operators(keras: Any) -> Any:
    tf, x = import_tensorflow(), keras.Input((8, 8, 3))
    y = tf.nn.relu(x * 2.0 - 1.0) / 3.0
    return keras.Model(x, tf.reduce_mean(tf.concat([y, tf.cast(x > 0.0, "float32")], -1), axis=[1, 2]))


def _slices(keras: Any) -> Any:
    x = keras.Input((6, 4))
    return keras.Model(x, keras.layers.Dense(2)(x[:, -1] + x[:, 0, :]))


def _attention(keras: Any) -> Any:
    x = keras.Input((6, 4))
    return keras.Model(x, keras.layers.MultiHeadAttention(num_heads=2, key_dim=3)(x, x))


def _mixed(keras: Any) -> Any:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        x = keras.Input((4,))
        y = keras.layers.Dense(8, activation="relu")(x)
        return keras.Model(x, keras.layers.Dense(2, dtype="float32")(y))
    finally:
        keras.mixed_precision.set_global_policy("float32")


def _slashes(keras: Any) -> Any:
    x = keras.Input((4,), name="in/x")
    return keras.Model(x, keras.layers.Dense(2, name="head/logits")(keras.layers.Dense(3, name="block/a")(x)))


def _masked(keras: Any) -> Any:
    x = keras.Input((6,), dtype="int32")
    y = keras.layers.Embedding(4, 3, mask_zero=True)(x)
    return keras.Model(x, keras.layers.LSTM(3)(y))


KINDS: Mapping[str, Build] = {
    "lstm": _sequence(lambda layers: layers.LSTM(3)),
    "gru": _sequence(lambda layers: layers.GRU(3)),
    "bidirectional": _sequence(lambda layers: layers.Bidirectional(layers.LSTM(3, return_sequences=True))),
    "depthwise": _image(lambda layers: layers.DepthwiseConv2D(3, depth_multiplier=2)),
    "separable": _image(lambda layers: layers.SeparableConv2D(4, 3)),
    "transposed": _image(lambda layers: layers.Conv2DTranspose(4, 3, strides=2)),
    "attention": _attention,
    "operators": _operators,
    "slices": _slices,
    "mixed_precision": _mixed,
    "slashes": _slashes,
    "thresholded": _sequence(lambda layers: layers.ThresholdedReLU(0.5)),
    "augmented": _image(
        lambda layers: layers.RandomFlip(), lambda layers: layers.RandomRotation(0.2),
        lambda layers: layers.RandomHeight(0.2), lambda layers: layers.GlobalAveragePooling2D(),
        lambda layers: layers.Dense(2),
    ),
    "cropped": _image(lambda layers: layers.RandomCrop(6, 6)),  # has a branch that draws numbers, and is not taken
    "functional": _functional,
    "transfer": _transfer,
    "siamese": _siamese,
    "hard_sigmoid": _sequence(
        lambda layers: layers.LSTM(3, recurrent_activation="hard_sigmoid", return_sequences=True),
        lambda layers: layers.Dense(2, activation="hard_sigmoid"),
    ),
    "sequential": lambda keras: keras.Sequential([_base(keras), keras.layers.Dense(3)]),
    "masked": _masked,
    "local": _image(lambda layers: layers.LocallyConnected2D(2, 3)),
}  # fmt: skip
"""By a name for each."""
