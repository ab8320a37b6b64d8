"""The file golden.npz: TensorFlow's answers to a model's golden inputs. Nothing else reads or writes that file.

It has an array for every feed and fetch of every case, ``feed/<case>/<name>`` and ``fetch/<case>/<name>``, and for
floating-point fetches ``sensitivity/<name>``, or ``rounding/<name>`` where the graph computes in half precision.
For cases that decide nothing it has only the reason, ``undecided/<case>`` (see ``builder.verify.sensitivity``).
This module needs NumPy alone, since the process that runs a library reads the file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from builder.base.arrays import Array, save_arrays
from builder.base.errors import VerifyError

if TYPE_CHECKING:
    from builder.config.tensor import TensorSpec


@dataclass(frozen=True)
class GoldenCase:
    """One call: the model's inputs and TensorFlow's answers, by the names of feeds and fetches."""

    feeds: Mapping[str, Array]
    fetches: Mapping[str, Array]


@dataclass(frozen=True)
class GoldenFile:
    """The open golden file at ``path``, which reads arrays on demand. ``cases`` are in the file's order."""

    path: Path
    cases: tuple[str, ...]
    _arrays: Mapping[str, Array] = field(repr=False)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[GoldenFile]:
        """Open the golden file. Raises VerifyError when it cannot be read."""
        try:
            arrays = np.load(path, allow_pickle=False)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise VerifyError(f"TensorFlow's answers ({path.name}) cannot be read: {error}") from error
        with arrays:
            cases = dict.fromkeys(key.split("/", 2)[1] for key in arrays.files if key.startswith(("feed/", "fetch/")))
            yield cls(path, tuple(cases), arrays)

    @staticmethod
    def write(
        path: Path,
        cases: Mapping[str, GoldenCase],
        sensitivity: Mapping[str, float] | None = None,
        undecided: Mapping[str, str] | None = None,
        rounding: Mapping[str, float] | None = None,
    ) -> None:
        """Write the file: the same bytes for the same ``cases``.

        ``sensitivity`` and ``rounding``: see the methods, by fetch. ``undecided``: see the property.
        """
        arrays: dict[str, Array] = {}
        for name, case in cases.items():
            arrays |= {f"feed/{name}/{feed}": value for feed, value in case.feeds.items()}
            arrays |= {f"fetch/{name}/{fetch}": value for fetch, value in case.fetches.items()}
        arrays |= {f"sensitivity/{fetch}": np.array(share) for fetch, share in (sensitivity or {}).items()}
        arrays |= {f"rounding/{fetch}": np.array(share) for fetch, share in (rounding or {}).items()}
        arrays |= {f"undecided/{case}": np.array(why) for case, why in (undecided or {}).items()}
        save_arrays(path, arrays)

    @property
    def undecided(self) -> dict[str, str]:
        """The cases left out since TensorFlow itself is undecided on them, with the reasons in words."""
        keys = [key for key in self._arrays if key.startswith("undecided/")]
        return {key.partition("/")[2]: str(self._arrays[key]) for key in keys}

    def read_feed(self, case: str, name: str) -> Array:
        """Return the array of the feed ``name`` in ``case``, in its dtype and shape."""
        return self._arrays[f"feed/{case}/{name}"]

    def read_fetch(self, case: str, name: str) -> Array:
        """Return TensorFlow's answer to ``case`` for the fetch ``name``, in its dtype and shape."""
        return self._arrays[f"fetch/{case}/{name}"]

    def read_sensitivity(self, fetch: str) -> float:
        """Return the distance that TensorFlow's answer moves when weights and inputs move by one ulp.

        It is a share of the largest magnitude in the answer, the greatest of all cases; 0.0 if the file has none: for
        integers, and answers recorded without it. See ``builder.verify.sensitivity``.
        """
        return self._read_share(f"sensitivity/{fetch}")

    def read_rounding(self, fetch: str) -> float:
        """Return the distance that an answer may be off since the graph itself uses half precision.

        It is a share of the largest magnitude over all cases; 0.0 for float32. See ``ReferenceAnswers.write_golden``.
        """
        return self._read_share(f"rounding/{fetch}")

    def _read_share(self, key: str) -> float:
        return float(self._arrays[key]) if key in self._arrays else 0.0

    def require_fits(self, feeds: Sequence[TensorSpec], fetches: Sequence[TensorSpec]) -> None:
        """Raise VerifyError if there are no cases, or an array is missing or of another dtype or shape."""
        if not self.cases:
            raise VerifyError(f"{self.path.name} has no cases to verify with; delete it and build again.")
        for case in self.cases:
            for kind, ports in (("feed", feeds), ("fetch", fetches)):
                for port in ports:
                    self._require_fits(f"{kind}/{case}/{port.name}", port)

    def _require_fits(self, key: str, port: TensorSpec) -> None:
        if key not in self._arrays:
            raise VerifyError(f"{self.path.name} has no {key}; delete it and build again.")
        array = self._arrays[key]
        if array.dtype.name != port.dtype or not port.accepts_shape(array.shape):
            raise VerifyError(
                f"{self.path.name}: {key} is {array.dtype.name}{list(array.shape)}, the model's is "
                f"{port.dtype}{port.describe_shape()}; delete it and build again."
            )
