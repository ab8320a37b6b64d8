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
    """Return the feeds of texts by name, [n, length]; a text is a line of a file, or a file in a folder or its folders.

    Names of folders in it are labels. The classes and the name of the output with these labels follow, if there are
    labels. Raises UsageError if there are no texts, if one is not UTF-8, and if a folder's name is not a label.
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
