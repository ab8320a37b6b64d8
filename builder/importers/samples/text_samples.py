"""A user's texts, perhaps in a folder for each label, as the ids that the function makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.errors import UsageError
from builder.config import ModelSpec
from builder.config.tensor import TensorSpec
from builder.importers.samples.golden_inputs import make_text_feeds
from builder.importers.samples.labelled_folder import list_labelled_files

SUFFIX = ".txt"


def read_labelled_texts(
    path: Path, spec: ModelSpec, feeds: Sequence[TensorSpec]
) -> tuple[dict[str, Array], NDArray[np.int64] | None, str]:
    """The lines of a file, or the files in a folder or in its folders, whose names are labels: each is a text.

    The feeds of text by name, [n, length]; with the class of each and the output that has these labels, where there
    are such. Raises UsageError where there are none, for what is not UTF-8, and where a folder's name is no label.
    """
    assert spec.text is not None
    classes, output = None, ""
    if path.is_dir():
        files, classes, output = list_labelled_files(path, spec, {SUFFIX}, "text files")
        texts = [_read_text(file).strip() for file in files]
    else:
        texts = [line for line in _read_text(path).splitlines() if line.strip()]
    if not texts:
        raise UsageError(f"{path} has no text.")
    return make_text_feeds(texts, spec.text, feeds), classes, output


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text.") from None
