"""What an image processor of transformers does, in the words of ``[image]``.

A processor's settings mean something else in each class. So it is asked: what it makes of plain colours tells ``mean``,
``scale`` and ``channel_order``, and what it makes of photographs tells which of the placements that its sizes may mean
is the one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.config import ImageSpec
from builder.config.schema import Resize
from builder.importers.frameworks.placed_photographs import (
    make_photographs,
    measure_placement,
    require_near,
    round_number,
    round_numbers,
)
from builder.importers.ports import ImageFacts

_RESAMPLING: dict[int, Resize] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""The names of Pillow's numbers."""

_COLOURS = ((0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255))


@dataclass(frozen=True)
class _Objects:
    """What a model of objects answers, by the names that processors read."""

    logits: torch.Tensor
    pred_boxes: torch.Tensor


class ImageProcessor:
    """The image processor of the folder ``path``. Raises ImportModelError if it cannot be loaded."""

    def __init__(self, path: Path) -> None:
        try:
            self.processor = transformers.AutoImageProcessor.from_pretrained(
                path, local_files_only=True, backend="pil", trust_remote_code=False
            )
        except Exception as error:  # Processors are of many kinds.
            raise ImportModelError(
                f"{path.name}: its image processor cannot be loaded: {describe_error(error)}"
            ) from error
        self.name = f"{path.name}: its image processor, {type(self.processor).__name__.removesuffix('Pil')},"

    def process_images(self, pixels: Array) -> Array:
        """Return what the model gets for uint8 pixels [images, height, width, 3] that have its own size already."""
        return self._process_pictures(list(pixels), do_resize=False, do_center_crop=False)

    def require_best_classes(self, count: int) -> None:
        """Raise ImportModelError unless each object gets the best of ``count`` classes, and its probability.

        Its box must be a centre and a size.
        """
        random = torch.Generator().manual_seed(0)
        logits, boxes = torch.randn(1, 9, count + 1, generator=random), torch.rand(1, 9, 4, generator=random)
        probabilities = logits.softmax(-1)[0, :, :-1]
        corners = torch.cat([boxes[0, :, :2] - boxes[0, :, 2:] / 2, boxes[0, :, :2] + boxes[0, :, 2:] / 2], -1)
        best = {"scores": probabilities.amax(-1), "labels": probabilities.argmax(-1), "boxes": corners}
        try:
            (found,) = self.processor.post_process_object_detection(_Objects(logits, boxes), threshold=0)
            same = all(torch.allclose(found[name], value, atol=1e-5) for name, value in best.items())
        except Exception:  # It may be of another task.
            same = False
        if not same:
            raise ImportModelError(f"{self.name} finds objects in the model's answers in a way that is not supported.")

    def describe_images(self, feed: str, may_pad: bool = False) -> ImageFacts:
        """Return the section [image] of the input ``feed``. Raises ImportModelError if there is none that will do.

        ``may_pad``: images of another aspect ratio may have edges around them, if the processor's sizes are different.
        """
        pictures = list(make_photographs())
        wanted = [self._process_pictures([picture])[0] for picture in pictures]
        padded = len({pixels.shape for pixels in wanted}) > 1
        if padded and not may_pad:
            raise ImportModelError(f"{self.name} gives images of different sizes, and a function's model has one.")
        if padded:
            pictures, wanted = pictures[:1], wanted[:1]
        order, mean, scale = self._read_numbers()
        _, height, width = wanted[0].shape
        method = _RESAMPLING.get(self.processor.resample)
        if not method:
            number = self.processor.resample
            raise ImportModelError(f"{self.name} resizes by Pillow's method {number}, which the function lacks.")
        image = ImageSpec(
            feed,
            width,
            height,
            channel_order="bgr" if order < 0 else "rgb",
            scale=scale,
            mean=mean,
            resize=method,
        )
        if padded:
            colour = tuple(round(min(max(value, 0), 255)) for value in mean[::order])
            image = replace(image, fit="contain", padding=colour)
        levels = [np.moveaxis(pixels[::order], 0, -1) / scale[::order] + mean[::order] for pixels in wanted]
        found = [measure_placement(placed, pictures, levels) for placed in self._list_placements(image)]
        return require_near(min(found, key=lambda facts: facts.mean), self.name)

    def _process_pictures(self, images: Sequence[Any], **options: bool) -> Array:
        try:
            made = self.processor(images=images, return_tensors="np", input_data_format="channels_last", **options)
            return np.asarray(made["pixel_values"], np.float32)
        except Exception as error:  # Processors are of many kinds.
            raise ImportModelError(f"{self.name} does not take photographs: {describe_error(error)}") from error

    def _read_numbers(self) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
        """Return the step through the channels (-1 for BGR), and mean and scale of each in the model's order."""
        plain = np.array(_COLOURS, np.uint8)[:, None, None] + np.zeros((64, 64, 1), np.uint8)
        black, *colours = self.process_images(plain).astype(np.float64).mean((2, 3))
        ranges = np.array(colours) - black
        order = 1 if np.trace(abs(ranges)) > np.trace(abs(ranges[::-1])) else -1
        scale = np.diag(ranges[::order]) / 255
        noise = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3), np.uint8)
        told = np.moveaxis(noise[..., ::order], -1, 1) * scale[:, None, None] + black[:, None, None]
        if not np.allclose(self.process_images(noise), told, atol=1e-3 * abs(ranges).max()):
            raise ImportModelError(f"{self.name} does more to pixels than (pixel - mean) * scale.")
        return order, round_numbers(-black / scale), round_numbers(scale)

    def _list_placements(self, image: ImageSpec) -> Iterator[ImageSpec]:
        """Yield ``image`` with each placement that the processor's sizes may mean."""
        size, shorter = self.processor.size, min(image.width, image.height)
        short = size.shortest_edge or size.height or shorter
        part = getattr(self.processor, "crop_pct", None) or 1
        yield image
        if image.fit == "contain":
            return
        if size.height and size.height > image.height:
            yield replace(image, fit="stretch_exact", crop=round_number(image.height / size.height))
        for side in (short, int(short / part), int(256 / 224 * short)):  # The last is LeViT's.
            if side >= shorter:
                yield replace(image, fit="short_exact", crop=round_number(shorter / side))
