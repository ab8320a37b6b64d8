"""Reads ``.npz`` files from anyone: without pickles, and with no more memory than the file declares."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from builder.base.errors import UsageError
from builder.base.escape import describe_error

LARGEST = 4_000_000_000
"""The largest size of all arrays in bytes, unpacked."""
MOST = 1000
"""The largest number of arrays in a file."""


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of numbers at ``path``, by name. Raises UsageError if the file is invalid or too large."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MOST or (size := sum(member.file_size for member in members)) > LARGEST:
                what = f"{len(members):,} arrays" if len(members) > MOST else f"{size:,} bytes of arrays"
                raise UsageError(f"{path} has {what}; at most {MOST:,}, and {LARGEST:,} bytes, are read: take a part.")
            return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}
    except (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        reason = describe_error(error)
        raise UsageError(f"{path} cannot be read as an .npz file of arrays: {reason}") from error


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return the array of a member. Raises ValueError."""
    with archive.open(member) as file:
        shape, dtype = _read_header(file)
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"{member.filename} has no shape")
    if dtype.kind not in "biuf":
        raise ValueError(f"{member.filename} is of {dtype}, not of numbers")
    if math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"{member.filename} declares {list(shape)}, which is more than it has")
    with archive.open(member) as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(file)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"its format {version} is not known")
    try:
        shape, _, dtype = readers[version](file)
    except Exception as error:  # NumPy parses Python, and passes on all its errors.
        raise ValueError(f"its header is damaged: {error}") from error
    return shape, dtype
