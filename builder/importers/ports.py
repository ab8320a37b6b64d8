"""What a trained model takes and gives, as found in the file: the material of a spec's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.errors import ImportModelError


@dataclass(frozen=True)
class PortInfo:
    """One input or output as the model declares it.

    ``name`` is the model's own name, ``dtype`` NumPy's (TensorFlow's where NumPy has none, such as
    ``string``), ``shape`` has None for every dynamic dimension and is None when not even the rank is known.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class ModelPorts:
    """Every feed and fetch, in the order the model has them.

    ``signatures`` are the names a SavedModel offers (empty for other formats) and ``signature`` the one described.
    """

    feeds: tuple[PortInfo, ...]
    fetches: tuple[PortInfo, ...]
    signature: str | None = None
    signatures: tuple[str, ...] = ()

    @property
    def have_strings(self) -> bool:
        """Whether any feed or fetch is of strings."""
        return any(port.dtype == "string" for port in (*self.feeds, *self.fetches))

    @classmethod
    def of_json(cls, found: Any) -> ModelPorts:
        """What ``dataclasses.asdict`` made, after a way through JSON. Raises ImportModelError for anything else."""
        try:
            feeds, fetches = (tuple(_port(row) for row in found[key]) for key in ("feeds", "fetches"))
            signature = None if found["signature"] is None else str(found["signature"])
            return cls(feeds, fetches, signature, tuple(str(name) for name in found["signatures"]))
        except (LookupError, TypeError, ValueError) as error:
            raise ImportModelError("The process that read the model did not report its inputs and outputs.") from error


def _port(row: Any) -> PortInfo:
    shape = row["shape"]
    dims = None if shape is None else tuple(None if dim is None else int(dim) for dim in shape)
    return PortInfo(str(row["name"]), str(row["dtype"]), dims)
