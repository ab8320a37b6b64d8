"""Screens for progress. Texts are one line each, without control characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TextIO

Style = Literal["plain", "name", "soft", "bad"]
"""The style of a piece of a line; a screen without colours shows all in the same way."""

SetProgress = Callable[[int, int | None, str], None]
"""A function that shows in a live line how many of how many (None: unknown) are done, and the current one if any."""


class PlainScreen:
    """Plain lines, as for a log, or nothing if ``stream`` is None. Tasks have no lines until they have ended."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream

    def print_line(self, *pieces: tuple[str, Style]) -> None:
        """Print a line that stays."""
        if self.stream:
            print("".join(text for text, _ in pieces), file=self.stream, flush=True)

    @contextmanager
    def show_task(self, text: str, *, in_bytes: bool = False) -> Iterator[SetProgress]:
        """Show a live line during the block, if this screen has any. ``in_bytes``: whether its counts are bytes."""
        yield lambda done, total, what: None
