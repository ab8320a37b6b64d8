"""What a trained model takes and gives, as found in the file: the material of a spec's defaults."""

from __future__ import annotations

from dataclasses import dataclass


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
