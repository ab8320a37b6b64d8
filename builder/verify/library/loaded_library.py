"""A libmodel.so in this process: its C ABI through ctypes, the buffers that it is called with, and an opened model."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.errors import VerifyError
from builder.compiler.abi import CF_OK, status_name

Bytes = NDArray[np.uint8]

GUARD = 64
"""Bytes around every buffer that the library must leave alone."""
GUARD_BYTE = 0xC3
POISONS = (0xA5, 0x5A)
"""Bytes of fetches before a run; there are two values, so that unwritten bytes show."""


@dataclass(frozen=True)
class GuardedBuffer:
    """``size`` bytes inside a guarded block, ``offset`` bytes off a 64-byte boundary."""

    block: Bytes
    start: int
    size: int

    @classmethod
    def from_data(cls, data: Bytes, offset: int) -> GuardedBuffer:
        """Return a buffer with a copy of ``data``."""
        block = np.full(data.size + 2 * GUARD + 128, GUARD_BYTE, np.uint8)
        start = GUARD + (-(block.ctypes.data + GUARD)) % 64 + offset
        block[start : start + data.size] = data
        return cls(block, start, data.size)

    @property
    def data(self) -> Bytes:
        """A view of the bytes, which may be written."""
        return self.block[self.start : self.start + self.size]

    @property
    def intact(self) -> bool:
        """True if all bytes outside the data are unchanged."""
        outside = (self.block[: self.start], self.block[self.start + self.size :])
        return all(bool((part == GUARD_BYTE).all()) for part in outside)


@dataclass(frozen=True)
class BufferSlot:
    """A buffer as an argument: with the size that the call claims, or as a null pointer."""

    buffer: GuardedBuffer
    size: int
    null: bool = False

    @property
    def address(self) -> int:
        """Address of the data in this process."""
        return int(self.buffer.block.ctypes.data) + self.buffer.start


class Refused(Exception):
    """An error of a library that cannot be used at all; the message says why."""


class _Port(ctypes.Structure):
    """Common layout of cf_feed and cf_fetch."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


def _make_ports(buffers: Iterable[tuple[int | None, int]]) -> Any:
    """Make an array of cf_feed or cf_fetch from (address, bytes) of each; None is a null pointer."""
    ports = [_Port(address, size) for address, size in buffers]
    # One uncounted entry at the end gives a library that reads too far a null pointer.
    return (_Port * (len(ports) + 1))(*ports)


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
            function = self._require_function(name)
            function.restype, function.argtypes = result, arguments
        self.has_flat = hasattr(self.so, "run")

    def get_abi_version(self) -> int:
        """Call cf_abi_version."""
        return int(self.so.cf_abi_version())

    def get_description(self) -> str:
        """Call cf_describe."""
        return (self.so.cf_describe() or b"").decode("utf-8", "replace")

    def read_error(self, model: int) -> str:
        """Return the reason why the last call on ``model``, or for 0 the last opening, failed."""
        return (self.so.cf_last_error(model or None) or b"").decode("utf-8", "replace")

    def open(self, threads: int = 0, weights: Path | None = None) -> tuple[int, int, str]:
        """Open a model: return (status, model, text of cf_last_error); with 0 threads, the library decides.

        ``weights``: the file of its weights. Raises Refused if the library has its own.
        """
        model = ctypes.c_void_p()
        if weights is None:
            status = self.so.cf_open(threads, ctypes.byref(model))
        else:
            function = self._require_function("cf_open_file")
            status = function(ctypes.c_uint32(threads), ctypes.c_char_p(os.fsencode(weights)), ctypes.byref(model))
        return int(status), model.value or 0, self.read_error(0)

    def run(
        self, model: int, feeds: Sequence[BufferSlot], fetches: Sequence[BufferSlot], counts: tuple[int, int]
    ) -> tuple[int, str]:
        """Call cf_run with ``counts`` as the numbers of slots: return (status, text of cf_last_error)."""
        ins, outs = (
            _make_ports((None if slot.null else slot.address, slot.size) for slot in slots)
            for slots in (feeds, fetches)
        )
        return int(self.so.cf_run(model, ins, counts[0], outs, counts[1])), self.read_error(model)

    def run_flat(self, feeds: Sequence[BufferSlot], fetches: Sequence[BufferSlot]) -> int:
        """Call run() and return its status."""
        arguments: list[Any] = []
        for slot in (*feeds, *fetches):
            arguments += [ctypes.c_void_p(slot.address), ctypes.c_size_t(slot.size)]
        return int(self.so.run(*arguments))

    def reset_state(self, model: int) -> None:
        """Call cf_reset. Raises Refused if the library lacks it, or it fails."""
        self._call_optional("cf_reset", model)

    def get_state(self, model: int, size: int) -> bytes:
        """Call cf_get_state. Raises Refused if the library lacks it, or it fails."""
        data = ctypes.create_string_buffer(size)
        self._call_optional("cf_get_state", model, data, ctypes.c_size_t(size))
        return data.raw

    def set_state(self, model: int, data: bytes) -> None:
        """Call cf_set_state. Raises Refused if the library lacks it, or it fails."""
        self._call_optional("cf_set_state", model, data, ctypes.c_size_t(len(data)))

    def set_signature(self, model: int, name: str) -> None:
        """Call cf_set_signature. Raises Refused if the library lacks it, or it fails."""
        self._call_optional("cf_set_signature", model, ctypes.c_char_p(name.encode()))

    def _call_optional(self, name: str, model: int, *arguments: Any) -> None:
        status = int(self._require_function(name)(ctypes.c_void_p(model), *arguments))
        if status != CF_OK:
            raise Refused(f"{name} failed with {status_name(status)}: {self.read_error(model)}")

    def _require_function(self, name: str) -> Any:
        function = getattr(self.so, name, None)
        if function is None:
            raise Refused(f"it does not export {name}")
        return function

    def close(self, model: int) -> None:
        """Call cf_close."""
        self.so.cf_close(model or None)


class OpenedModel(AbstractContextManager["OpenedModel"]):
    """The library at ``path``, loaded, with one model opened for ``threads`` (0: the library decides).

    ``weights``: the file of the weights, if not the one next to the library. ``so`` is ctypes' view of the
    library, for functions outside the ABI. Raises VerifyError if this machine cannot run it. Two
    libraries of one path are the same in one process.
    """

    def __init__(self, path: Path, threads: int = 0, weights: Path | None = None) -> None:
        try:
            self._library = LoadedLibrary(str(path))
            self.so = self._library.so
            status, self._model, why = self._library.open(threads, weights)
        except Refused as error:
            raise VerifyError(f"this machine cannot load {path.name}: {error}.") from error
        if status != CF_OK:
            raise VerifyError(f"{path.name} cannot be opened on this machine: {why or status_name(status)}.")

    def bind_call(self, feeds: Sequence[Array], sizes: Sequence[int]) -> BoundCall:
        """Return a repeatable call with ``feeds``, in the model's order, and fetches of ``sizes`` bytes."""
        return BoundCall(self._library, self._model, feeds, sizes)

    def close(self) -> None:
        """Close the model."""
        self._library.close(self._model)

    def __exit__(self, *_: object) -> None:
        self.close()


class BoundCall:
    """A call of cf_run with its arrays bound: it does nothing else, so that it can be timed.

    ``fetches`` are bytes, uint8 [size], and hold the answers of the last call. Raises VerifyError if it fails.
    """

    def __init__(self, library: LoadedLibrary, model: int, feeds: Sequence[Array], sizes: Sequence[int]) -> None:
        self.feeds = [np.ascontiguousarray(feed) for feed in feeds]
        self.fetches = [np.zeros(size, np.uint8) for size in sizes]
        self._library, self._model = library, model
        ins, outs = ([(a.ctypes.data, a.nbytes) for a in arrays] for arrays in (self.feeds, self.fetches))
        self._arguments = (model, _make_ports(ins), len(ins), _make_ports(outs), len(outs))

    def __call__(self) -> None:
        """Run once."""
        status = self._library.so.cf_run(*self._arguments)
        if status != CF_OK:
            raise VerifyError(f"the library failed on an input: {self._library.read_error(self._model)}")
