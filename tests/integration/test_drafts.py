"""Drafts of real models: [image] against what the framework says its training fed, lengths, and kinds of outputs.

Each model stands beside what it is to be given for pixels of 0..255: the pixels themselves where it preprocesses them
inside, or what its framework's own ``preprocess_input`` makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.tf import import_tensorflow
from builder.config import ImageSpec, Source
from builder.importers.draft import draft_spec
from builder.importers.draft_image import add_preprocessing, find_family
from builder.importers.input_scaling import InputScaling
from builder.importers.model_description import describe_model
from builder.importers.ports import ModelPorts
from builder.importers.spec_steps import image_to_input
from tests.support import needs

pytestmark = pytest.mark.integration

tf = import_tensorflow()
keras: Any = needs.needs_module("keras")
L: Any = keras.layers
A: Any = keras.applications

Array = np.ndarray[Any, Any]
SIDE = 20
PIXELS = np.random.default_rng(3).integers(0, 256, (1, SIDE, SIDE, 3)).astype(np.uint8)
MEAN, DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
LEVELS = PIXELS.astype(np.float32)


def classifier(front: Callable[[Any], Any], side: int | None = SIDE, channels: int = 3) -> Any:
    image = keras.Input((side, side, channels), name="picture")
    x = L.GlobalAveragePooling2D()(L.Conv2D(2, 3)(front(image)))
    return keras.Model(image, L.Dense(4, activation="softmax", name="scores")(x))


def drafted(model: Any, path: Path) -> tuple[ImageSpec, InputScaling]:
    """The draft's [image], and what was found in the graph."""
    model.save(path)
    return of_file(path)


def of_file(path: Path) -> tuple[ImageSpec, InputScaling]:
    read: list[ModelPorts] = []

    def look(source: Source, path: Path) -> ModelPorts:
        read.append(describe_model(source, path, thorough=True))
        return read[-1]

    image = draft_spec(path, look).spec.image
    assert image is not None
    assert read[0].facts is not None
    (scaling,) = read[0].facts.scalings
    return image, scaling


def given(image: ImageSpec) -> Array:
    """What the model is given for PIXELS, by the code that is compiled in."""
    answer: Array = image_to_input(tf.constant(PIXELS), image, tf.float32, LEVELS.shape).numpy()
    return answer


def applied(scaling: InputScaling) -> Array:
    ordered = LEVELS[..., ::-1] if scaling.reverses else LEVELS
    return np.asarray(ordered * np.array(scaling.scale) + np.array(scaling.offset))


def adapted(data: Array) -> Any:
    layer = L.Normalization()
    layer.adapt(data)
    return layer


def trained_batch_norm(data: Array) -> Any:
    layer = L.BatchNormalization(epsilon=1e-5)
    layer.build(data.shape)
    layer.set_weights([np.ones(3), np.zeros(3), data.mean((0, 1, 2)), data.var((0, 1, 2))])
    return layer


INSIDE: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "to -1..1": lambda: L.Rescaling(1 / 127.5, -1),
    "to 0..1": lambda: L.Rescaling(1 / 255),
    "adapted": lambda: adapted(LEVELS),
    "two steps": lambda: lambda x: L.Normalization(mean=[0.4, 0.5, 0.6], variance=[0.04, 0.05, 0.06])(x / 255.0),
    "batch norm": lambda: trained_batch_norm(LEVELS),
    "tf": lambda: A.mobilenet_v2.preprocess_input,
    "caffe": lambda: A.resnet50.preprocess_input,
    "torch": lambda: A.densenet.preprocess_input,
    "resized": lambda: lambda x: L.Rescaling(1 / 255)(L.Resizing(12, 14)(x)),
    "reversed": lambda: lambda x: keras.ops.flip(x, -1) - np.float32([104, 117, 123]),
}
UNITS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "torchvision's Normalize": lambda: lambda x: (x - MEAN) / DEVIATION,
    "adapted": lambda: adapted(LEVELS / 255),
    "batch norm": lambda: trained_batch_norm(LEVELS / 255),
    "to -1..1": lambda: lambda x: x * 2.0 - 1.0,
    "back to levels": lambda: lambda x: x * 255.0,
    "around 0": lambda: lambda x: x - 0.5,
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_a_model_that_scales_levels_gets_them_as_they_are(name: str, tmp_path: Path) -> None:
    front = INSIDE[name]()
    image, scaling = drafted(classifier(front), tmp_path / "m.keras")
    np.testing.assert_array_equal(given(image), LEVELS)
    if scaling.size is None:
        np.testing.assert_allclose(applied(scaling), front(tf.constant(LEVELS)), rtol=1e-4, atol=1e-3)
    assert scaling.size == ((12, 14) if name == "resized" else None)


@pytest.mark.parametrize("name", UNITS)
def test_a_model_whose_constants_are_of_units_gets_these(name: str, tmp_path: Path) -> None:
    front = UNITS[name]()
    image, scaling = drafted(classifier(front), tmp_path / "m.keras")
    np.testing.assert_allclose(given(image), LEVELS / 255, rtol=1e-6)
    np.testing.assert_allclose(applied(scaling), front(tf.constant(LEVELS)), rtol=1e-4, atol=1e-3)


def test_a_model_that_does_not_scale_is_assumed_to_want_units(tmp_path: Path) -> None:
    image, scaling = drafted(classifier(lambda x: L.ZeroPadding2D()(x)), tmp_path / "m.keras")
    assert not scaling.scales
    np.testing.assert_allclose(given(image), LEVELS / 255, rtol=1e-6)


def test_a_map_across_channels_or_of_several_branches_is_none(tmp_path: Path) -> None:
    mixed = {
        "grey": lambda x: keras.ops.matmul(x / 255.0, np.full((3, 3), 1 / 3, np.float32)),
        "swapped": lambda x: keras.ops.take(x / 255.0, np.array([1, 0, 2]), -1),
        "two": lambda x: L.Conv2D(3, 1)(x) + L.Conv2D(3, 1)(x / 255.0),
        "clipped": lambda x: keras.ops.clip(x, 0, 128) / 128.0,
    }
    for name, front in mixed.items():
        path = tmp_path / f"{name}.keras"
        classifier(front).save(path)
        facts = describe_model(Source("keras", path), path, thorough=True).facts
        assert facts is not None
        assert [one.scales for one in facts.scalings] in ([], [False] if name == "clipped" else [True]), name


def test_a_saved_model_tells(tmp_path: Path) -> None:
    path = tmp_path / "1"
    classifier(A.resnet50.preprocess_input).export(path, verbose=False)
    facts = describe_model(Source("saved_model", path), path, thorough=True).facts
    assert facts is not None
    (scaling,) = facts.scalings
    np.testing.assert_allclose(applied(scaling), A.resnet50.preprocess_input(LEVELS.copy()), rtol=1e-5, atol=1e-3)
    assert set(facts.endings.values()) == {"Softmax"}


def test_a_frozen_graph_with_pixels_channels_first(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.uint8, (None, SIDE, SIDE, 3), "pixels")
        bgr = tf.reverse(tf.cast(x, tf.float32), [-1]) - [104.0, 117.0, 123.0]
        small = tf.compat.v1.image.resize_bilinear(bgr, (8, 8)) * 0.017
        flat = tf.reshape(tf.transpose(small, (0, 3, 1, 2)), (-1, 192))
        tf.nn.softmax(tf.matmul(flat, tf.ones((192, 4))), name="out")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    image, scaling = of_file(path)
    assert image.scale == (1.0,)
    assert scaling == InputScaling("pixels", (0.017,) * 3, (-1.768, -1.989, -2.091), True, (8, 8))


def families() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """A network of each family of keras.applications without preprocessing inside, and the module that has its own."""
    yield from (
        ("ResNet50", A.resnet50, {}),
        ("ResNet50V2", A.resnet_v2, {}),
        ("VGG16", A.vgg16, {}),
        ("MobileNet", A.mobilenet, {"alpha": 0.25}),
        ("MobileNetV2", A.mobilenet_v2, {"alpha": 0.35}),
        ("DenseNet121", A.densenet, {}),
        ("InceptionV3", A.inception_v3, {"input_shape": (75, 75, 3)}),
        ("Xception", A.xception, {"input_shape": (75, 75, 3)}),
        ("NASNetMobile", A.nasnet, {"input_shape": None}),
        # Its own does nothing, as the network does it all unless told otherwise.
        ("MobileNetV3Small", A.mobilenet_v2, {"include_preprocessing": False}),
    )


def test_each_family_without_preprocessing_gets_its_own() -> None:
    wrong = {}
    for name, module, options in families():
        options = {"weights": None, "include_top": False, "input_shape": (32, 32, 3)} | options
        with keras.StatelessScope():  # weights are not drawn
            layers = [layer.name for layer in getattr(A, name)(**options, name="mine").layers]
        for nodes in ([f"mine/{layer}/x" for layer in layers], [f"model/mine_1/{layer}_1/x" for layer in layers]):
            family = find_family(nodes)
            image = ImageSpec(None, SIDE, SIDE, "rgb")
            off = (
                np.abs(given(add_preprocessing(image, family)) - module.preprocess_input(LEVELS.copy()))
                if family
                else [99]
            )
            if np.max(off) > 1e-3:
                wrong[name] = family, np.max(off)
    assert not wrong


def test_the_family_of_a_file_is_known(tmp_path: Path) -> None:
    whole = A.MobileNet(weights=None, alpha=0.25, input_shape=(32, 32, 3), include_top=False, name="mine")
    image, scaling = drafted(keras.Model(whole.input, whole.get_layer("conv_pw_1").output), tmp_path / "m.keras")
    assert not scaling.scales
    np.testing.assert_allclose(given(image), A.mobilenet.preprocess_input(LEVELS.copy()), atol=1e-5)


@pytest.mark.parametrize("name", ["EfficientNetB0", "MobileNetV3Small", "ConvNeXtTiny"])
def test_families_with_preprocessing_inside_get_levels(name: str, tmp_path: Path) -> None:
    whole = getattr(A, name)(weights=None, include_top=False, input_shape=(32, 32, 3))
    first = next(layer for layer in whole.layers if layer.output.shape[-1] != 3)
    image, scaling = drafted(keras.Model(whole.input, first.output), tmp_path / "m.keras")
    assert scaling.scales
    np.testing.assert_array_equal(given(image), LEVELS)


def test_the_size_that_the_graph_resizes_to_is_taken_where_sides_are_open(tmp_path: Path) -> None:
    image, _ = drafted(classifier(lambda x: L.Resizing(24, 28)(x), side=None), tmp_path / "m.keras")
    assert (image.height, image.width) == (24, 28)


def at_most_32() -> Any:
    ids = keras.Input((None,), dtype="int32", name="ids")
    length = keras.ops.shape(ids)[1]
    x = L.Embedding(50, 4)(ids) + L.Embedding(32, 4)(keras.ops.arange(32))[:length]
    return keras.Model(ids, L.GlobalAveragePooling1D()(x))


def more_than_10_000() -> Any:
    bases = keras.Input((None, 4), name="bases")
    return keras.Model(bases, L.Cropping1D(5000)(L.Conv1D(2, 3)(bases)))


@pytest.mark.parametrize(("make", "length"), [(at_most_32, 32), (more_than_10_000, 16_000)])
def test_an_open_length_is_one_that_runs(make: Callable[[], Any], length: int, tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    make().save(path)
    (feed,) = draft_spec(path, describe_model).spec.feeds  # as `inspect` reads it, too
    assert feed.shape is not None
    assert feed.shape[1] == length


def test_the_op_that_an_output_ends_in_decides_what_it_is(tmp_path: Path) -> None:
    x = keras.Input((12,), name="x")
    hidden = L.Dense(5, activation="relu", name="hidden")(x)
    ends = {
        "classes": L.Dense(4, activation="softmax"),
        "log_classes": L.Dense(4, activation="log_softmax"),
        "attributes": L.Dense(4, activation="sigmoid"),
        "again": L.Dense(12, activation="sigmoid"),  # an autoencoder's
        "landmarks": L.Dense(10, activation="sigmoid"),
        "coordinates": L.Dense(4),
        "logits": L.Dense(4),
        "reshaped": lambda y: L.Reshape((4,))(L.Softmax()(L.Reshape((2, 2))(L.Dense(4)(y)))),
    }
    model = keras.Model(x, {name: end(hidden) for name, end in ends.items()})
    model.save(tmp_path / "m.keras")
    model.export(tmp_path / "m", verbose=False)
    for path in (tmp_path / "m.keras", tmp_path / "m"):
        spec = draft_spec(path, lambda source, path: describe_model(source, path, thorough=True)).spec
        assert {one.name: (one.kind, one.activation) for one in spec.outputs} == {
            "classes": ("classification", "none"),
            "log_classes": ("classification", "softmax"),
            "attributes": ("classification", "none"),
            "again": ("raw", "none"),
            "landmarks": ("raw", "none"),
            "coordinates": ("raw", "none"),
            "logits": ("classification", "softmax"),
            "reshaped": ("classification", "none"),
        }
