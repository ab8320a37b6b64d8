"""What a person sees while a build runs: one line per stage, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from builder.escape import terminal, visible


@dataclass
class Outcome:
    """Set by the stage while it runs; ``note`` is printed behind its time."""

    note: str = ""
    cached: bool = False


@dataclass
class Progress:
    """Prints stages as they begin and end; times are wall-clock seconds."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    started: float = field(default_factory=time.monotonic)
    said: set[str] = field(default_factory=set)

    @contextmanager
    def stage(self, name: str, what: str) -> Iterator[Outcome]:
        """Announce a stage, then its time. A stage that raises is marked as failed."""
        what = visible(what)
        live = self.stream.isatty()
        if live:
            print(f"  {name:<10} {what} …", end="\r", file=self.stream, flush=True)
        begin = time.monotonic()
        outcome = Outcome()
        try:
            yield outcome
        except BaseException:
            print(f"  {name:<10} {what} — failed", file=self.stream, flush=True)
            raise
        took = "cached" if outcome.cached else f"{time.monotonic() - begin:.1f} s"
        note = f" · {visible(outcome.note)}" if outcome.note else ""
        print(f"  {name:<10} {what} · {took}{note}", file=self.stream, flush=True)

    def say(self, text: str) -> None:
        print(terminal(text), file=self.stream, flush=True)

    def say_once(self, text: str) -> None:
        """``say``, unless it was said before in this build."""
        if text not in self.said:
            self.said.add(text)
            self.say(text)

    def total(self) -> float:
        """Seconds since the build began."""
        return time.monotonic() - self.started
