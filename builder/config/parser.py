"""Parser of ``model.toml``: a ``ModelSpec``, or one error that lists every mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from builder.base.errors import SpecError
from builder.config import rules
from builder.config.address import is_address, parse_address
from builder.config.model_spec import ModelSpec, SignatureSpec
from builder.config.schema import (
    WITH_MODEL,
    Activations,
    AudioSpec,
    FeedSpec,
    FetchSpec,
    Format,
    ImageSpec,
    LayerSpec,
    OutputSpec,
    Source,
    TextSpec,
    Tolerance,
    Weights,
)
from builder.config.toml_tables import Mistakes, SpecTable, SpecTables, read_tables
from builder.config.value_types import PathKind

T = TypeVar("T")


def read_spec(path: Path) -> ModelSpec:
    """Read a spec. The model itself need not exist yet, except a folder without extension, which tells its format.

    Raises SpecError with one line per mistake: ``model.toml:LINE: [section].key: what is wrong; what would be right``.
    """
    mistakes = Mistakes(str(path))
    tables = read_tables(_read_text(path), mistakes)
    if tables is None:
        raise SpecError(str(mistakes))
    path = Path(os.path.normpath(path.absolute()))
    name = tables.model.get("name") or _make_default_name(path)
    if not name and "name" not in tables.model.present:
        says = tables.model.section.keys["name"].kind.says
        tables.model.note_mistake("name", f"cannot be made from the folder's name; add it: {says}")
    form = rules.find_source_format(tables.model, path.parent)
    for output in tables.outputs:
        _prepare_output(output, path.parent)
    rules.name_ports(tables)
    rules.check_tables(tables, form)
    config = _find_config(tables.model, path.parent)
    if mistakes.entries or form is None:
        raise SpecError(str(mistakes))
    return _make_spec(path, name, form, config, tables)


def read_specs(paths: Sequence[Path]) -> tuple[ModelSpec, ...]:
    """Read several specs. Raises SpecError with the mistakes of all of them."""
    specs, mistakes = [], []
    for path in paths:
        try:
            specs.append(read_spec(path))
        except SpecError as error:
            mistakes.append(str(error))
    if mistakes:
        raise SpecError("\n".join(mistakes))
    return tuple(specs)


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file; `coldforge init MODEL` writes one") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}; name a model.toml file") from None
    try:
        return data.decode("utf-8-sig")  # Windows editors put a byte order mark at the start
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None


def _make_default_name(path: Path) -> str:
    stem = path.parent.name if path.name == "model.toml" else path.stem
    return re.sub(r"[^a-z0-9_-]+", "_", stem.lower()).strip("_-")[:64]


def _prepare_output(output: SpecTable, folder: Path) -> None:
    """Fill in values that follow from other keys: labels from their file, and the kind."""
    if "labels_file" in output.values and "labels" not in output.present:
        labels = _read_labels(output, folder / output.values["labels_file"])
        if labels:
            output.values["labels"] = labels
    if "kind" not in output.present:
        classes = output.present & {"labels", "labels_file", "top_k"}
        output.values["kind"] = "detection" if "boxes" in output.present else "classification" if classes else "raw"


def _read_labels(output: SpecTable, path: Path) -> tuple[str, ...]:
    """Read one label per line; mistakes name the line in that file."""
    try:
        labels = [line.strip() for line in path.read_text("utf-8-sig").rstrip().split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        right = "name a text file, from the folder of model.toml"
        output.note_mistake("labels_file", f'"{path.name}" cannot be read: {why}; {right}')
        return ()
    kind = output.section.keys["labels"].kind
    problems = list(kind.find_problems(labels))
    for _, problem in problems:
        output.note_mistake("labels_file", f"{path.name}, {problem.replace('item ', 'line ')}")
    return () if problems else tuple(labels)


def _find_config(model: SpecTable, folder: Path) -> Path | None:
    if "config" not in model.values:
        return None
    path = _resolve_path(model.values["config"], folder)
    if not path.is_file():
        model.note_mistake(
            "config", f'"{model.values["config"]}" is not a file; name one, from the folder of model.toml'
        )
    return path


def _make_spec(path: Path, name: str, form: Format, config: Path | None, tables: SpecTables) -> ModelSpec:
    model, folder = tables.model, path.parent
    source, signatures, batches = model.get("source") or "", model.get("signature") or (None,), model.get("batch")
    address = parse_address(source) if is_address(source) else None
    first, *others = (_make_signature(own, signature, name) for signature, own in rules.split_signatures(tables))
    return ModelSpec(
        path=path,
        name=name,
        version=model.get("version"),
        source=_make_part(
            Source,
            model,
            folder,
            format=form,
            path=_resolve_path(source, folder) if source and not address else None,
            signature=signatures[0],
            config=config,
            address=address,
        ),
        batch=min(batches),
        batches=tuple(sorted(batches)) if len(batches) > 1 else (),
        feeds=first.feeds,
        fetches=first.fetches,
        image=_make_part(ImageSpec, tables.image, folder) if tables.image else None,
        audio=_make_part(AudioSpec, tables.audio, folder) if tables.audio else None,
        text=_make_text_spec(tables.text, folder) if tables.text else None,
        outputs=first.outputs,
        signatures=tuple(others),
        tolerance=_make_part(Tolerance, tables.tolerance, folder),
        weights=_make_part(Weights, tables.weights, folder),
        activations=_make_part(Activations, tables.activations, folder),
        layers=tuple(_make_part(LayerSpec, layer, folder) for layer in tables.layers),
        samples=_resolve_path(samples, folder) if (samples := tables.golden.get("samples")) else None,
        targets=model.get("targets"),
        winograd=model.get("winograd"),
        max_unzipped=tables.limits.get("unzipped"),
        max_zipped=tables.limits.get("zipped"),
    )


def _make_part(kind: type[T], table: SpecTable, folder: Path = Path(), **derived: Any) -> T:
    """Make a dataclass of the keys of ``table`` for its fields, with paths from ``folder``, and of ``derived``."""
    for field in fields(cast(Any, kind)):
        key = table.section.keys.get(field.name)
        if key is None or field.name in derived:
            continue
        value = table.get(field.name)
        if value is not None and isinstance(key.kind, PathKind):
            value = _resolve_path(value, folder)
        if value is not None or field.default is MISSING:
            derived[field.name] = value
    return kind(**derived)


def _resolve_path(path: str, folder: Path) -> Path:
    return Path(os.path.normpath(folder / path))


def _make_text_spec(text: SpecTable, folder: Path) -> TextSpec:
    derived: dict[str, Any] = {}
    for key in ("tokenizer", "vocabulary"):
        if (path := text.get(key)) and path.startswith(WITH_MODEL):
            derived = {key: None, "inside": (key, path.removeprefix(WITH_MODEL))}
    return _make_part(TextSpec, text, folder, **derived)


def _make_signature(tables: SpecTables, name: str, model_name: str) -> SignatureSpec:
    return SignatureSpec(
        name,
        feeds=tuple(map(_make_feed, tables.feeds)),
        fetches=tuple(_make_part(FetchSpec, fetch) for fetch in tables.fetches),
        outputs=tuple(_make_output(output, model_name) for output in tables.outputs),
    )


def _make_feed(feed: SpecTable) -> FeedSpec:
    shapes = feed.get("shapes") or ()
    shape = shapes[0] if shapes else feed.get("shape")
    return _make_part(FeedSpec, feed, shape=shape, shapes=shapes if len(shapes) > 1 else ())


def _make_output(output: SpecTable, model_name: str) -> OutputSpec:
    fetch = output.get("fetch")
    derived = {"name": output.get("name") or fetch or model_name, "fetch": output.get("boxes") or fetch}
    return _make_part(OutputSpec, output, **derived)
