"""brightness 7, compiled by coldforge: its native library behind ctypes. Needs nothing but Python 3.10 or newer.

    from brightness import Feeds, Model

    with Model() as model:
        fetches = model.run(Feeds(image=...))

    python -m brightness photo.ppm

A feed is any object with the buffer protocol that holds exactly the tensor's bytes: bytes, array.array, a NumPy array.
A fetch is a memoryview of its shape, which numpy.asarray takes without a copy. Tensors are dense and row-major.
"""

from __future__ import annotations

import ctypes
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

NAME = "brightness"
VERSION = "7"
BATCH = 1
LIBRARY = Path(__file__).with_name("libmodel.so")

_ABI_VERSION = 1


class ModelError(Exception):
    """The library cannot be used, or refuses a call; the message says why."""


class Port(NamedTuple):
    """A feed or fetch. ``dtype``: NumPy's name; ``format``: of memoryview and array; ``size``: bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    format: Any
    size: int


FEEDS = (Port("image", "uint8", (1, 8, 8, 3), "B", 192),)
FETCHES = (
    Port("light", "float32", (1, 2), "f", 8),
    Port("level", "float32", (1, 1), "f", 4),
    Port("pixels", "uint8", (1, 8, 8, 3), "B", 192),
)

TONE_LABELS = (
    "light", "dark",
)  # fmt: skip


@dataclass(frozen=True)
class Feeds:
    """What the model takes."""

    image: Buffer
    """uint8 [1, 8, 8, 3]: 8×8 pixels of red, green, blue, 0..255, row by row; any scaling is in the model"""


@dataclass(frozen=True)
class Class:
    """A label of a classification; ``index`` is its place in the model's order."""

    index: int
    label: str
    probability: float


@dataclass(frozen=True)
class Fetches:
    """What the model gives."""

    light: memoryview
    """float32 [1, 2]"""
    level: memoryview
    """float32 [1, 1]"""
    pixels: memoryview
    """uint8 [1, 8, 8, 3]"""

    def rank_tone(self) -> list[Class]:
        """The likeliest classes of output `tone`, which is 1 row of 2 classes; the best first."""
        values = self.light.cast("B").cast("f")
        return _ranked(values[0:2].tolist(), TONE_LABELS, 2)


class _Feed(ctypes.Structure):
    """cf_feed."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Fetch(ctypes.Structure):
    """cf_fetch."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Model:
    """The model, opened. Any thread may call ``run``; the calls run one after the other."""

    def __init__(self, library: str | Path = LIBRARY, threads: int = 0) -> None:
        """Open the model in ``library`` for up to ``threads`` threads (0: the library chooses). Raises ModelError."""
        self._lock = threading.Lock()
        self._model: ctypes.c_void_p | None = None
        self._library = _load(str(library))
        self.description: dict[str, Any] = json.loads(_text(self._library.cf_describe()))
        if self.description["model"]["name"] != NAME:
            raise ModelError(f"{library} holds {self.description['model']['name']}, not {NAME}")
        model = ctypes.c_void_p()
        if self._library.cf_open(threads, ctypes.byref(model)):
            raise ModelError(_text(self._library.cf_last_error(None)))
        self._model = model

    def run(self, feeds: Feeds) -> Fetches:
        """One inference. Raises ModelError for a feed of the wrong size and for whatever the library reports."""
        copies = [memoryview(feed).tobytes() for feed in (feeds.image,)]
        results = [bytearray(port.size) for port in FETCHES]
        pointers = [ctypes.addressof((ctypes.c_char * len(r)).from_buffer(r)) if r else None for r in results]
        places = [(pointer, len(result)) for pointer, result in zip(pointers, results, strict=True)]
        self.run_at([(copy, len(copy)) for copy in copies], places)
        return Fetches(*(_shaped(result, port) for result, port in zip(results, FETCHES, strict=True)))

    def run_at(self, feeds: Sequence[tuple[bytes | int, int]], fetches: Sequence[tuple[int | None, int]]) -> None:
        """One inference from memory to memory: for each feed and fetch, an address and a number of bytes.

        The sizes choose among the library's batches and sizes. Raises ModelError for whatever the library reports.
        """
        inputs = (_Feed * len(feeds))(*(_Feed(data, size) for data, size in feeds))
        outputs = (_Fetch * len(fetches))(*(_Fetch(data, size) for data, size in fetches))
        with self._lock:
            if self._model is None:
                raise ModelError("the model is closed")
            if self._library.cf_run(self._model, inputs, len(inputs), outputs, len(outputs)):
                raise ModelError(_text(self._library.cf_last_error(self._model)))

    def close(self) -> None:
        """Give the model's memory back."""
        with self._lock:
            model, self._model = self._model, None
        if model is not None:
            self._library.cf_close(model)

    def abandon(self) -> None:
        """Be closed in the child of a fork, without waiting for a run of the parent's. The memory is not given back."""
        self._lock, self._model = threading.Lock(), None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _load(path: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path)
        if library.cf_abi_version() != _ABI_VERSION:
            raise ModelError(f"{path} has ABI {library.cf_abi_version()}, not {_ABI_VERSION}")
        library.cf_describe.restype = library.cf_last_error.restype = ctypes.c_char_p
        library.cf_describe.argtypes = ()
        library.cf_last_error.argtypes = library.cf_close.argtypes = (ctypes.c_void_p,)
        library.cf_close.restype = None
        library.cf_open.argtypes = (ctypes.c_uint32, ctypes.c_void_p)
        library.cf_run.argtypes = (
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t
        )  # fmt: skip
    except (OSError, AttributeError) as error:
        raise ModelError(f"{path} cannot be used: {error}") from error
    return library


def _text(given: bytes) -> str:
    return given.decode()


def _shaped(result: bytearray, port: Port) -> memoryview:
    if not result:  # memoryview knows no shape with a zero in it
        return memoryview(result)
    return memoryview(result).cast(port.format, shape=port.shape)  # type: ignore[call-overload,no-any-return,unused-ignore]


def _ranked(values: Sequence[float], labels: tuple[str, ...], top: int) -> list[Class]:
    """Equal ones stay in the model's order; NaN, which is not equal to itself, comes last."""
    order = sorted(range(len(values)), key=lambda i: (values[i] != values[i], -values[i]))
    return [Class(i, labels[i], values[i]) for i in order[:top]]
