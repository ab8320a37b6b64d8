"""Writer of ``model.toml``: a commented file that ``read_spec`` reads back to the same spec."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from builder.base.commands import docs_command
from builder.base.escape import escape_invisible, toml_string
from builder.config.canonical import make_relative
from builder.config.model_spec import WITH_MODEL, Activations, ModelSpec, Weights
from builder.config.rules import guess_format, is_saved_model
from builder.config.schema import (
    ACTIVATIONS,
    AUDIO,
    FEEDS,
    FETCHES,
    GOLDEN,
    IMAGE,
    LAYERS,
    LIMITS,
    MODEL,
    OUTPUTS,
    TEXT,
    TOLERANCE,
    WEIGHTS,
    Field,
    Section,
)

_WIDTH = 100
_ALWAYS = {"name", "version", "feed", "fetch", "kind", "mode", "scale", "mean", "activation"}


def render_spec(spec: ModelSpec, notes: Mapping[str, str] | None = None) -> str:
    """Return the text of ``spec.path``: every key that differs from its default, and those a person should check.

    ``notes`` puts a comment above a key or section: {"image.width": "...", "outputs": "..."}; for repeated
    sections "outputs.0.top_k".
    """
    writer = _Writer(notes or {})
    model = _collect_model_values(spec)
    writer.write_comment(
        f"Every key: {docs_command('model-toml')}. `coldforge inspect` shows what the model takes and gives."
    )
    writer.write_table(MODEL, "model", model)
    feeds, fetches, outputs = (_collect_entries(spec, kind) for kind in ("feeds", "fetches", "outputs"))
    for i, feed in enumerate(feeds):
        sizes = {"shape" if feed["shapes"] else "shapes": None, "lengths": feed["lengths"] or None}
        value = feed["value"]
        lone = {"value": value[0]} if value and len(value) == 1 else {}
        writer.write_table(FEEDS, f"feeds.{i}", feed | sizes | lone)
    for i, fetch in enumerate(fetches):
        writer.write_table(FETCHES, f"fetches.{i}", fetch)
    if spec.image:
        writer.write_table(IMAGE, "image", asdict(spec.image))
    if spec.audio:
        writer.write_table(AUDIO, "audio", asdict(spec.audio))
    if spec.text:
        folder = spec.path.parent
        files = {
            key: path and make_relative(path, folder)
            for key, path in (("tokenizer", spec.text.tokenizer), ("vocabulary", spec.text.vocabulary))
        }
        if from_model := spec.text.inside:
            files[from_model[0]] = WITH_MODEL + from_model[1]
        writer.write_table(TEXT, "text", asdict(spec.text) | files)
    for i, output in enumerate(outputs):
        if output["kind"] == "detection":
            output = output | {"fetch": None, "boxes": output["fetch"]}
        writer.write_table(OUTPUTS, f"outputs.{i}", output)
    writer.write_table(TOLERANCE, "tolerance", asdict(spec.tolerance), optional=True)
    samples = make_relative(spec.samples, spec.path.parent) if spec.samples else None
    writer.write_table(GOLDEN, "golden", {"samples": samples}, optional=True)
    writer.write_table(WEIGHTS, "weights", _make_section_dict(spec.weights, spec), optional=True)
    writer.write_table(ACTIVATIONS, "activations", _make_section_dict(spec.activations, spec), optional=True)
    for i, layer in enumerate(spec.layers):
        writer.write_table(LAYERS, f"layers.{i}", asdict(layer))
    writer.write_table(LIMITS, "limits", {"unzipped": spec.max_unzipped, "zipped": spec.max_zipped}, optional=True)
    return "\n".join(writer.lines) + "\n"


def _collect_entries(spec: ModelSpec, kind: str) -> list[dict[str, Any]]:
    """Return the first signature's entries, then the others', each with its signature's name."""
    own = [asdict(value) for value in getattr(spec, kind)]
    return own + [asdict(value) | {"signature": sig.name} for sig in spec.signatures for value in getattr(sig, kind)]


def _make_section_dict(section: Weights | Activations, spec: ModelSpec) -> dict[str, Any]:
    images = section.images
    return asdict(section) | {"images": make_relative(images, spec.path.parent) if images else None}


def _collect_model_values(spec: ModelSpec) -> dict[str, Any]:
    source, folder = spec.source, spec.path.parent
    where = make_relative(source.path, folder) if source.path else None
    if source.address:
        where = source.address.text
    guessed: str | None = guess_format(source.file or (source.address.path if source.address else where) or "")
    if source.address and source.format == "saved_model":
        guessed = "saved_model"
    if source.weights:
        guessed = "h5"
    # A folder may be named x.pb and still be a SavedModel, so its format is always written.
    implied = guessed == source.format and not (source.path and is_saved_model(source.path))
    return {
        "source": where,
        "package": source.package,
        "file": source.file,
        "sha256": source.sha256,
        "name": spec.name,
        "version": spec.version,
        "format": None if implied else source.format,
        "weights": make_relative(source.weights, folder) if source.weights else None,
        "keras": source.keras,
        "trust": source.trust,
        "signature": source.signature and (source.signature, *(signature.name for signature in spec.signatures)),
        "config": make_relative(source.config, folder) if source.config else None,
        "batch": spec.buckets,
        "targets": spec.targets,
        "winograd": spec.winograd,
    }


class _Writer:
    def __init__(self, notes: Mapping[str, str]) -> None:
        self.notes = notes
        self.lines: list[str] = []

    def write_comment(self, comment: str) -> None:
        comment = escape_invisible(" ".join(comment.split()))
        self.lines += [f"# {line}" for line in textwrap.wrap(comment, _WIDTH - 2, break_long_words=False)]

    def write_table(self, section: Section, place: str, values: Mapping[str, Any], *, optional: bool = False) -> None:
        """Write one table, or nothing for an ``optional`` one without keys to write."""
        rows = [
            (field, values.get(field.key))
            for field in section.fields
            if _is_wanted(field, values.get(field.key), optional)
        ]
        if optional and not rows:
            return
        self.lines.append("")
        if place in (section.name, f"{section.name}.0"):
            self.write_comment(section.doc)
        if note := self.notes.get(place):
            self.write_comment(note)
        self.lines.append(section.header)
        for field, value in rows:
            if note := self.notes.get(f"{place}.{field.key}"):
                self.write_comment(note)
            if section is MODEL and isinstance(value, tuple) and len(value) == 1 and field.key != "targets":
                value = value[0]
            self.lines += f"{field.key} = {_format_value(value, fraction=field.key == 'scale')}".split("\n")


def _is_wanted(field: Field, value: Any, optional: bool) -> bool:
    """Return whether a key is worth a line. An empty ``shape`` is a scalar, empty ``labels`` are left out."""
    if value is None or (field.key == "labels" and not value):
        return False
    return value != field.default or (field.key in _ALWAYS and not optional)


def _format_value(value: Any, *, fraction: bool = False) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, float):
        return (_format_fraction(value) if fraction else None) or repr(value)
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 100_000 else str(value)
    if (fraction and len(value) == 1) or (len(value) == 1 and isinstance(value[0], float)):
        return _format_value(value[0], fraction=fraction)
    items = [_format_value(item, fraction=fraction) for item in value]
    line = f"[{', '.join(items)}]"
    return line if len(line) < _WIDTH - 10 else "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _format_fraction(value: float) -> str | None:
    """Return ``"1/255"`` for 0.00392156862745098: a person's notation, when it is exactly that."""
    for denominator in (255, 127.5, 128, 256):
        if value == 1 / denominator:
            return f'"1/{denominator:g}"'
    return None
