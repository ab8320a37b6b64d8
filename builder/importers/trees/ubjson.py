"""Universal Binary JSON (https://ubjson.org, draft 12), as XGBoost writes it."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_NUMBERS = {"i": "b", "U": "B", "I": "h", "l": "i", "L": "q", "d": "f", "D": "d"}
_VALUES: dict[str, Any] = {"Z": None, "T": True, "F": False}
_MOST_DEPTH = 64


def read_ubjson(data: bytes) -> Any:
    """Return the value that ``data`` holds; arrays of one type are NumPy's. Raises ValueError."""
    try:
        return _Reader(data).read_value(0)
    except (struct.error, IndexError, UnicodeDecodeError, KeyError) as error:
        raise ValueError(f"not UBJSON: {error}") from error


class _Reader:
    """A place in the bytes of a file."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def read_value(self, depth: int, kind: str = "") -> Any:
        kind = kind or self._take_marker()
        if kind in _NUMBERS:
            return self._take_number(kind)
        if kind in _VALUES:
            return _VALUES[kind]
        if kind == "S":
            return self._take_text()
        if kind == "C":
            return self._take_marker()
        if kind not in "[{" or depth > _MOST_DEPTH:
            raise ValueError(f"not UBJSON: marker {kind!r} at byte {self.place}, {depth} levels deep")
        return self._read_array(depth + 1) if kind == "[" else self._read_object(depth + 1)

    def _read_array(self, depth: int) -> Any:
        element, count = self._take_header()
        if element in _NUMBERS and count is not None:
            dtype = np.dtype(">" + _NUMBERS[element])
            array = np.frombuffer(self._take(count * dtype.itemsize), dtype)
            return array.astype(dtype.newbyteorder("="))
        values: list[Any] = []
        while self._goes_on("]", len(values), count):
            values.append(self.read_value(depth, element))
        return values

    def _read_object(self, depth: int) -> dict[str, Any]:
        element, count = self._take_header()
        values: dict[str, Any] = {}
        taken = 0
        while self._goes_on("}", taken, count):
            key = self._take_text()
            values[key] = self.read_value(depth, element)
            taken += 1
        return values

    def _goes_on(self, end: str, taken: int, count: int | None) -> bool:
        """Say whether a container has another value; move behind its end if it has none."""
        if count is not None:
            return taken < count
        if chr(self.data[self.place]) != end:
            return True
        self.place += 1
        return False

    def _take_header(self) -> tuple[str, int | None]:
        """Return the type of all elements, or "", and their number, or None."""
        element, count = "", None
        if self.data[self.place : self.place + 1] == b"$":
            self.place += 1
            element = self._take_marker()
        if self.data[self.place : self.place + 1] == b"#":
            self.place += 1
            count = self._take_count()
        return element, count

    def _take_count(self) -> int:
        count = self._take_number(self._take_marker())
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"not UBJSON: a length of {count}")
        return count

    def _take_text(self) -> str:
        return self._take(self._take_count()).decode()

    def _take_marker(self) -> str:
        return chr(self._take(1)[0])

    def _take_number(self, kind: str) -> Any:
        form = ">" + _NUMBERS[kind]
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _take(self, size: int) -> bytes:
        taken = self.data[self.place : self.place + size]
        if len(taken) < size:
            raise ValueError("not UBJSON: the file ends too early")
        self.place += size
        return taken
