"""Screens for progress: their interface, and one that has plain lines alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, TextIO

Style = Literal["plain", "name", "soft", "bad"]
"""The style of a piece of a line; a screen without colours shows all in the same way."""


class ScreenTask(Protocol):
    """A live line."""

    def set_progress(self, done: int, total: int | None, what: str) -> None:
        """Show that ``done`` of ``total`` (None: unknown) are done; ``what`` is the current one, if not empty."""


class Screen(Protocol):
    """A screen for progress. Texts are one line each, without control characters."""

    def print_line(self, *pieces: tuple[str, Style]) -> None:
        """Print a line that stays."""

    def show_task(self, text: str, *, in_bytes: bool = False) -> AbstractContextManager[ScreenTask]:
        """Show a live line during the block. ``in_bytes``: whether its counts are bytes."""


@dataclass(frozen=True)
class PlainScreen:
    """Plain lines, as for a log, or nothing if ``stream`` is None. It is also the task that shows nothing."""

    stream: TextIO | None

    def print_line(self, *pieces: tuple[str, Style]) -> None:
        if self.stream:
            print("".join(text for text, _ in pieces), file=self.stream, flush=True)

    @contextmanager
    def show_task(self, text: str, *, in_bytes: bool = False) -> Iterator[ScreenTask]:
        yield self

    def set_progress(self, done: int, total: int | None, what: str) -> None:
        """Do nothing, because only ended tasks have lines."""
