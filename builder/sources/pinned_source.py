"""The pinned source to write into a new model.toml, for a model at an address, with the model's name in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.base.commands import docs_command
from builder.base.errors import ImportModelError, UsageError
from builder.config import Source
from builder.config.address import Address, parse_address
from builder.config.rules import guess_format
from builder.sources import mlflow
from builder.sources.fetch_model import fetch_archived_model, fetch_model, resolve_address
from builder.sources.folder_models import ITSELF, choose_model
from builder.sources.locate import MODELS
from builder.sources.model_store import Store
from builder.sources.transfer import USUAL, Bounds, Show, no_progress


def find_source(text: str, cache: Path, show: Show = no_progress, bounds: Bounds = USUAL) -> tuple[Source, Path]:
    """Return the source at the address ``text``, and the model itself: a file or a folder in ``cache``.

    Raises UsageError for an invalid address, ImportModelError where there is no model, or no single one, and
    EnvironmentSetupError where it can't be fetched.
    """
    try:
        address = resolve_address(parse_address(text), bounds)
    except ValueError as error:
        raise UsageError(f"the address {error}.") from None
    store = Store(cache / MODELS)
    source = _make_source(address, store, show, bounds)
    fetched = fetch_model(source, store, show, bounds)
    return replace(source, sha256=fetched.sha256), fetched.path


def _make_source(address: Address, store: Store, show: Show, bounds: Bounds) -> Source:
    file, source = None, Source("saved_model", None, address=address)
    if address.kind == "mlflow":
        file = choose_model(mlflow.find_version(address, bounds).list_files(), None, address.shown)
        if file == ITSELF:
            raise ImportModelError(f"{address.shown} is a SavedModel by itself. Log it into a folder of the version.")
    elif address.is_archive:
        _, member = fetch_archived_model(source, store, show, bounds)
        file = member if guess_format(member) else None
    form = guess_format(file or address.path) or ("saved_model" if file or address.is_archive else None)
    if form is None:
        raise UsageError(
            f"{address.shown} does not tell its format: its name has to end in .keras, .h5, .pb, .tar.gz or .zip. "
            f"Write a model.toml with `format` by hand ({docs_command('sources')})."
        )
    return replace(source, format=form, file=file)
