"""Function of a bundle in the emulator, which starts again after each new build."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from builder.measure.local.emulator import LambdaEmulator


class ReloadingEmulator(ExitStack):
    """A context manager that runs a bundle's function in the emulator of ``start``, and again when ``library`` changes.

    ``say`` gets a line for each new start, and the function's last error where it fails.
    """

    def __init__(self, start: Callable[[], LambdaEmulator], library: Path, say: Callable[[str], None]) -> None:
        super().__init__()
        self._start, self._library, self._say = start, library, say
        self._running: LambdaEmulator | None = None
        self._stamp = (0, 0)

    def __enter__(self) -> Self:
        self._run_newest()
        return self

    def invoke(self, event: Any) -> Any:
        """Return the function's answer as ``LambdaEmulator.invoke`` does, to one caller at a time."""
        running = self._run_newest()
        answer = running.invoke(event)
        if not isinstance(answer, dict) or answer.get("statusCode", 500) >= 500:
            lines = running.log.splitlines()
            self._say(next((line for line in reversed(lines) if '"ERROR"' in line or '"CRITICAL"' in line), ""))
        return answer

    def _run_newest(self) -> LambdaEmulator:
        """Return an emulator that runs the library as it is now. Each build writes a new file."""
        try:
            status = self._library.stat()
        except OSError:  # The library is being replaced.
            status = None
        stamp = (status.st_ino, status.st_mtime_ns) if status else self._stamp
        if self._running is None or stamp != self._stamp:
            if self._running:
                self._say("the bundle has changed: the function starts again")
            self._running = None  # Nothing runs until the next start succeeds.
            self.close()
            self._running, self._stamp = self.enter_context(self._start()), stamp
        return self._running
