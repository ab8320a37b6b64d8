"""Download of one file in as many pieces as it takes: an interrupted one is resumed, by a later run too."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from builder.base.disk import disk_errors
from builder.base.errors import EnvironmentSetupError, ImportModelError

CHUNK = 1 << 18
_MOST_PIECES = 1000

Show = Callable[[str, int | None, int], AbstractContextManager[Callable[[int], None]]]
"""Function that gets a download's name, its bytes (None: unknown) and those present; its block reports new bytes."""


class BrokenOffError(Exception):
    """A fault of a server or the network that may pass. The message names it, and holds nothing secret."""


@contextmanager
def explain_break(what: str) -> Iterator[None]:
    """Turn a BrokenOffError of the block into an error for a person. ``what``: the name of the request."""
    try:
        yield
    except BrokenOffError as error:
        raise EnvironmentSetupError(f"{what} could not be asked for: {error}. Run the same command again.") from None


@dataclass(frozen=True)
class Bounds:
    """Limits for a server. Times are seconds."""

    bytes: int = 10 * 1024**3  # for one file, and for all files in an archive: no container image holds more
    files: int = 10_000  # for an archive or a folder
    attempts: int = 6  # in a row that bring no byte
    pause: float = 1.0  # before the second attempt; it doubles for each further one
    silence: float = 30.0  # after which a connection without data counts as broken
    slowest: float = 1024.0  # bytes a second, below which a connection counts as broken too
    window: float = 60.0  # over which the speed is measured


USUAL = Bounds()


@dataclass(frozen=True)
class Piece:
    """Bytes of a file from ``start`` on, of ``total`` (None: unknown).

    ``read``: a function that returns at most the given number of bytes, and b"" at the end. ``mark`` tells the file
    from another at the same place; empty where the server gives none.
    """

    read: Callable[[int], bytes]
    start: int
    total: int | None
    mark: str


Open = Callable[[int, str], AbstractContextManager[Piece]]
"""Function of the byte to go on from and the mark of those before. The piece begins there, or at 0 where it must.

It and ``Piece.read`` raise BrokenOffError for faults that may be tried again."""


@contextmanager
def no_progress(_what: str, _total: int | None, _done: int) -> Iterator[Callable[[int], None]]:
    """Show nothing, for a download that nobody watches."""
    yield lambda count: None


def transfer_file(open_at: Open, target: Path, what: str, bounds: Bounds, show: Show = no_progress) -> None:
    """Fetch the file that ``open_at`` opens into the file ``target``. ``what``: its name in messages.

    Bytes of an earlier, interrupted call are not fetched again. Raises ImportModelError for more than ``bounds`` allow,
    EnvironmentSetupError when it breaks off again and again, DiskError, and the errors of ``open_at``.
    """
    failed = 0
    for _ in range(_MOST_PIECES):
        have, mark = _measure_partial(target)
        try:
            with open_at(have, mark) as piece:
                _append_piece(piece, target, what, bounds, show)
            return
        except ImportModelError:
            discard_download(target)
            raise
        except BrokenOffError as error:
            failed = 1 if _measure_partial(target)[0] > have else failed + 1
            if failed >= bounds.attempts:
                last = error
                break
            time.sleep(bounds.pause * 2 ** (failed - 1))
            last = error
    raise EnvironmentSetupError(
        f"{what} could not be fetched: {last}. Run the same command again: it goes on where this one ended."
    ) from last


def discard_download(target: Path) -> None:
    """Delete an incomplete download to ``target``."""
    for path in (target, _make_mark_path(target)):
        path.unlink(missing_ok=True)


def _append_piece(piece: Piece, target: Path, what: str, bounds: Bounds, show: Show) -> None:
    if piece.total is not None and piece.total > bounds.bytes:
        raise _make_size_error(what, bounds)
    with disk_errors(target.parent):
        if piece.start == 0:
            target.write_bytes(b"")
            _make_mark_path(target).write_text(json.dumps(piece.mark))
        _require_room(piece, target, what)
        file = target.open("ab")
    size, pace = piece.start, _Pace(bounds)
    with file, show(what, piece.total, piece.start) as advance:
        while chunk := piece.read(CHUNK):
            size += len(chunk)
            if size > bounds.bytes:
                raise _make_size_error(what, bounds)
            with disk_errors(target.parent):
                file.write(chunk)
            advance(len(chunk))
            pace.require_speed(len(chunk))
        if piece.total is not None and size != piece.total:
            raise BrokenOffError(f"the connection ended after {size:,} of {piece.total:,} bytes")


class _Pace:
    """A check of the speed, which raises BrokenOffError for bytes that arrive one by one for ever."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds, self._began, self._came = bounds, time.monotonic(), 0

    def require_speed(self, count: int) -> None:
        self._came += count
        seconds = time.monotonic() - self._began
        if seconds < self._bounds.window:
            return
        if self._came < self._bounds.slowest * seconds:
            raise BrokenOffError(f"fewer than {self._bounds.slowest:,.0f} bytes a second came")
        self._began, self._came = time.monotonic(), 0


def _measure_partial(target: Path) -> tuple[int, str]:
    """Return how many bytes of the file are present, and their mark; (0, "") where they have no mark to go on with."""
    try:
        mark = json.loads(_make_mark_path(target).read_text())
        return (target.stat().st_size, mark) if mark and isinstance(mark, str) else (0, "")
    except (OSError, ValueError):
        return 0, ""


def _make_mark_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.mark")


def _require_room(piece: Piece, target: Path, what: str) -> None:
    free = shutil.disk_usage(target.parent).free
    if piece.total is not None and piece.total - piece.start > free:
        raise EnvironmentSetupError(
            f"{what} has {piece.total / 1e6:,.1f} MB, and {target.parent} has room for {free / 1e6:,.1f}. "
            "Free some space there, then run the same command again."
        )


def _make_size_error(what: str, bounds: Bounds) -> ImportModelError:
    return ImportModelError(f"{what} has more than {bounds.bytes:,} bytes, which no function can hold.")
