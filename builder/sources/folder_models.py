"""Models among the files of a folder, unpacked or remote. Names have slashes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from builder.base.commands import did_you_mean
from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible
from builder.config.rules import SAVED_MODEL, guess_format

ITSELF = "."
"""Name of the folder itself."""

_DEEPEST, _LONGEST_NAME = 32, 255


def safe_parts(name: str) -> list[str] | None:
    """Split a path that leads to below a folder; None for one that leads elsewhere, or is not valid everywhere."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
        return None
    if len(parts) > _DEEPEST or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return None
    return parts


def find_models(names: Iterable[str]) -> list[str]:
    """Return the folders that are SavedModels, and the files that are models by their names.

    The files in a SavedModel are no other models.
    """
    paths = [PurePosixPath(name) for name in sorted(names)]
    saved = {path.parent for path in paths if path.name in SAVED_MODEL}
    outer = {folder for folder in saved if not saved & set(folder.parents)}
    files = (path for path in paths if guess_format(path.name) and not outer & set(path.parents))
    return sorted(str(path) for path in (*outer, *files))


def choose_model(names: Iterable[str], file: str | None, what: str) -> str:
    """Choose the model ``file``, or the only one; SavedModels come first. ``what``: the folder's name in messages.

    Raises ImportModelError where there is none, or several.
    """
    models = find_models(names)
    if file is not None:
        path = str(PurePosixPath(file))
        if path in models:
            return path
        hint = did_you_mean(path, models, 3, 0.3)
        raise ImportModelError(f"{what} has no model {file}.{hint}")
    likely = [name for name in models if not guess_format(name)] or models
    if not likely:
        raise ImportModelError(f"{what} has no model in it: no SavedModel, .keras, .h5 or .pb file.")
    if len(likely) > 1:
        some = escape_invisible(", ".join(likely[:5]))
        raise ImportModelError(f"{what} has {len(likely)} that may be meant; name one of them as `file`: {some}")
    return likely[0]
