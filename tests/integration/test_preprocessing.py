"""What the function makes of a photograph, against ``tf.io.decode_jpeg`` and ``tf.image.resize``.

Levels are of 255. TensorFlow's float32 answer is clipped to 0 to 255; the function's is rounded once, so 0.5 is all
that could be asked for. Pillow's bilinear filter rounds between its two passes as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from builder import config
from builder.base.tf import import_tensorflow
from builder.importers.spec_steps import image_to_input
from handler.budget import RequestLimits
from handler.description import ImageInput
from handler.image import read_pixels

PHOTOS = Path(__file__).parents[1] / "data"
UPRIGHT = ["face.jpg", "astronaut.jpg", "coffee.jpg"]
SIZES = [(64, 64), (224, 224), (96, 130), (171, 100), (500, 61), (1, 1)]
METHODS = {"nearest": "nearest", "bilinear": "bilinear", "bicubic": "bicubic", "area": "area", "lanczos": "lanczos3"}
TOLERANCE = {
    ("nearest", True): 0,
    ("nearest", False): 0,
    ("bilinear", True): 1.01,
    ("bicubic", False): 0.75,  # TensorFlow's table of 1024 fractions, in float32
}
OTHERWISE = 0.52

Levels = NDArray[np.float64]


def ours(name: str, size: tuple[int, int], mode: str = "rgb", fit: str = "stretch", **rest: Any) -> Levels:
    target = ImageInput("image", *size, mode, fit, rest.pop("resize", "bilinear"), **{"decode": "exact"} | rest)
    raw = read_pixels((PHOTOS / name).read_bytes(), "it", target, RequestLimits())
    return np.frombuffer(raw, np.uint8).reshape(size[1], size[0], -1).astype(np.float64)


def decoded(name: str, channels: int = 3) -> Any:
    """With libjpeg's accurate transform, which is Pillow's; TensorFlow's default is the fast one."""
    data = (PHOTOS / name).read_bytes()
    return import_tensorflow().io.decode_jpeg(data, channels=channels, dct_method="INTEGER_ACCURATE")


def clipped(tensor: Any) -> Levels:
    return np.clip(tensor.numpy().astype(np.float64), 0, 255)


@pytest.mark.parametrize("name", UPRIGHT)
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("resize", METHODS)
@pytest.mark.parametrize(("mode", "channels"), [("rgb", 3), ("grey", 1)])
def test_every_method_agrees(name: str, resize: str, antialias: bool, mode: str, channels: int) -> None:
    picture = decoded(name, channels)
    for size in SIZES:
        theirs = clipped(import_tensorflow().image.resize(picture, size[::-1], METHODS[resize], antialias=antialias))
        difference = np.abs(ours(name, size, mode, resize=resize, antialias=antialias) - theirs)
        assert difference.max() <= TOLERANCE.get((resize, antialias), OTHERWISE), size


@pytest.mark.parametrize("name", UPRIGHT)
@pytest.mark.parametrize("size", SIZES)
def test_cover_is_keras_smart_resize(name: str, size: tuple[int, int]) -> None:
    """Which is what ``image_dataset_from_directory(crop_to_aspect_ratio=True)`` does."""
    import_tensorflow()
    from keras.preprocessing.image import smart_resize

    theirs = smart_resize(decoded(name).numpy(), size[::-1], interpolation="bilinear")
    difference = np.abs(ours(name, size, fit="cover", antialias=False) - theirs)
    assert difference.max() <= OTHERWISE


@pytest.mark.parametrize("name", UPRIGHT)
@pytest.mark.parametrize("size", SIZES[:-1])
def test_contain_is_resize_with_pad(name: str, size: tuple[int, int]) -> None:
    theirs = clipped(import_tensorflow().image.resize_with_pad(decoded(name), size[1], size[0]))
    difference = np.abs(ours(name, size, fit="contain", antialias=False) - theirs)
    assert difference.max() <= OTHERWISE


@pytest.mark.parametrize("name", UPRIGHT)
def test_the_fast_ways_are_nearer_than_tensorflows_own(name: str) -> None:
    """TensorFlow decodes JPEGs with libjpeg's fast transform unless told otherwise; our fast way is to decode at a part
    of the size. The latter changes the model's input less."""
    tf = import_tensorflow()
    data = (PHOTOS / name).read_bytes()
    size = (20, 20)
    theirs = clipped(tf.image.resize(tf.io.decode_jpeg(data, channels=3), size, "bilinear", antialias=True))
    accurate = clipped(tf.image.resize(decoded(name), size, "bilinear", antialias=True))
    fast = np.abs(ours(name, size, decode="fast") - accurate)
    assert 0.5 < fast.max() <= 5
    assert fast.mean() <= 0.75
    assert np.abs(ours(name, size, decode="fast") - theirs).mean() <= 1.5


@pytest.mark.parametrize("name", UPRIGHT)
def test_opencv(name: str) -> None:
    """As docs/images.md says which of OpenCV's ways are had by which settings."""
    colour, grey = (cv2.imread(str(PHOTOS / name), flag) for flag in (cv2.IMREAD_COLOR, cv2.IMREAD_GRAYSCALE))
    assert colour is not None
    assert grey is not None

    def bgr(size: tuple[int, int], **rest: Any) -> Levels:
        own = ours(name, size, **rest)[None]
        image = config.ImageSpec(None, *size, "rgb", channel_order="bgr")
        return np.asarray(image_to_input(own, image, import_tensorflow().float32, own.shape)[0], np.float64)

    for size in SIZES:
        linear = cv2.resize(colour, size)
        assert np.abs(bgr(size, antialias=False) - linear).max() <= 1, size
        brightness = cv2.resize(grey, size)
        assert np.abs(ours(name, size, "grey", antialias=False)[..., 0] - brightness).max() <= 1, size
        nearest = cv2.resize(colour, size, interpolation=cv2.INTER_NEAREST)
        others = (bgr(size, resize="nearest", grid="asymmetric") != nearest).any(-1)
        assert others.mean() <= 0.08, size  # taken from the pixel beside
        if size[0] <= colour.shape[1] and size[1] <= colour.shape[0]:
            area = cv2.resize(colour, size, interpolation=cv2.INTER_AREA)
            assert np.abs(bgr(size, resize="area") - area).max() <= 1, size
