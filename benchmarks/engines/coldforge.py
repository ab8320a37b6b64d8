"""libmodel.so through its C ABI, with nothing but ctypes: no NumPy, no TensorFlow."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any


class _Slot(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Coldforge:
    def __init__(self, model: Path, threads: int) -> None:
        self.library = ctypes.CDLL(str(model))
        self.library.cf_describe.restype = self.library.cf_last_error.restype = ctypes.c_char_p
        described = json.loads(self.library.cf_describe())
        self.feeds = [(feed["name"], feed["bytes"]) for feed in described["feeds"]]
        self.model = ctypes.c_void_p()
        if self.library.cf_open(ctypes.c_uint32(threads), ctypes.byref(self.model)):
            raise RuntimeError(str(self.library.cf_last_error(None)))
        self.answers = [ctypes.create_string_buffer(fetch["bytes"]) for fetch in described["fetches"]]
        self.fetches = (_Slot * len(self.answers))(*[_slot(answer) for answer in self.answers])

    def feed(self, data: bytes) -> Any:
        blocks, place = {}, 0
        for name, size in sorted(self.feeds):
            blocks[name] = ctypes.create_string_buffer(data[place : place + size], size)
            place += size
        return blocks, (_Slot * len(blocks))(*[_slot(blocks[name]) for name, _ in self.feeds])

    def run(self, feed: Any) -> Any:
        if self.library.cf_run(self.model, feed[1], len(self.feeds), self.fetches, len(self.answers)):
            raise RuntimeError("cf_run failed")
        return self.answers

    def raw(self, answers: Any) -> list[bytes]:
        return [answer.raw for answer in answers]


def _slot(block: Any) -> _Slot:
    return _Slot(ctypes.addressof(block), len(block))
