"""The peers' functions of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service import FOLDER, Handler, answering, settings

__all__ = ["FOLDER", "serve"]


def serve(infer: Callable[[str], Any]) -> Handler:
    """Return a handler with ``infer``, from a text to its embedding, an array of length 1."""
    return answering(settings(), lambda event: event["text"], infer, lambda vector: vector.tolist())
