"""A folder of files, or one of folders of files whose names are labels."""

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
    """Files in a folder and no labels, or in its folders and the classes that their names stand for.

    The last is the name of the output that has these labels. ``suffixes``: of the files, in lower case; ``what`` names
    them. Raises UsageError where there are none, and where a folder's name is no label.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder.")
    if loose := _list_folder(folder, suffixes):
        return loose, None, ""
    inside = [inner for inner in sorted(folder.iterdir()) if inner.is_dir()]
    found = [(file, inner.name) for inner in inside for file in _list_folder(inner, suffixes)]
    if not found:
        raise UsageError(f"{folder} has no {what} ({', '.join(sorted(suffixes))}), and neither have its folders.")
    output = find_labelled_output(spec, {name for _, name in found})
    classes = [_find_class(name, output, folder) for _, name in found]
    return [file for file, _ in found], np.array(classes, np.int64), output.name


def _list_folder(folder: Path, suffixes: Collection[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())


def find_labelled_output(spec: ModelSpec, names: set[str] | None = None) -> OutputSpec:
    """The classification that labels are of: of several the first that knows them."""
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
    known = ", ".join(output.labels) or "the numbers of its classes"
    raise UsageError(f"{folder / name} is not a label of the output {output.name}; its labels are {known}.")
