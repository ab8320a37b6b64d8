"""The [image] section of a first model.toml, with notes on what a person should check in it.

Published image networks leave the scaling of pixels to their callers. The names of their layers tell which it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from builder.config import ImageSpec
from builder.importers.input_scaling import InputScaling
from builder.importers.ports import ASSUMED_SIDE, SMALLEST_SIDE, GraphFacts, ModelPorts, PortInfo, read_image_size

FAMILIES = {
    "keras.applications' ResNetV2": (r"conv2_block1_preact_bn", "tf"),
    "keras.applications' DenseNet": (r"conv2_block1_concat", "torch"),
    "keras.applications' ResNet": (r"conv2_block1_0_conv|res2a_branch2a", "caffe"),
    "keras.applications' Xception": (r"block2_sepconv1", "tf"),
    "keras.applications' VGG": (r"block5_conv3", "caffe"),
    "keras.applications' MobileNet": (r"conv_dw_1|expanded_conv_depthwise", "tf"),
    "keras.applications' Inception": (r"mixed0|mixed_5b", "tf"),
    "keras.applications' NASNet": (r"reduction_bn_1_stem_1", "tf"),
    "TensorFlow-Slim's Inception or MobileNet": (r"InceptionV[1-4]|InceptionResnetV2|MobilenetV[12]", "tf"),
}
"""For each family, a pattern for a layer that no earlier family has, and the mode of its ``preprocess_input``."""


def find_family(nodes: Iterable[str]) -> str:
    """Find the family to which a graph's ``nodes``, named by paths of layers, belong; return "" for none."""
    paths = "\n".join(nodes)  # A loaded Keras model numbers its layers, as in conv_dw_1_1.
    has_layer = (
        name for name, (layer, _) in FAMILIES.items() if re.search(rf"(^|/)({layer})(_\d+)?(/|$)", paths, re.M)
    )
    return next(has_layer, "")


def add_preprocessing(image: ImageSpec, family: str) -> ImageSpec:
    """Add to ``image`` the steps of the ``preprocess_input`` of the ``family``."""
    mode = FAMILIES[family][1]
    if mode == "tf":
        return replace(image, mean=(127.5,), scale=(1 / 127.5,))
    if mode == "caffe":
        return replace(image, mean=(103.939, 116.779, 123.68), scale=(1.0,), channel_order="bgr")
    mean, deviation = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    return replace(image, mean=mean, scale=tuple(float(f"{1 / value:.7g}") for value in deviation))


_PIXELS = {"float16", "bfloat16", "float32", "float64", "int8", "uint8"}

_SOUND = re.compile(
    r"mfcc|spectr|audio|speech|sound|wave|fbank|filter_?bank|log_?mel|keyword|(^|_)(kws|mel|ecg|eeg)(_|$)|yamnet|vggish"
)
_OF_ATTENTION = re.compile(r"mask|attention|past|cache")
"""In names of inputs [n, 1, length, length], or with a few heads."""

_LONGEST = 3
"""A grey feed with a side below SMALLEST_SIDE, and the other side that many times longer, is MFCCs, not an image."""


def draft_image(ports: ModelPorts, name: str, notes: dict[str, str]) -> ImageSpec | None:
    """Draft [image] as the model's files say, or for the first feed that looks like images of the model ``name``."""
    if ports.facts and (known := ports.facts.image):
        notes["image"] = (
            "As the model's own image processor does it. Of photographs, pixels differ from its own by "
            f"{known.mean:.2g} of 255 levels on average, {known.most:.3g} at most."
        )
        if known.image.fit == "contain":
            notes["image.fit"] = (
                "Its own images keep their aspect ratio, the model's have one size: those that are not "
                f"{known.image.width} x {known.image.height} or alike get edges. Another size may be written here."
            )
        return known.image if len(ports.feeds) > 1 else replace(known.image, feed=None)
    feed = next((feed for feed in ports.feeds if _is_image(feed, name)), None)
    size = read_image_size(feed.shape) if feed else None
    if feed is None or size is None:
        return None
    facts = ports.facts or GraphFacts(())
    scaling = next((candidate for candidate in facts.scalings if candidate.feed == feed.name), None)
    height, width, channels = size
    assumed = (scaling and scaling.size) or _read_sides(facts.shapes.get(feed.name)) or (ASSUMED_SIDE, ASSUMED_SIDE)
    for key, side, other in (("width", width, assumed[1]), ("height", height, assumed[0])):
        if side is None:
            notes[f"image.{key}"] = f"Check: the model leaves its {key} open; {other} is assumed."
    if channels == 3 and not (scaling and scaling.reverses):
        notes["image.mode"] = 'Check: a model trained on BGR (OpenCV, Caffe weights) wants channel_order = "bgr".'
    image = ImageSpec(
        feed=feed.name if len(ports.feeds) > 1 else None,
        width=width or assumed[1],
        height=height or assumed[0],
        mode="grey" if channels == 1 else "rgb",
    )
    if feed.dtype == "uint8":
        return image
    if feed.dtype == "int8":
        notes["image.mean"] = "The input is int8: pixels of 0..255 become -128..127."
        return replace(image, mean=(128.0,))
    return _choose_scale(image, scaling, facts.family, notes)


def _read_sides(shape: tuple[int, ...] | None) -> tuple[int, int] | None:
    """Return the height and width at which the model runs, if that is known."""
    height, width, _ = read_image_size(shape) or (None, None, 0)
    return (height, width) if height and width else None


def _is_image(feed: PortInfo, name: str) -> bool:
    size = read_image_size(feed.shape)
    if not size or feed.dtype not in _PIXELS or any(map(_SOUND.search, (feed.name.lower(), name))):
        return False
    if _OF_ATTENTION.search(feed.name.lower()):
        return False
    height, width, channels = size
    sides = sorted((height or ASSUMED_SIDE, width or ASSUMED_SIDE))
    return channels == 3 or sides[0] >= SMALLEST_SIDE or sides[1] <= _LONGEST * sides[0]


def _choose_scale(image: ImageSpec, scaling: InputScaling | None, family: str, notes: dict[str, str]) -> ImageSpec:
    """Add to ``image`` the scaling of pixels of 0..255 that the graph does not do, and to ``notes`` the reason."""
    if scaling and scaling.scales:
        if scaling.expects_levels:
            notes["image.scale"] = f"The graph scales pixels of 0..255 itself: {scaling.describe_steps()}."
            return image
        notes["image.scale"] = f"The graph wants 0..1, by its constants: {scaling.describe_steps()}."
        return replace(image, scale=(1 / 255,))
    if family and image.channels == 3:
        del notes["image.mode"]
        notes["image.scale"] = (
            f"Assumed: the graph does not scale pixels, and its layers are those of {family}, whose "
            'preprocess_input does this. Check against the training code; "1/255" and mean 0 give 0..1.'
        )
        return add_preprocessing(image, family)
    notes["image.scale"] = (
        f"Assumed: the graph {'does not scale pixels' if scaling else 'could not be followed'}. Check against the "
        'training code: "1/255" and mean 0 for 0..1, "1/127.5" and mean 127.5 for -1..1, 1 and mean 0 for 0..255.'
    )
    return replace(image, scale=(1 / 255,))
