"""Call a libmodel.so through its C ABI from a test."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


class _Port(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


def _ports(arrays: Sequence[Any]) -> Any:
    return (_Port * len(arrays))(*[_Port(a.ctypes.data, a.nbytes) for a in arrays])


def run_library(library: Path, samples: Sequence[Sequence[Any]], threads: int = 0) -> list[list[Any]]:
    """The fetches for every sample (the feeds in order), one opened model for all; 0 threads: as many as it likes."""
    abi = ctypes.CDLL(str(library))
    abi.cf_describe.restype = abi.cf_last_error.restype = ctypes.c_char_p
    described = json.loads(abi.cf_describe())
    model = ctypes.c_void_p()
    assert abi.cf_open(threads, ctypes.byref(model)) == 0, abi.cf_last_error(None)
    results = []
    for sample in samples:
        feeds = [np.ascontiguousarray(a) for a in sample]
        fetches = [np.empty(p["shape"], p["dtype"]) for p in described["fetches"]]
        status = abi.cf_run(model, _ports(feeds), len(feeds), _ports(fetches), len(fetches))
        assert status == 0, abi.cf_last_error(model)
        results.append(fetches)
    abi.cf_close(model)
    return results
