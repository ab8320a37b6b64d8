"""C ABI of a libmodel.so through ctypes: the only module that declares its functions to Python."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from typing import Any

from builder.compiler.abi import CF_OK, status_name
from builder.verify.library.guarded_buffers import BufferSlot


class Refused(Exception):
    """An error of a library that cannot be used at all; the message says why."""


class _Port(ctypes.Structure):
    """Common layout of cf_feed and cf_fetch."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


def port_array(buffers: Iterable[tuple[int | None, int]]) -> Any:
    """Make an array of cf_feed or cf_fetch from (address, bytes) of each; None is a null pointer."""
    ports = [_Port(address, size) for address, size in buffers]
    # One uncounted entry at the end gives a library that reads too far a null pointer.
    return (_Port * (len(ports) + 1))(*ports)


def _make_port_array(slots: Sequence[BufferSlot]) -> Any:
    return port_array((None if slot.null else slot.address, slot.size) for slot in slots)


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

    def get_abi_version(self) -> int:
        return int(self.so.cf_abi_version())

    def get_description(self) -> str:
        return (self.so.cf_describe() or b"").decode("utf-8", "replace")

    def last_error(self, model: int) -> str:
        """Return the reason why the last call on ``model``, or for 0 the last opening, failed."""
        return (self.so.cf_last_error(model or None) or b"").decode("utf-8", "replace")

    def open(self, threads: int = 0) -> tuple[int, int, str]:
        """Open a model: return (status, model, text of cf_last_error); with 0 threads, the library decides."""
        model = ctypes.c_void_p()
        status = int(self.so.cf_open(threads, ctypes.byref(model)))
        return status, model.value or 0, self.last_error(0)

    def open_file(self, threads: int, weights: str) -> tuple[int, int, str]:
        """Open a model whose weights are in a file. Raises Refused if the library has its own."""
        model = ctypes.c_void_p()
        function = getattr(self.so, "cf_open_file", None)
        if function is None:
            raise Refused("it does not export cf_open_file")
        status = int(function(ctypes.c_uint32(threads), ctypes.c_char_p(os.fsencode(weights)), ctypes.byref(model)))
        return status, model.value or 0, self.last_error(0)

    def run(
        self, model: int, feeds: Sequence[BufferSlot], fetches: Sequence[BufferSlot], counts: tuple[int, int]
    ) -> tuple[int, str]:
        """Call cf_run with ``counts`` as the numbers of slots: return (status, text of cf_last_error)."""
        status = int(self.so.cf_run(model, _make_port_array(feeds), counts[0], _make_port_array(fetches), counts[1]))
        return status, self.last_error(model)

    def run_flat(self, feeds: Sequence[BufferSlot], fetches: Sequence[BufferSlot]) -> int:
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
        function = getattr(self.so, name, None)
        if function is None:
            raise Refused(f"it does not export {name}")
        status = int(function(ctypes.c_void_p(model), *arguments))
        if status != CF_OK:
            raise Refused(f"{name} failed with {status_name(status)}: {self.last_error(model)}")

    def close(self, model: int) -> None:
        self.so.cf_close(model or None)
