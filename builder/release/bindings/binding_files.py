"""Files of a package for one language, and their writing to a folder without harm to a person's own files there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from string import Template

from builder import __version__
from builder.base.cache import file_digest
from builder.base.errors import UsageError
from builder.base.escape import escape_comment
from builder.base.files import replace_file, write_file
from builder.release.bindings.describe import BindingDescription, BindingTensor, OutputHead

TEMPLATES = Path(__file__).with_name("templates")
MANIFEST = "bindings.json"
"""File in the package's folder that lists what coldforge wrote there."""


SHOWN = 8
"""Number of values that an example prints of an output that is no classification."""


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


def fill_template(template: str, **values: object) -> str:
    """Return ``templates/<template>.in`` with each ``$name`` replaced; raises KeyError for a name without a value."""
    return Template((TEMPLATES / f"{template}.in").read_text(encoding="utf-8")).substitute(values)


def wrap_items(items: list[str], indent: int, width: int = 116, after: str = ",") -> str:
    """Join ``items``, with ``after`` behind each, on lines of at most ``width`` columns where the items allow it."""
    lines, line = [], ""
    for item in items:
        if line and indent + len(line) + len(item) + 2 > width:
            lines.append(line)
            line = ""
        line += f"{' ' if line else ''}{item}{after}"
    return "\n".join(" " * indent + line for line in [*lines, line] if line)


def format_usage(description: BindingDescription) -> str:
    """Return ``photo.ppm``, or words for the files of all feeds."""
    names = ("photo.ppm" if description.takes_image(f) else f.identifier.upper() for f in description.feeds)
    return " ".join(names)


def describe_tensor(description: BindingDescription, tensor: BindingTensor) -> str:
    """Describe a tensor as ``float32 [1, 10]``, with the model's own name where that is another one."""
    text = tensor.shape + (f", as large as {tensor.sized_by} says" if tensor.sized_by else "")
    if tensor.spec.name != tensor.identifier:
        text += f', "{tensor.spec.name}" in the model'
    if description.picture and description.takes_image(tensor):
        text += f": {description.picture.sentence}"
    return escape_comment(text)


def list_plain_outputs(description: BindingDescription) -> list[tuple[str, BindingTensor]]:
    """Return the outputs that an example prints as numbers, by name: no classifications, or outputs of an open size."""
    return [(head.name, head.fetch) for head in description.heads if head not in description.classifications]


def mention_image(description: BindingDescription) -> str:
    """Return the image formats that an example's file may have, as text after the words "raw bytes"."""
    picture = description.picture
    return f", or a picture of {picture.width}x{picture.height} as binary PPM or PGM" if picture else ""


def format_image_reader(description: BindingDescription, template: str, **values: str) -> str:
    """Return the code that reads an image file, with ``values`` filled in; empty for a model that takes no image."""
    picture = description.picture
    if picture is None:
        return ""
    channels = 1 if picture.mode == "grey" else 3
    return fill_template(
        template, width=picture.width, height=picture.height, mode=picture.mode, channels=channels, **values
    )


def format_row_count(head: OutputHead) -> str:
    return f"{head.items} row{'s' if head.items > 1 else ''} of {head.length} classes"


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
