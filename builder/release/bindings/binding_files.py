"""Files of a package for one language, and their writing to a folder without harm to a person's own files there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from builder import __version__
from builder.base.cache import file_digest
from builder.base.errors import UsageError
from builder.base.files import replace_file, write_file
from builder.release.bindings.describe import BindingDescription

MANIFEST = "bindings.json"
"""File in the package's folder that lists what coldforge wrote there."""


@dataclass(frozen=True)
class BindingSources:
    """The files that a package includes.

    ``notice``: the authors of the code in the library. ``archive``: libmodel.a, for static linking. ``wasm``: the
    folder of `coldforge wasm`.
    """

    description: Path
    header: Path
    library: Path
    notice: Path
    archive: Path | None = None
    wasm: Path | None = None


Files = Mapping[str, str | Path]
"""Files of a package, by path in it: the text of each, or the file to copy."""


def write_package_files(files: Files, folder: Path, language: str, description: BindingDescription) -> None:
    """Write ``files`` to ``folder``, over those of an earlier run; other files stay.

    Raises UsageError if the folder holds files but no package of this model and language.
    """
    before = _read_recorded_files(folder, language, description)
    _record_files(before | set(files), folder, language, description)  # the next run may overwrite these
    for name in before - set(files):
        (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        path = folder / name
        with replace_file(path) as fresh:  # A file is never half written, and a library that is in use stays whole.
            if isinstance(content, Path):
                shutil.copyfile(content, fresh)
            else:
                fresh.write_text(content.rstrip("\n") + "\n", encoding="utf-8")
            fresh.chmod(0o755 if name.endswith(".so") else 0o644)
    _record_files(set(files), folder, language, description)


def _record_files(names: Set[str], folder: Path, language: str, description: BindingDescription) -> None:
    """Record the files ``names`` as coldforge's, with the digests of those that exist."""
    record = {
        "coldforge": __version__,
        "language": language,
        "model": {"name": description.name, "version": description.version},
        "files": {n: file_digest(folder / n) if (folder / n).is_file() else "" for n in sorted(names)},
    }
    write_file(folder / MANIFEST, json.dumps(record, indent=1) + "\n")


def _read_recorded_files(folder: Path, language: str, description: BindingDescription) -> set[str]:
    """Return the names of the files that an earlier run wrote."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return set()
    try:
        record = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        matches = record["language"] == language and record["model"]["name"] == description.name
        files = set(record["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder} holds files that are not bindings: give an --out that is empty or does not exist."
        ) from error
    if not matches:
        raise UsageError(
            f"{folder} holds the {record['language']} bindings of {record['model']['name']}: give another --out."
        )
    return files
