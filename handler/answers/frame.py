"""The place of the image that was sent in the model's image."""

from __future__ import annotations

from ..answer import ItemOutputs
from ..fit import Fit, place_image
from ..tuples import NamedTuple


class Frame(NamedTuple):
    """The ``fit`` of an image of ``size`` to the model's, of ``shown``. Sizes are (width, height) in pixels."""

    size: tuple[int, int]
    shown: tuple[int, int]
    fit: Fit


def make_frame(item: ItemOutputs) -> Frame:
    """Return the frame of the item's image; for a tensor that of the model's own image."""
    image = item.description.image
    assert image is not None  # the description was checked
    feed = next(port for port in item.description.feeds if port.name == image.feed)
    shown = feed.shape[2], feed.shape[1]
    if item.size is None:
        return Frame(shown, shown, Fit((0, 0, *shown), shown))
    return Frame(item.size, shown, place_image(item.size, image))
