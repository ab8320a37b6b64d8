"""Array types, and files of arrays with the same bytes for the same arrays."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write ``arrays`` as ``numpy.savez`` does, but without the time of day."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, value in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(value, order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue())
