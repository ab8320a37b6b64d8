"""Parser of ``model.toml``: a ``ModelSpec``, or one error that lists every mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from builder.base.errors import SpecError
from builder.config import rules
from builder.config.address import is_address, parse_address
from builder.config.model_spec import (
    WITH_MODEL,
    Activations,
    AudioSpec,
    FeedSpec,
    FetchSpec,
    Format,
    ImageSpec,
    LayerSpec,
    ModelSpec,
    OutputSpec,
    SignatureSpec,
    Source,
    TextSpec,
    Tolerance,
    Weights,
)
from builder.config.toml_tables import Mistakes, SpecTable, SpecTables, read_tables


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
        says = tables.model.section.find_field("name").kind.says
        tables.model.note_mistake("name", f"cannot be made from the folder's name; add it: {says}")
    form = rules.find_source_format(tables.model, path.parent)
    for output in tables.outputs:
        _prepare_output(output, path.parent)
    rules.name_ports(tables)
    rules.check_tables(tables, form)
    config = _find_config(tables.model, path.parent)
    if mistakes.found or form is None:
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
    kind = output.section.find_field("labels").kind
    problems = list(kind.find_problems(labels))
    for _, problem in problems:
        output.note_mistake("labels_file", f"{path.name}, {problem.replace('item ', 'line ')}")
    return () if problems else tuple(labels)


def _find_config(model: SpecTable, folder: Path) -> Path | None:
    if "config" not in model.values:
        return None
    path = Path(os.path.normpath(folder / model.values["config"]))
    if not path.is_file():
        model.note_mistake(
            "config", f'"{model.values["config"]}" is not a file; name one, from the folder of model.toml'
        )
    return path


def _make_spec(path: Path, name: str, form: Format, config: Path | None, tables: SpecTables) -> ModelSpec:
    model = tables.model
    source, signatures = model.get("source") or "", model.get("signature") or (None,)
    address = parse_address(source) if is_address(source) else None
    first, *others = (_make_signature(own, signature, name) for signature, own in rules.split_signatures(tables))
    return ModelSpec(
        path=path,
        name=name,
        version=model.get("version"),
        source=Source(
            format=form,
            path=Path(os.path.normpath(path.parent / source)) if source and not address else None,
            package=model.get("package"),
            file=model.get("file"),
            sha256=model.get("sha256"),
            trust=model.get("trust"),
            signature=signatures[0],
            config=config,
            address=address,
            keras=model.get("keras"),
            weights=_resolve_path(model, "weights", path.parent),
        ),
        batch=min(model.get("batch")),
        batches=tuple(sorted(model.get("batch"))) if len(model.get("batch")) > 1 else (),
        feeds=first.feeds,
        fetches=first.fetches,
        image=ImageSpec(**_collect_values(tables.image)) if tables.image else None,
        audio=AudioSpec(**_collect_values(tables.audio)) if tables.audio else None,
        text=_make_text_spec(tables.text, path.parent) if tables.text else None,
        outputs=first.outputs,
        signatures=tuple(others),
        tolerance=Tolerance(tables.tolerance.get("absolute"), tables.tolerance.get("relative")),
        weights=_make_weights(tables.weights, path.parent),
        activations=Activations(
            tables.activations.get("type"), _resolve_path(tables.activations, "images", path.parent)
        ),
        layers=tuple(LayerSpec(**_collect_values(layer)) for layer in tables.layers),
        samples=_resolve_path(tables.golden, "samples", path.parent),
        targets=model.get("targets"),
        winograd=model.get("winograd"),
        max_unzipped=tables.limits.get("unzipped"),
        max_zipped=tables.limits.get("zipped"),
    )


def _collect_values(table: SpecTable) -> dict[str, Any]:
    return {key: table.get(key) for key in table.section.keys}


def _make_text_spec(text: SpecTable, folder: Path) -> TextSpec:
    files: dict[str, Any] = {"inside": None}
    for key in ("tokenizer", "vocabulary"):
        value = text.get(key) or ""
        comes_with_model = value.startswith(WITH_MODEL)
        files[key] = None if comes_with_model else _resolve_path(text, key, folder)
        if comes_with_model:
            files["inside"] = key, value.removeprefix(WITH_MODEL)
    return TextSpec(**{**_collect_values(text), **files})


def _make_signature(tables: SpecTables, signature: str, model_name: str) -> SignatureSpec:
    return SignatureSpec(
        signature,
        feeds=tuple(map(_make_feed, tables.feeds)),
        fetches=tuple(
            FetchSpec(fetch.get("name"), fetch.get("alias"), fetch.get("max_size")) for fetch in tables.fetches
        ),
        outputs=tuple(_make_output(output, model_name) for output in tables.outputs),
    )


def _make_feed(feed: SpecTable) -> FeedSpec:
    shapes = feed.get("shapes") or ()
    shape = shapes[0] if shapes else feed.get("shape")
    several = shapes if len(shapes) > 1 else ()
    lengths = feed.get("lengths") or ()
    truncate, nan, value = feed.get("truncate"), feed.get("nan"), feed.get("value")
    return FeedSpec(feed.get("name"), shape, several, feed.get("pad"), lengths, truncate, nan=nan, value=value)


def _make_weights(weights: SpecTable, folder: Path) -> Weights:
    return Weights(
        type=weights.get("type"),
        accuracy=weights.get("accuracy"),
        images=_resolve_path(weights, "images", folder),
        place=weights.get("place"),
    )


def _resolve_path(table: SpecTable, key: str, folder: Path) -> Path | None:
    value = table.get(key)
    return Path(os.path.normpath(folder / value)) if value else None


def _make_output(output: SpecTable, model_name: str) -> OutputSpec:
    fetch = output.get("fetch")
    values = {field.name: output.get(field.name) for field in fields(OutputSpec)}
    derived = {
        "name": output.get("name") or fetch or model_name,
        "fetch": output.get("boxes") or fetch,
        "labels": output.get("labels") or (),
    }
    return OutputSpec(**values | derived)
