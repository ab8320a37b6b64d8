"""A libmodel.so in a process of another architecture, under an emulator."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from builder.compiler.abi import CF_OK, status_name
from builder.verify.library.loaded_library import BufferSlot, Refused

_RUNNER_REFUSES = 3  # runner.c's exit code when the library cannot be used


class RemoteLibrary:
    """Library in a process of its own architecture, with the methods of LoadedLibrary.

    ``command`` runs runner.c, which loads it; structures are those of runner.c. When that process ends, by a
    signal or an exit of the library's, this one ends in the same way.
    """

    _DESCRIBE, _OPEN, _RUN, _FLAT, _CLOSE, _HAS_FLAT, _RESET, _SIGNATURE = range(8)

    def __init__(self, command: Sequence[str], path: str, prepare: Callable[[], None] | None = None) -> None:
        """Start the process, which calls ``prepare`` before it becomes ``command``."""
        self.process = subprocess.Popen(
            [*command, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=prepare
        )
        self.has_flat = bool(self._send_call(self._HAS_FLAT)[0])

    def _send_call(
        self,
        operation: int,
        feeds: Sequence[BufferSlot] = (),
        fetches: Sequence[BufferSlot] = (),
        counts: tuple[int, int] = (0, 0),
        model: int = 0,
        more: bytes = b"",
    ) -> tuple[int, str]:
        """Return (status or result, text), with the slots' blocks as the library left them."""
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
            self._report_death()
        status, size = struct.unpack("<iI", self._read_bytes(8))
        text = self._read_bytes(size).decode("utf-8", "replace")
        for slot in slots:
            slot.buffer.block[:] = np.frombuffer(self._read_bytes(slot.buffer.block.size), np.uint8)
        return status, text

    def _read_bytes(self, size: int) -> bytes:
        assert self.process.stdout
        data = self.process.stdout.read(size)
        if len(data) != size:
            self._report_death()
        return data

    def _report_death(self) -> NoReturn:
        assert self.process.stderr
        log = self.process.stderr.read().decode("utf-8", "replace").strip()
        code = self.process.wait()
        if code < 0:
            os.kill(os.getpid(), -code)
        if code == _RUNNER_REFUSES:
            raise Refused(log)
        print(log, file=sys.stderr)
        sys.exit(code)

    def get_abi_version(self) -> int:
        """Call cf_abi_version."""
        return self._send_call(self._DESCRIBE)[0]

    def get_description(self) -> str:
        """Call cf_describe."""
        return self._send_call(self._DESCRIBE)[1]

    def open(self) -> tuple[int, int, str]:
        """Open a model: return (status, 1 as the model, text of cf_last_error)."""
        status, text = self._send_call(self._OPEN)
        return status, int(status == CF_OK), text

    def run(
        self, model: int, feeds: Sequence[BufferSlot], fetches: Sequence[BufferSlot], counts: tuple[int, int]
    ) -> tuple[int, str]:
        """Call cf_run with ``counts`` as the numbers of slots: return (status, text of cf_last_error)."""
        return self._send_call(self._RUN, feeds, fetches, counts, model)

    def run_flat(self, feeds: Sequence[BufferSlot], fetches: Sequence[BufferSlot]) -> int:
        """Call run() and return its status."""
        return self._send_call(self._FLAT, feeds, fetches)[0]

    def reset_state(self, model: int) -> None:
        """Call cf_reset. Raises Refused if it fails."""
        _require_ok("cf_reset", *self._send_call(self._RESET, model=model))

    def set_signature(self, model: int, name: str) -> None:
        """Call cf_set_signature. Raises Refused if it fails."""
        text = name.encode()
        _require_ok(
            "cf_set_signature", *self._send_call(self._SIGNATURE, counts=(len(text), 0), model=model, more=text)
        )

    def close(self, model: int) -> None:
        """Call cf_close."""
        self._send_call(self._CLOSE, model=model)


def _require_ok(function: str, status: int, why: str) -> None:
    if status != CF_OK:
        raise Refused(f"{function} failed with {status_name(status)}: {why}")
