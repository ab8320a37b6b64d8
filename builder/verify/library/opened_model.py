"""An opened model of a libmodel.so in this process, run on NumPy's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from builder.base.arrays import Array
from builder.base.errors import VerifyError
from builder.compiler.abi import CF_OK, status_name
from builder.verify.library.abi_client import LoadedLibrary, Refused, port_array


class OpenedModel:
    """The library at ``path``, loaded, with one model opened for ``threads`` (0: the library decides).

    ``weights``: the file of the weights, if not the one next to the library. ``so`` is ctypes' view of the
    library, for functions outside the ABI. Raises VerifyError if this machine cannot run it. Two
    libraries of one path are the same in one process.
    """

    def __init__(self, path: Path, threads: int = 0, weights: Path | None = None) -> None:
        try:
            self._library = LoadedLibrary(str(path))
            self.so = self._library.so
            status, self._model, why = (
                self._library.open_file(threads, str(weights)) if weights else self._library.open(threads)
            )
        except Refused as error:
            raise VerifyError(f"this machine cannot load {path.name}: {error}.") from error
        if status != CF_OK:
            raise VerifyError(f"{path.name} cannot be opened on this machine: {why or status_name(status)}.")

    def bind_call(self, feeds: Sequence[Array], sizes: Sequence[int]) -> BoundCall:
        """Return a repeatable call with ``feeds``, in the model's order, and fetches of ``sizes`` bytes."""
        return BoundCall(self._library, self._model, feeds, sizes)

    def close(self) -> None:
        self._library.close(self._model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        self._arguments = (model, port_array(ins), len(ins), port_array(outs), len(outs))

    def __call__(self) -> None:
        status = self._library.so.cf_run(*self._arguments)
        if status != CF_OK:
            raise VerifyError(f"the library failed on an input: {self._library.last_error(self._model)}")
