"""A package for one language: its files, and how they get to a folder without harm to what a person put there."""

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
"""In the package's folder: what coldforge wrote there."""


SHOWN = 8
"""Numbers of an output that is no classification, in what an example prints."""


@dataclass(frozen=True)
class BindingSources:
    """What a package takes along.

    ``notice``: who wrote what is in the library. ``archive``: libmodel.a, for static linking. ``wasm``: `coldforge
    wasm`'s folder.
    """

    description: Path
    header: Path
    library: Path
    notice: Path
    archive: Path | None = None
    wasm: Path | None = None


Files = Mapping[str, str | Path]
"""The files of a package, by path in it: the text of each, or the file to copy."""


def fill_template(template: str, **values: object) -> str:
    """The text of ``templates/<template>.in`` with each ``$name`` replaced; raises KeyError for one not given."""
    return Template((TEMPLATES / f"{template}.in").read_text(encoding="utf-8")).substitute(values)


def wrap_items(items: list[str], indent: int, width: int = 116, after: str = ",") -> str:
    """``items``, ``after`` behind each, on lines of at most ``width`` columns where the items allow it."""
    lines, line = [], ""
    for item in items:
        if line and indent + len(line) + len(item) + 2 > width:
            lines.append(line)
            line = ""
        line += f"{' ' if line else ''}{item}{after}"
    return "\n".join(" " * indent + line for line in [*lines, line] if line)


def format_usage(description: BindingDescription) -> str:
    """``photo.ppm``, or what stands for the files of all feeds."""
    names = ("photo.ppm" if description.takes_image(f) else f.identifier.upper() for f in description.feeds)
    return " ".join(names)


def describe_tensor(description: BindingDescription, tensor: BindingTensor) -> str:
    """``float32 [1, 10]``, and the model's own name where it is another one."""
    text = tensor.shape + (f", as large as {tensor.sized_by} says" if tensor.sized_by else "")
    if tensor.spec.name != tensor.identifier:
        text += f', "{tensor.spec.name}" in the model'
    if description.picture and description.takes_image(tensor):
        text += f": {description.picture.sentence}"
    return escape_comment(text)


def list_plain_outputs(description: BindingDescription) -> list[tuple[str, BindingTensor]]:
    """What an example prints as numbers, by name: the outputs that are no classification, or of an open size."""
    return [(head.name, head.fetch) for head in description.heads if head not in description.classifications]


def mention_image(description: BindingDescription) -> str:
    """What an example's file may hold besides raw bytes, to follow the words "raw bytes"."""
    picture = description.picture
    return f", or a picture of {picture.width}x{picture.height} as binary PPM or PGM" if picture else ""


def format_image_reader(description: BindingDescription, template: str, **values: str) -> str:
    """The code that reads a picture's file, filled in, also with ``values``; empty for a model that takes none."""
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
    """Write ``files`` to ``folder``, over those of an earlier time; what else is there stays.

    Raises UsageError if the folder holds files but none of a package of this model and language.
    """
    before = _read_recorded_files(folder, language, description)
    _record_files(before | set(files), folder, language, description)  # what is killed from here on may be written over
    for name in before - set(files):
        (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        path = folder / name
        with replace_file(path) as fresh:  # never half a file, and a library that is in use stays whole
            if isinstance(content, Path):
                shutil.copyfile(content, fresh)
            else:
                fresh.write_text(content.rstrip("\n") + "\n", encoding="utf-8")
            fresh.chmod(0o755 if name.endswith(".so") else 0o644)
    _record_files(set(files), folder, language, description)


def _record_files(names: Set[str], folder: Path, language: str, description: BindingDescription) -> None:
    """Write down that the files ``names`` are coldforge's, with the digests of those that are there."""
    made = {
        "coldforge": __version__,
        "language": language,
        "model": {"name": description.name, "version": description.version},
        "files": {n: file_digest(folder / n) if (folder / n).is_file() else "" for n in sorted(names)},
    }
    write_file(folder / MANIFEST, json.dumps(made, indent=1) + "\n")


def _read_recorded_files(folder: Path, language: str, description: BindingDescription) -> set[str]:
    """The files that an earlier run wrote."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return set()
    try:
        made = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        same = made["language"] == language and made["model"]["name"] == description.name
        files = set(made["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder} holds files that are not bindings: give an --out that is empty or does not exist."
        ) from error
    if not same:
        raise UsageError(
            f"{folder} holds the {made['language']} bindings of {made['model']['name']}: give another --out."
        )
    return files
