"""Writer of ``model.toml``: a commented file that ``read_spec`` reads back to the same spec."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from builder.base.commands import docs_command
from builder.base.escape import escape_invisible, toml_string
from builder.config.canonical import make_relative
from builder.config.keys import Key
from builder.config.model_spec import ModelSpec
from builder.config.rules import REPOSITORIES, guess_format, guess_model_format, is_saved_model
from builder.config.schema import SECTIONS, WITH_MODEL

_WIDTH = 100
_ALWAYS = {"name", "version", "feed", "fetch", "kind", "mode", "scale", "mean", "activation"}


def render_spec(spec: ModelSpec, notes: Mapping[str, str] | None = None) -> str:
    """Return the text of ``spec.path``: every key that differs from its default, and those a person should check.

    ``notes`` puts a comment above a key or section: {"image.width": "...", "outputs": "..."}; for repeated
    sections "outputs.0.top_k".
    """
    writer = _Writer(notes or {}, spec.path.parent)
    writer.write_comment(
        f"Every key: {docs_command('model-toml')}. `coldforge inspect` shows what the model takes and gives."
    )
    writer.write_table("model", _collect_model_values(spec))
    feeds, fetches, outputs = (_collect_entries(spec, kind) for kind in ("feeds", "fetches", "outputs"))
    for feed in feeds:
        sizes = {"shape" if feed["shapes"] else "shapes": None, "lengths": feed["lengths"] or None}
        sizes["columns"] = feed["columns"] or None
        value = feed["value"]
        lone = {"value": value[0]} if value and len(value) == 1 else {}
        feed |= sizes | lone
    for output in outputs:
        if output["kind"] == "detection":
            output |= {"fetch": None, "boxes": output["fetch"]}
    writer.write_tables("feeds", feeds)
    writer.write_tables("fetches", fetches)
    for name, part in (("image", spec.image), ("audio", spec.audio)):
        if part:
            writer.write_table(name, asdict(part))
    if spec.text:
        inside = {key: WITH_MODEL + path for key, path in (spec.text.inside,)} if spec.text.inside else {}
        writer.write_table("text", asdict(spec.text) | inside | {"prompts": dict(spec.text.prompts) or None})
    writer.write_tables("outputs", outputs)
    writer.write_table("tolerance", asdict(spec.tolerance), optional=True)
    writer.write_table("golden", {"samples": spec.samples}, optional=True)
    writer.write_table("weights", asdict(spec.weights), optional=True)
    writer.write_table("activations", asdict(spec.activations), optional=True)
    writer.write_tables("layers", [asdict(layer) for layer in spec.layers])
    writer.write_table("limits", {"unzipped": spec.max_unzipped, "zipped": spec.max_zipped}, optional=True)
    return "\n".join(writer.lines) + "\n"


def _collect_entries(spec: ModelSpec, kind: str) -> list[dict[str, Any]]:
    """Return the first signature's entries, then the others', each with its signature's name."""
    own = [asdict(value) for value in getattr(spec, kind)]
    return own + [asdict(value) | {"signature": sig.name} for sig in spec.signatures for value in getattr(sig, kind)]


def _collect_model_values(spec: ModelSpec) -> dict[str, Any]:
    source = spec.source
    where = source.address.text if source.address else source.path
    named = source.file or (source.address.path if source.address else f"{where or ''}")
    guessed: str | None = guess_format(named) if source.archived else guess_model_format(named)
    if source.address:
        usual = REPOSITORIES[0] if source.address.is_repository else "saved_model"
        guessed = usual if source.format == usual else guessed
    if source.weights:
        guessed = "h5"
    # A folder may be named x.pb and still be a SavedModel, so its format is always written.
    implied = guessed == source.format and not (source.path and is_saved_model(source.path))
    return {
        **asdict(source),
        "source": where,
        "name": spec.name,
        "version": spec.version,
        "format": None if implied else source.format,
        "signature": source.signature and (source.signature, *(signature.name for signature in spec.signatures)),
        "batch": spec.buckets,
        "targets": spec.targets,
        "winograd": spec.winograd,
    }


class _Writer:
    def __init__(self, notes: Mapping[str, str], folder: Path) -> None:
        self.notes, self.folder = notes, folder
        self.lines: list[str] = []

    def write_comment(self, comment: str) -> None:
        comment = escape_invisible(" ".join(comment.split()))
        self.lines += [f"# {line}" for line in textwrap.wrap(comment, _WIDTH - 2, break_long_words=False)]

    def write_tables(self, name: str, tables: Sequence[Mapping[str, Any]]) -> None:
        """Write one table of an array for each of ``tables``."""
        for number, values in enumerate(tables):
            self.write_table(name, values, number)

    def write_table(
        self, name: str, values: Mapping[str, Any], number: int | None = None, *, optional: bool = False
    ) -> None:
        """Write one table, or nothing for an ``optional`` one without keys to write."""
        section = SECTIONS[name]
        keys = [key for key in section.keys.values() if _is_wanted(key, values.get(key.name), optional)]
        if optional and not keys:
            return
        self.lines.append("")
        if not number:
            self.write_comment(section.doc)
        place = name if number is None else f"{name}.{number}"
        self._write_note(place)
        self.lines.append(section.header)
        for key in keys:
            value = values[key.name]
            self._write_note(f"{place}.{key.name}")
            if name == "model" and isinstance(value, tuple) and len(value) == 1 and key.name != "targets":
                value = value[0]
            if isinstance(value, Path):
                value = make_relative(value, self.folder)
            self.lines += f"{key.name} = {_format_value(value, fraction=key.name == 'scale')}".split("\n")

    def _write_note(self, place: str) -> None:
        if note := self.notes.get(place):
            self.write_comment(note)


def _is_wanted(key: Key, value: Any, optional: bool) -> bool:
    """Return whether a key is worth a line. An empty ``shape`` is a scalar, empty ``labels`` are left out."""
    if value is None or (key.name == "labels" and not value):
        return False
    return value != key.default or (key.name in _ALWAYS and not optional)


def _format_value(value: Any, *, fraction: bool = False) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, float):
        return (_format_fraction(value) if fraction else None) or repr(value)
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 100_000 else str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_format_key(key)} = {_format_value(text)}' for key, text in value.items())}}}"
    if (fraction and len(value) == 1) or (len(value) == 1 and isinstance(value[0], float)):
        return _format_value(value[0], fraction=fraction)
    items = [_format_value(item, fraction=fraction) for item in value]
    line = f"[{', '.join(items)}]"
    return line if len(line) < _WIDTH - 10 else "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _format_key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else toml_string(name)


def _format_fraction(value: float) -> str | None:
    """Return ``"1/255"`` for 0.00392156862745098: a person's notation, when it is exactly that."""
    for denominator in (255, 127.5, 128, 256):
        if value == 1 / denominator:
            return f'"1/{denominator:g}"'
    return None
