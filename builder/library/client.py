"""libmodel.so as it is called when it is verified: in this process, or in one of another architecture.

Both ways of calling take guarded buffers and give them back as the library left them.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

CF_OK, CF_ERR_ARGUMENT = 0, 3
STATUS = {1: "CF_ERR_CPU", 2: "CF_ERR_MEMORY", 3: "CF_ERR_ARGUMENT", 4: "CF_ERR_KERNEL", 5: "CF_ERR_WEIGHTS"}
GUARD = 64  # bytes around every buffer that the library must leave alone
GUARD_BYTE = 0xC3
_RUNNER_REFUSES = 3  # runner.c's exit code when the library cannot be used


class Refused(Exception):
    """The library cannot be used at all; the message says why."""


def status_name(status: int) -> str:
    return STATUS.get(status, f"the unknown status {status}")


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes inside a guarded block, ``offset`` bytes off a 64-byte boundary."""

    block: Bytes
    start: int
    size: int

    @classmethod
    def of(cls, data: Bytes, offset: int) -> Buffer:
        block = np.full(data.size + 2 * GUARD + 128, GUARD_BYTE, np.uint8)
        start = GUARD + (-(block.ctypes.data + GUARD)) % 64 + offset
        block[start : start + data.size] = data
        return cls(block, start, data.size)

    @property
    def data(self) -> Bytes:
        return self.block[self.start : self.start + self.size]

    @property
    def intact(self) -> bool:
        """Nothing outside the data was written."""
        outside = (self.block[: self.start], self.block[self.start + self.size :])
        return all(bool((part == GUARD_BYTE).all()) for part in outside)


@dataclass(frozen=True)
class Slot:
    """A buffer as it is passed: with the size that is claimed of it, or as a null pointer."""

    buffer: Buffer
    size: int
    null: bool = False


class _Port(ctypes.Structure):
    """cf_feed and cf_fetch, which have the same layout."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


def _ports(slots: Sequence[Slot]) -> Any:
    # One entry more than is counted, so that a library that reads too far finds a null pointer.
    return (_Port * (len(slots) + 1))(*[_Port(None if s.null else _address(s), s.size) for s in slots])


def _address(slot: Slot) -> int:
    return int(slot.buffer.block.ctypes.data) + slot.buffer.start


class LoadedLibrary:
    """The library at a path, loaded into this process. An opened model is an ``int`` that is not 0.

    Raises Refused when it cannot be loaded or lacks a function.
    """

    def __init__(self, path: str) -> None:
        try:
            self.so = ctypes.CDLL(path)
        except OSError as error:
            raise Refused(f"it cannot be loaded: {error}") from error
        port, size, model = ctypes.POINTER(_Port), ctypes.c_size_t, ctypes.c_void_p
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "cf_abi_version": (ctypes.c_uint32, []),
            "cf_describe": (ctypes.c_char_p, []),
            "cf_open": (ctypes.c_int, [ctypes.c_uint32, ctypes.POINTER(model)]),
            "cf_run": (ctypes.c_int, [model, port, size, port, size]),
            "cf_close": (None, [model]),
            "cf_last_error": (ctypes.c_char_p, [model]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(self.so, name, None)
            if function is None:
                raise Refused(f"it does not export {name}")
            function.restype, function.argtypes = result, arguments
        self.has_flat = hasattr(self.so, "run")

    def version(self) -> int:
        return int(self.so.cf_abi_version())

    def describe(self) -> str:
        return (self.so.cf_describe() or b"").decode("utf-8", "replace")

    def _error(self, model: int) -> str:
        return (self.so.cf_last_error(model or None) or b"").decode("utf-8", "replace")

    def open(self) -> tuple[int, int, str]:
        """(status, model, what cf_last_error says)."""
        model = ctypes.c_void_p()
        status = int(self.so.cf_open(0, ctypes.byref(model)))
        return status, model.value or 0, self._error(0)

    def run(
        self, model: int, feeds: Sequence[Slot], fetches: Sequence[Slot], counts: tuple[int, int]
    ) -> tuple[int, str]:
        """cf_run with ``counts`` as the numbers of slots: (status, what cf_last_error says)."""
        status = int(self.so.cf_run(model, _ports(feeds), counts[0], _ports(fetches), counts[1]))
        return status, self._error(model)

    def flat(self, feeds: Sequence[Slot], fetches: Sequence[Slot]) -> int:
        arguments: list[Any] = []
        for slot in (*feeds, *fetches):
            arguments += [ctypes.c_void_p(_address(slot)), ctypes.c_size_t(slot.size)]
        return int(self.so.run(*arguments))

    def reset(self, model: int) -> None:
        """Raises Refused where the library has no cf_reset, or it fails."""
        self._further("cf_reset", model)

    def get_state(self, model: int, size: int) -> bytes:
        """Raises Refused where the library cannot do it."""
        data = ctypes.create_string_buffer(size)
        self._further("cf_get_state", model, data, ctypes.c_size_t(size))
        return data.raw

    def set_state(self, model: int, data: bytes) -> None:
        """Raises Refused where the library cannot do it."""
        self._further("cf_set_state", model, data, ctypes.c_size_t(len(data)))

    def set_signature(self, model: int, name: str) -> None:
        """Raises Refused where the library cannot do it."""
        self._further("cf_set_signature", model, ctypes.c_char_p(name.encode()))

    def _further(self, name: str, model: int, *arguments: Any) -> None:
        function = getattr(self.so, name, None)
        if function is None:
            raise Refused(f"it does not export {name}")
        status = int(function(ctypes.c_void_p(model), *arguments))
        if status != CF_OK:
            raise Refused(f"{name} failed with {status_name(status)}: {self._error(model)}")

    def close(self, model: int) -> None:
        self.so.cf_close(model or None)


class RemoteLibrary:
    """The library in a process of its own architecture, with the methods of LoadedLibrary.

    ``command`` runs runner.c, which loads it; structures are those of runner.c. When that process ends, by a
    signal or an exit of the library's, this one ends in the same way.
    """

    _DESCRIBE, _OPEN, _RUN, _FLAT, _CLOSE, _HAS_FLAT, _RESET, _SIGNATURE = range(8)

    def __init__(self, command: Sequence[str], path: str) -> None:
        self.process = subprocess.Popen(
            [*command, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.has_flat = bool(self._call(self._HAS_FLAT)[0])

    def _call(
        self,
        operation: int,
        feeds: Sequence[Slot] = (),
        fetches: Sequence[Slot] = (),
        counts: tuple[int, int] = (0, 0),
        model: int = 0,
        more: bytes = b"",
    ) -> tuple[int, str]:
        """(status or result, text). The slots' blocks are then as the library left them."""
        assert self.process.stdin
        slots = (*feeds, *fetches)
        parts = [struct.pack("<6I", operation, len(feeds), len(fetches), *counts, bool(model)), more]
        for slot in slots:
            block = slot.buffer.block
            parts.append(
                struct.pack("<QQQII", block.size, slot.buffer.start, slot.size, block.ctypes.data % 64, slot.null)
            )
            parts.append(block.tobytes())
        try:
            self.process.stdin.write(b"".join(parts))
            self.process.stdin.flush()
        except BrokenPipeError:
            self._died()
        status, size = struct.unpack("<iI", self._read(8))
        text = self._read(size).decode("utf-8", "replace")
        for slot in slots:
            slot.buffer.block[:] = np.frombuffer(self._read(slot.buffer.block.size), np.uint8)
        return status, text

    def _read(self, size: int) -> bytes:
        assert self.process.stdout
        data = self.process.stdout.read(size)
        if len(data) != size:
            self._died()
        return data

    def _died(self) -> NoReturn:
        assert self.process.stderr
        said = self.process.stderr.read().decode("utf-8", "replace").strip()
        code = self.process.wait()
        if code < 0:
            os.kill(os.getpid(), -code)
        if code == _RUNNER_REFUSES:
            raise Refused(said)
        print(said, file=sys.stderr)
        sys.exit(code)

    def version(self) -> int:
        return self._call(self._DESCRIBE)[0]

    def describe(self) -> str:
        return self._call(self._DESCRIBE)[1]

    def open(self) -> tuple[int, int, str]:
        status, text = self._call(self._OPEN)
        return status, int(status == CF_OK), text

    def run(
        self, model: int, feeds: Sequence[Slot], fetches: Sequence[Slot], counts: tuple[int, int]
    ) -> tuple[int, str]:
        return self._call(self._RUN, feeds, fetches, counts, model)

    def flat(self, feeds: Sequence[Slot], fetches: Sequence[Slot]) -> int:
        return self._call(self._FLAT, feeds, fetches)[0]

    def reset(self, model: int) -> None:
        """Raises Refused where it fails."""
        status, why = self._call(self._RESET, model=model)
        if status != CF_OK:
            raise Refused(f"cf_reset failed with {status_name(status)}: {why}")

    def set_signature(self, model: int, name: str) -> None:
        """Raises Refused where it fails."""
        text = name.encode()
        status, why = self._call(self._SIGNATURE, counts=(len(text), 0), model=model, more=text)
        if status != CF_OK:
            raise Refused(f"cf_set_signature failed with {status_name(status)}: {why}")

    def close(self, model: int) -> None:
        self._call(self._CLOSE, model=model)


Library = LoadedLibrary | RemoteLibrary
