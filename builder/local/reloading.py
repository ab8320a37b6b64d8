"""The function of a bundle in the emulator, which starts again when the bundle was built again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from builder.local.emulator import Emulator


class Reloading(ExitStack):
    """A context manager whose ``invoke`` is that of the emulator that ``start`` makes, of the newest ``library``.

    ``say`` gets a line when it starts again, and the function's own words where it fails.
    """

    def __init__(self, start: Callable[[], Emulator], library: Path, say: Callable[[str], None]) -> None:
        super().__init__()
        self._start, self._library, self._say = start, library, say
        self._running: Emulator | None = None
        self._stamp = (0, 0)

    def __enter__(self) -> Self:
        self._newest()
        return self

    def invoke(self, event: Any) -> Any:
        """The function's answer; see ``Emulator.invoke``. For one caller at a time."""
        running = self._newest()
        answer = running.invoke(event)
        if not isinstance(answer, dict) or answer.get("statusCode", 500) >= 500:
            lines = running.log.splitlines()
            self._say(next((line for line in reversed(lines) if '"ERROR"' in line or '"CRITICAL"' in line), ""))
        return answer

    def _newest(self) -> Emulator:
        """The emulator of the library as it is now: each build writes a new file."""
        try:
            status = self._library.stat()
        except OSError:  # it is being replaced
            status = None
        stamp = (status.st_ino, status.st_mtime_ns) if status else self._stamp
        if self._running is None or stamp != self._stamp:
            if self._running:
                self._say("the bundle has changed: the function starts again")
            self._running = None  # until the next one runs
            self.close()
            self._running, self._stamp = self.enter_context(self._start()), stamp
        return self._running
