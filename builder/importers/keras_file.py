"""The facts that a Keras file states: the version of Keras that wrote it, and whether it holds a model."""

from __future__ import annotations

import contextlib
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py

from builder.base.errors import ImportModelError
from builder.config.checkpoints import explain_weights

LARGEST_CONFIG = 100_000_000
"""A limit in bytes; the configuration of a network of a thousand layers has one million."""

_HDF5 = b"\x89HDF\r\n\x1a\n"
_AGAIN = "Copy or download it again."


def is_hdf5(path: Path) -> bool:
    """Return whether a file begins as HDF5, which Keras before 2.12 wrote also for ``.keras``."""
    with path.open("rb") as file:
        return file.read(len(_HDF5)) == _HDF5


def read_version(path: Path) -> str | None:
    """Read the version of Keras that wrote the model at ``path``, or None where the file does not state it.

    Raises ImportModelError for a file that is damaged, is not from Keras, holds weights alone, or is from Keras 1.
    """
    if path.suffix == ".json":
        version = _read_json_version(path)
    elif is_hdf5(path):
        version = _read_hdf5_version(path)
    elif path.suffix == ".keras" or zipfile.is_zipfile(path):
        version = _read_archive_version(path)
    else:
        raise ImportModelError(f"{path.name} is not an HDF5 file, which a Keras model of this name is. {_AGAIN}")
    if version and version.partition(".")[0] in ("0", "1"):
        raise ImportModelError(
            f"{path.name} was written by Keras {version}, which no Keras of today reads. Load it where Keras 2.2 runs "
            '(Python 3.7, `pip install "keras<2.3" "tensorflow<2" "h5py<3"`), save it there again, and use that file.'
        )
    return version


def _read_archive_version(path: Path) -> str | None:
    if not zipfile.is_zipfile(path):  # Keras would report a missing file.
        raise ImportModelError(
            f"{path.name} is damaged or cut off: a .keras file is a zip archive, and this one has no end. {_AGAIN}"
        )
    with zipfile.ZipFile(path) as archive:
        for name in ("config.json", "metadata.json"):
            size = archive.getinfo(name).file_size if name in archive.namelist() else 0
            if size > LARGEST_CONFIG:  # A small archive may unpack to any size.
                raise ImportModelError(
                    f"{name} in {path.name} says that it has {size:,} bytes; no description of a model is larger than "
                    f"{LARGEST_CONFIG:,}. Save the model again."
                )
    metadata = read_config(path, "metadata.json")
    version = metadata.get("keras_version") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else None


def _read_hdf5_version(path: Path) -> str | None:
    try:
        if not has_in_hdf5(path, "model_config"):
            if has_in_hdf5(path, "layer_names", "layers", "_layer_checkpoint_dependencies"):
                raise ImportModelError(explain_weights(path))
            raise ImportModelError(
                f"{path.name} is an HDF5 file, but not a Keras model: it has no model_config. Name a file that "
                "model.save(...) wrote."
            )
        with h5py.File(path) as file:
            version = file.attrs.get("keras_version")
    except OSError as error:
        raise ImportModelError(f"{path.name} is damaged or cut off: {error}. {_AGAIN}") from error
    return version.decode("utf-8", "replace") if isinstance(version, bytes) else version and str(version)


def _read_json_version(path: Path) -> str | None:
    config = read_config(path)
    if not isinstance(config, dict) or "class_name" not in config:
        raise ImportModelError(f"{path.name} is not a Keras model's architecture. Name what model.to_json() wrote.")
    # Keras 3 does not write its version, but names the module of each class.
    return str(config.get("keras_version") or "") or ("3" if config.get("module") else None)


def has_in_hdf5(path: Path, *names: str) -> bool:
    """Return whether an HDF5 file has a group or attribute with one of ``names``, or raise OSError."""
    with h5py.File(path) as file:
        return any(name in file or name in file.attrs for name in names)


def read_config(path: Path, name: str = "config.json") -> Any:
    """Read the configuration of a model, or another JSON file of an archive, or None if it is unreadable."""
    with contextlib.suppress(ValueError, KeyError, RecursionError):
        if is_hdf5(path):
            with h5py.File(path) as file:
                return json.loads(file.attrs["model_config"])
        if path.suffix == ".json":
            return json.loads(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read(name))
    return None
