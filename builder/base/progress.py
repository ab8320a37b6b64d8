"""Progress of a command on standard error.

A terminal shows the current work on a live line: a spinner, the time so far, and a bar if things are counted
(``builder.base.rich_screen``). Elsewhere, and without rich, there is one plain line for each thing that has ended.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from builder.base.escape import escape_invisible, escape_terminal
from builder.base.screen import PlainScreen, SetProgress

Advance = Callable[[int], None]
"""A function of the number of bytes since its last call."""


@dataclass
class StageOutcome:
    """The outcome that a stage sets while it runs; ``note`` is printed behind its time."""

    note: str = ""
    cached: bool = False
    made_in: float | None = None
    """The seconds that the cached output took to build, if known."""


@dataclass(frozen=True)
class EndedStage:
    """A stage that ended well; ``seconds``: its time when it last ran, in this build or before (None: unknown)."""

    name: str
    what: str
    seconds: float | None
    cached: bool


@dataclass
class Progress:
    """Shows stages as they begin and end; times are wall-clock seconds.

    ``quiet``: whether to show nothing. ``verbose``: whether to show the output of TensorFlow, XLA and pip, too.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    verbose: bool = False
    screen: PlainScreen = field(init=False)
    started: float = field(default_factory=time.monotonic)
    shown: set[str] = field(default_factory=set)
    ended: list[EndedStage] = field(default_factory=list)
    open: list[SetProgress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.screen = PlainScreen(None) if self.quiet else choose_screen(self.stream)

    @contextmanager
    def show_stage(self, name: str, what: str) -> Iterator[StageOutcome]:
        """Announce a stage, then its time. A stage that raises is marked as failed."""
        what = escape_invisible(what)
        begin, outcome = time.monotonic(), StageOutcome()
        try:
            with self._show_task(f"{name:<10} {what}"):
                yield outcome
        except BaseException:
            self.screen.print_line((f"  {name:<10}", "name"), (f" {what}", "plain"), (" — failed", "bad"))
            raise
        seconds = time.monotonic() - begin
        self.ended.append(EndedStage(name, what, outcome.made_in if outcome.cached else seconds, outcome.cached))
        took = "cached" if outcome.cached else f"{seconds:.1f} s"
        note = f" · {escape_invisible(outcome.note)}" if outcome.note else ""
        self.screen.print_line((f"  {name:<10}", "name"), (f" {what}", "plain"), (f" · {took}{note}", "soft"))

    def show_step(self, done: int, total: int | None, what: str = "") -> None:
        """Show progress in the current stage, if any: ``done`` of ``total`` things, and ``what`` is the current one."""
        if self.open:
            self.open[-1](done, total, escape_invisible(what))

    @contextmanager
    def show_transfer(self, what: str, total: int | None = None, done: int = 0) -> Iterator[Advance]:
        """Show a transfer of ``total`` bytes (None: unknown), of which ``done`` exist already.

        The block calls the function that it gets with each number of bytes received. A line shows the total and the
        time, unless the block raises.
        """
        what, begin, came = escape_invisible(what), time.monotonic(), 0
        with self._show_task(what, in_bytes=True) as set_progress:
            set_progress(done, total, "")

            def advance(count: int) -> None:
                nonlocal came
                came += count
                set_progress(done + came, total, "")

            yield advance
        resumed = f", after {format_bytes(done)} that were there" if done else ""
        took = f" · {format_bytes(came)}{resumed} · {time.monotonic() - begin:.1f} s"
        self.screen.print_line((f"  {'download':<10}", "name"), (f" {what}", "plain"), (took, "soft"))

    def show_lines(self, text: str) -> None:
        """Show lines that stay."""
        for line in escape_terminal(text).split("\n"):
            self.screen.print_line((line, "plain"))

    def show_once(self, text: str) -> None:
        """Show ``text`` with ``show_lines``, unless it was shown before in this build."""
        if text not in self.shown:
            self.shown.add(text)
            self.show_lines(text)

    def show_detail(self, text: str) -> None:
        """Show output of another program, only if ``verbose``."""
        if self.verbose and text.strip():
            for line in escape_terminal(text.rstrip("\n")).split("\n"):
                self.screen.print_line((f"  | {line}", "soft"))

    def count_seconds(self) -> float:
        """Return the seconds since the build began."""
        return time.monotonic() - self.started

    @contextmanager
    def _show_task(self, text: str, *, in_bytes: bool = False) -> Iterator[SetProgress]:
        with self.screen.show_task(text, in_bytes=in_bytes) as set_progress:
            self.open.append(set_progress)
            try:
                yield set_progress
            finally:
                self.open.remove(set_progress)


def format_bytes(count: int) -> str:
    """Return bytes for display, with units of 1000 as for downloads."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def choose_screen(stream: TextIO, environment: Mapping[str, str] = os.environ) -> PlainScreen:
    """Return a live screen on a terminal that supports it if rich is installed, else plain lines (also in CI)."""
    if not stream.isatty() or environment.get("CI") or environment.get("TERM", "dumb") == "dumb":
        return PlainScreen(stream)
    try:
        from builder.base.rich_screen import RichScreen
    except ImportError:  # A machine that builds in Docker may have Python alone.
        return PlainScreen(stream)
    return RichScreen(stream, colour=not environment.get("NO_COLOR"))
