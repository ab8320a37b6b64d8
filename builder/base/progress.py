"""What a person sees on standard error while a command runs.

On a terminal, what goes on now is a line that lives: a spinner, the time so far, and a bar where there is something to
count (``builder.base.rich_screen``). Elsewhere, and where rich is not installed, there is one plain line for each thing
that ended.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from builder.base.escape import terminal, visible
from builder.base.screen import Plain, Screen, Task

Advance = Callable[[int], None]
"""Gets how many bytes came since the last call."""


@dataclass
class Outcome:
    """Set by the stage while it runs; ``note`` is printed behind its time."""

    note: str = ""
    cached: bool = False
    made_in: float | None = None
    """Seconds that it took when it was made, where ``cached`` and known."""


@dataclass(frozen=True)
class Ended:
    """A stage that ended well. ``seconds``: what it took when it last ran, in this build or before; None: unknown."""

    name: str
    what: str
    seconds: float | None
    cached: bool


@dataclass
class Progress:
    """Shows stages as they begin and end; times are wall-clock seconds.

    ``quiet``: nothing is shown. ``verbose``: what TensorFlow, XLA and pip print is shown, too.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    verbose: bool = False
    screen: Screen = field(init=False)
    started: float = field(default_factory=time.monotonic)
    said: set[str] = field(default_factory=set)
    ended: list[Ended] = field(default_factory=list)
    open: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.screen = Plain(None) if self.quiet else screen_of(self.stream)

    @contextmanager
    def stage(self, name: str, what: str) -> Iterator[Outcome]:
        """Announce a stage, then its time. A stage that raises is marked as failed."""
        what = visible(what)
        begin, outcome = time.monotonic(), Outcome()
        try:
            with self._running(f"{name:<10} {what}"):
                yield outcome
        except BaseException:
            self.screen.line((f"  {name:<10}", "name"), (f" {what}", "plain"), (" — failed", "bad"))
            raise
        seconds = time.monotonic() - begin
        self.ended.append(Ended(name, what, outcome.made_in if outcome.cached else seconds, outcome.cached))
        took = "cached" if outcome.cached else f"{seconds:.1f} s"
        note = f" · {visible(outcome.note)}" if outcome.note else ""
        self.screen.line((f"  {name:<10}", "name"), (f" {what}", "plain"), (f" · {took}{note}", "soft"))

    def step(self, done: int, total: int | None, what: str = "") -> None:
        """Of the stage that runs, ``done`` of ``total`` things are done, and ``what`` goes on now. Else nothing."""
        if self.open:
            self.open[-1].at(done, total, visible(what))

    @contextmanager
    def bytes(self, what: str, total: int | None = None, done: int = 0) -> Iterator[Advance]:
        """A transfer of ``total`` bytes (None: unknown), of which ``done`` are there already.

        The block calls what it gets with the number of bytes that came. How much came and how long it took is a line,
        unless the block raises.
        """
        what, begin, came = visible(what), time.monotonic(), 0
        with self._running(what, in_bytes=True) as task:
            task.at(done, total, "")

            def advance(count: int) -> None:
                nonlocal came
                came += count
                task.at(done + came, total, "")

            yield advance
        resumed = f", after {size(done)} that were there" if done else ""
        took = f" · {size(came)}{resumed} · {time.monotonic() - begin:.1f} s"
        self.screen.line((f"  {'download':<10}", "name"), (f" {what}", "plain"), (took, "soft"))

    def say(self, text: str) -> None:
        """Lines that stay."""
        for line in terminal(text).split("\n"):
            self.screen.line((line, "plain"))

    def say_once(self, text: str) -> None:
        """``say``, unless it was said before in this build."""
        if text not in self.said:
            self.said.add(text)
            self.say(text)

    def detail(self, text: str) -> None:
        """What another program printed: shown only if ``verbose``."""
        if self.verbose and text.strip():
            for line in terminal(text.rstrip("\n")).split("\n"):
                self.screen.line((f"  | {line}", "soft"))

    def total(self) -> float:
        """Seconds since the build began."""
        return time.monotonic() - self.started

    @contextmanager
    def _running(self, text: str, *, in_bytes: bool = False) -> Iterator[Task]:
        with self.screen.running(text, in_bytes=in_bytes) as task:
            self.open.append(task)
            try:
                yield task
            finally:
                self.open.remove(task)


def size(count: int) -> str:
    """Bytes for a person: of 1000, as downloads are counted."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def screen_of(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Screen:
    """A live screen on a terminal that can show one, where rich is installed; plain lines elsewhere, and in CI."""
    if not stream.isatty() or environment.get("CI") or environment.get("TERM", "dumb") == "dumb":
        return Plain(stream)
    try:
        from builder.base.rich_screen import Live
    except ImportError:  # Python alone, as on a machine that builds in Docker
        return Plain(stream)
    return Live(stream, colour=not environment.get("NO_COLOR"))
