"""A tokenizer that comes with the model: in its package or archive, in its repository, or among MLflow's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

from builder.base.cache import file_digest
from builder.base.commands import did_you_mean
from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible
from builder.config import ModelSpec, Source
from builder.config.address import parse_address
from builder.sources import archive, pypi_package
from builder.sources.fetch_model import fetch_archived_model, fetch_file
from builder.sources.folder_models import safe_parts
from builder.sources.model_store import Store, require_digest
from builder.sources.transfer import Bounds, Show


def find_text_file(spec: ModelSpec, store: Store, show: Show, bounds: Bounds) -> Path:
    """Return the file that ``[text]`` names in the model's source; the model has been located.

    Raises ImportModelError where it is missing or differs from the spec's digest, and as ``locate_model`` does.
    """
    assert spec.text
    assert spec.text.inside
    source, (_, file) = spec.source, spec.text.inside
    if source.package:
        return _find_in_package(spec, source.package, file, store)
    if source.archived:
        folder, _ = fetch_archived_model(source, store, show, bounds)
        path = _find_in_folder(folder, file, source.shown)
    else:
        path = fetch_file(_replace_file(source, file, spec.text.sha256), store, show, bounds)
    if spec.text.sha256:
        require_text(spec, file_digest(path), f"{file} of {source.shown}")
    return path


def require_text(spec: ModelSpec, found: str, what: str) -> None:
    """Raise ImportModelError, with the line that pins it, where ``[text]`` does not pin the digest ``found``."""
    pinned = spec.text.sha256 if spec.text else None
    if pinned is None:
        raise ImportModelError(
            f"{escape_invisible(what)} is not pinned. If you trust what is there now, write this line under [text] in "
            f'{spec.path.name}:\n  sha256 = "{found}"'
        )
    require_digest(escape_invisible(what), "[text].sha256", pinned, found)


def _find_in_package(spec: ModelSpec, name: str, file: str, store: Store) -> Path:
    pinned = spec.text and spec.text.sha256
    if pinned and (cached := store.find_file(pinned, PurePosixPath(file).name)):
        return cached
    with store.translate_disk_errors(), store.make_scratch(f"{name} {file}") as folder:
        fresh = folder / "file"
        digest = pypi_package.take_files(name, {file: fresh})[file]
        require_text(spec, digest, f"{file} in {name}")
        return store.keep_file(fresh, digest, PurePosixPath(file).name)


def _find_in_folder(folder: Path, file: str, what: str) -> Path:
    parts, names = safe_parts(file), archive.list_names(folder)
    name = "/".join(parts or [])
    if name not in names:
        hint = did_you_mean(name, names, 3, 0.3)
        raise ImportModelError(f"{what} has no {escape_invisible(file)}.{hint}")
    return folder / name


def _replace_file(source: Source, file: str, sha256: str | None) -> Source:
    """Return ``source`` with another file in place of the model. Raises ImportModelError where it has only one."""
    address = source.address
    assert address
    if address.kind == "mlflow":
        return replace(source, file=file, sha256=sha256)
    if address.kind == "hf":
        revision = f"@{address.revision}" if address.revision else ""
        try:
            other = parse_address(f"hf://{address.place}/{file}{revision}")
        except ValueError as error:
            raise ImportModelError(f"{address.place} has no {escape_invisible(file)}: it {error}.") from None
        return replace(source, file=None, sha256=sha256, address=other)
    raise ImportModelError(
        f"{address.shown} is one file, and nothing else comes with it: name the tokenizer's own path under [text], "
        "without `model:`."
    )
