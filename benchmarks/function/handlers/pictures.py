"""The peers' functions of images, with our own image code, so that every engine gets exactly the same pixels."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from typing import Any

from service import FOLDER, Handler, answering, settings

from handler.budget import RequestLimits
from handler.description import ImageInput
from handler.image import load_decoders, read_pixels

__all__ = ["FOLDER", "serve"]


def serve(infer: Callable[[bytes], Sequence[float]]) -> Handler:
    """Return a handler with ``infer``, from raw pixels, uint8 row-major, to a probability for each label."""
    names = settings()
    labels, image = names["labels"], ImageInput(**names["image"])
    load_decoders()
    limits = RequestLimits.for_memory(int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]))

    def decode(event: dict[str, Any]) -> bytes:
        return read_pixels(base64.b64decode(event["image"], validate=True), "image", image, limits)

    def show(probabilities: Sequence[float]) -> list[dict[str, Any]]:
        ranked = sorted(zip(labels, probabilities, strict=True), key=lambda pair: -pair[1])
        return [{"label": label, "probability": float(value)} for label, value in ranked]

    return answering(names, decode, infer, show)
