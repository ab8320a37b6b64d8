"""The file of constants that tfcompile writes beside its objects, which nothing here reads.

The weights are in the metadata, too. tfcompile copies them many times to write that file: half of its memory and of its
time. It calls the function that makes the file through a slot in its library's table of addresses (ELF's .got.plt), and
another function can be put there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from builder.base.targets import passes_result_first

_GENERATE = "_ZN10tensorflow9tfcompile27GenerateConstantBuffersDataERKNS0_11CodegenOptsERKNS0_13CompileResultE"
_CREATE = (
    "_ZN10tensorflow9tfcompile29CreateEmbeddedConstantBuffersESt17basic_string_viewIcSt11char_traitsIcEE"
    "N4absl12lts_202508144SpanINS0_15ConstantToEmbedEEE"
)


class _LibraryOfAddress(ctypes.Structure):
    """The result of dladdr(3): the library that an address is in, and where that begins in memory."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_size_t),
        ("symbol", ctypes.c_char_p),
        ("at", ctypes.c_void_p),
    )


def _map_addresses(path: Path, address: int) -> NDArray[np.uintp]:
    """Return the table of addresses, in memory, of the loaded library at ``path``, in which ``address`` is."""
    library = _LibraryOfAddress()
    ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(library))
    with path.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".got.plt")
    if table is None:
        return np.zeros(0, np.uintp)
    slots: Any = (ctypes.c_size_t * (table["sh_size"] // 8)).from_address(library.base + table["sh_addr"])
    return np.frombuffer(slots, np.uintp)


@contextmanager
def skip_constants(path: Path, triple: str) -> Iterator[None]:
    """Have tfcompile, in the library at ``path``, write no constants in this process while the block runs.

    ``triple``: the target's, as LLVM names it. Where the function or its slot is not found, the file is written.
    """
    library = ctypes.CDLL(str(path))
    if not passes_result_first() or not hasattr(library, _GENERATE) or not hasattr(library, _CREATE):
        yield
        return
    address = ctypes.cast(library[_GENERATE], ctypes.c_void_p).value
    addresses = _map_addresses(path, address or 0)
    create, text = library[_CREATE], triple.encode()
    create.restype = ctypes.c_void_p
    create.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t

    def create_empty(result: int, _options: int, _compiled: int) -> int:
        # A view of text is passed as a size and an address, a span as an address and a size.
        return int(create(result, len(text), text, None, 0))

    callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(create_empty)
    slots = np.flatnonzero(addresses == address)
    addresses[slots] = ctypes.cast(callback, ctypes.c_void_p).value or 0
    try:
        yield
    finally:
        addresses[slots] = address or 0
