"""A weights file, opened in memory and run: no byte after its end is read, and no fault but StartupError is raised."""

from __future__ import annotations

import ctypes
import functools
import mmap
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from builder.compiler.weights_file import FILE
from handler import weights
from handler.errors import StartupError
from tests.support.outside import build

BUILD = Path(__file__).parents[2] / "build" / "fuzz" / "weights_library"
ITEMS = 64
ALIGNMENT = 64
LAYOUT = slice(24, 56)  # of the file, see HEADER in handler/weights.py


class _Port(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


def look(data: bytes) -> None:
    """Open ``data`` and run the model, and read its header as the function does. Zeros for the layout are the right
    one, which a seed cannot know.
    """
    library, layout = _library()
    if data[LAYOUT] == bytes(32):
        data = data[: LAYOUT.start] + layout + data[LAYOUT.stop :]
    with _before_a_wall(data) as address:
        model = ctypes.c_void_p()
        if library.cf_open_memory(1, ctypes.c_void_p(address), ctypes.c_size_t(len(data)), ctypes.byref(model)) == 0:
            _run(library, model)
            library.cf_close(model)
    with suppress(StartupError):
        start, size, piece, hashes = weights._parse_header(data[: weights.FIRST], "it", layout.hex())
        assert len(hashes) == len(range(start, start + size, piece))


def seed() -> bytes:
    """The library's own weights, but for the layout."""
    data = bytearray((BUILD / FILE).read_bytes())
    data[LAYOUT] = bytes(32)
    return bytes(data)


@functools.cache
def _library() -> tuple[ctypes.CDLL, bytes]:
    shutil.rmtree(BUILD, ignore_errors=True)
    library = build(BUILD, items=ITEMS)[0].path
    return ctypes.CDLL(str(library)), (BUILD / FILE).read_bytes()[LAYOUT]


def _run(library: ctypes.CDLL, model: ctypes.c_void_p) -> None:
    memory = [ctypes.create_string_buffer(size) for size in (4, 4 * ITEMS, 4 * ITEMS)]
    x, copied, bound = (_Port(ctypes.addressof(m), len(m)) for m in memory)
    fetches = (_Port * 2)(copied, bound)
    assert library.cf_run(model, ctypes.byref(x), ctypes.c_size_t(1), fetches, ctypes.c_size_t(2)) == 0


@contextmanager
def _before_a_wall(data: bytes) -> Iterator[int]:
    """The address of ``data``, aligned; the page after it cannot be read."""
    pages = -(-len(data) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(first + pages), ctypes.c_size_t(mmap.PAGESIZE), 0)
    start = pages - -(-len(data) // ALIGNMENT) * ALIGNMENT
    memory[start : start + len(data)] = data
    yield first + start
