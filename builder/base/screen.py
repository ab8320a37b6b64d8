"""Where progress is shown: what a screen can do, and the one that has plain lines alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, TextIO

Style = Literal["plain", "name", "soft", "bad"]
"""What a piece of a line is; a screen without colours shows all alike."""


class ScreenTask(Protocol):
    """A line that lives."""

    def set_progress(self, done: int, total: int | None, what: str) -> None:
        """``done`` of ``total`` are there (None: nobody knows of how many); ``what`` goes on now, where not empty."""


class Screen(Protocol):
    """Where progress is shown. Texts are one line each, without control characters."""

    def print_line(self, *pieces: tuple[str, Style]) -> None:
        """A line that stays."""

    def show_task(self, text: str, *, in_bytes: bool = False) -> AbstractContextManager[ScreenTask]:
        """A line that lives as long as the block. ``in_bytes``: what it counts, if anything."""


@dataclass(frozen=True)
class PlainScreen:
    """Lines alone, as a log takes them; none where ``stream`` is None. Also the task that shows nothing."""

    stream: TextIO | None

    def print_line(self, *pieces: tuple[str, Style]) -> None:
        if self.stream:
            print("".join(text for text, _ in pieces), file=self.stream, flush=True)

    @contextmanager
    def show_task(self, text: str, *, in_bytes: bool = False) -> Iterator[ScreenTask]:
        yield self

    def set_progress(self, done: int, total: int | None, what: str) -> None:
        """Nothing: only what ended is a line."""
