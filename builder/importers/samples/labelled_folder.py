"""A folder of files, or a folder of folders of files whose names are labels."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import UsageError
from builder.config import ModelSpec, OutputSpec


def list_labelled_files(
    folder: Path, spec: ModelSpec, suffixes: Collection[str], what: str
) -> tuple[list[Path], NDArray[np.int64] | None, str]:
    """Return the files in a folder, without labels, or in its folders, with the classes of the folders' names.

    The last value is the name of the output with these labels. ``suffixes``: of the files, in lower case. ``what``
    names them. Raises UsageError if there are no files, or if a folder's name is not a label.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder.")
    if loose := _list_folder(folder, suffixes):
        return loose, None, ""
    folders = [inner for inner in sorted(folder.iterdir()) if inner.is_dir()]
    labelled = [(file, inner.name) for inner in folders for file in _list_folder(inner, suffixes)]
    if not labelled:
        raise UsageError(f"{folder} has no {what} ({', '.join(sorted(suffixes))}), and neither have its folders.")
    output = find_labelled_output(spec, {name for _, name in labelled})
    classes = [_find_class(name, output, folder) for _, name in labelled]
    return [file for file, _ in labelled], np.array(classes, np.int64), output.name


def _list_folder(folder: Path, suffixes: Collection[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())


def find_labelled_output(spec: ModelSpec, names: set[str] | None = None) -> OutputSpec:
    """Return the classification with the labels; if there are several, the first that has all ``names``."""
    outputs = [output for output in spec.outputs if output.kind == "classification"]
    if not outputs:
        raise UsageError(
            f"{spec.name} has no classification, so there is nothing to compare labels with: give inputs without "
            "labels."
        )
    return next((o for o in outputs if names and names <= set(o.labels)), outputs[0])


def _find_class(name: str, output: OutputSpec, folder: Path) -> int:
    if name in output.labels:
        return output.labels.index(name)
    if not output.labels and name.isdecimal():
        return int(name)
    labels = ", ".join(output.labels) or "the numbers of its classes"
    raise UsageError(f"{folder / name} is not a label of the output {output.name}; its labels are {labels}.")
