"""From TOML text to checked tables: syntax, unknown keys, types and ranges, each mistake with its line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from builder.config.schema import SECTIONS, Field, Section
from builder.config.toml_lines import KeyPath, Lines
from builder.config.value_types import describe, suggestion


@dataclass
class Mistakes:
    """Everything found wrong so far, sorted by line when printed."""

    file: str
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, message: str) -> None:
        self.found.append((line, message))

    def __str__(self) -> str:
        return "\n".join(f"{self.file}:{line}: {message}" for line, message in sorted(self.found, key=lambda f: f[0]))


@dataclass
class Table:
    """One table: ``values`` holds the converted values of keys that passed their own check, without defaults."""

    section: Section
    path: KeyPath
    lines: Lines
    mistakes: Mistakes
    values: dict[str, Any] = field(default_factory=dict)
    present: frozenset[str] = frozenset()  # keys in the file, right or wrong

    def get(self, key: str) -> Any:
        """The key's value; its default when the file does not have it, None when it has it wrong."""
        default = None if key in self.present else self.section.field(key).default
        return self.values.get(key, default)

    def wrong(self, key: str, message: str, *inside: int) -> None:
        """Note ``what is wrong; what would be right`` at the key, or at an item of its list."""
        line = self.lines.of((*self.path, key, *inside))
        self.mistakes.add(line, f"{self.section.header}.{key}: {message}")


@dataclass(frozen=True)
class Tables:
    """A whole file. A section that is not there is an empty table, or no element of ``feeds`` and its like."""

    model: Table
    feeds: tuple[Table, ...]
    fetches: tuple[Table, ...]
    image: Table | None
    audio: Table | None
    text: Table | None
    outputs: tuple[Table, ...]
    tolerance: Table
    golden: Table
    weights: Table
    activations: Table
    layers: tuple[Table, ...]
    limits: Table


def read(text: str, mistakes: Mistakes) -> Tables | None:
    """Check every section of ``text`` on its own; None when it is not TOML at all."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        mistakes.add(*_syntax(str(error), text))
        return None
    except RecursionError:
        mistakes.add(1, "nested too deep to be read; correct this first, the rest is unread")
        return None
    lines = Lines(text)
    known = {section.name: section for section in SECTIONS}
    for name in data.keys() - known.keys():
        mistakes.add(lines.of((name,)), _unknown_top(name, data[name]))
    found = {name: _tables(section, data.get(name), lines, mistakes) for name, section in known.items()}

    def single(name: str) -> Table:
        return found[name][0] if found[name] else Table(known[name], (name,), lines, mistakes)

    image, audio, text_input = (found[name][0] if found[name] else None for name in ("image", "audio", "text"))
    return Tables(
        single("model"),
        found["feeds"],
        found["fetches"],
        image=image,
        audio=audio,
        text=text_input,
        outputs=found["outputs"],
        tolerance=single("tolerance"),
        golden=single("golden"),
        weights=single("weights"),
        activations=single("activations"),
        layers=found["layers"],
        limits=single("limits"),
    )


def _syntax(error: str, text: str) -> tuple[int, str]:
    """tomllib's message without the line number that it names."""
    place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", error)
    what = error[: place.start()] if place else error
    if place and place[1]:
        return int(place[1]), f"not TOML: {what}, at column {place[2]}; correct this first, the rest is unread"
    return text.rstrip().count("\n") + 1, f"not TOML: {what}, at the end; correct this first, the rest is unread"


def _homes(key: str) -> str:
    """The sections that do know ``key``."""
    return " or ".join(section.header for section in SECTIONS if key in section.keys)


def _unknown_top(name: str, value: object) -> str:
    if isinstance(value, dict | list) and not _homes(name):
        known = tuple(section.name for section in SECTIONS)
        headers = ", ".join(section.header for section in SECTIONS)
        return f"[{name}]: not a section; the sections are {headers}{suggestion(name, known)}"
    home = _homes(name)
    close = suggestion(name, tuple(key for section in SECTIONS for key in section.keys))
    return f"{name}: stands outside every section; " + (f"move it below {home}" if home else f"delete it{close}")


def _tables(section: Section, data: object, lines: Lines, mistakes: Mistakes) -> tuple[Table, ...]:
    """The tables of one section. For a section of the wrong shape, it notes one mistake and returns none."""
    if data is None:
        return ()
    tables = data if section.repeated else [data]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        what = describe(data)
        if isinstance(data, dict):
            what = f"written as [{section.name}]"
        elif isinstance(data, list) and all(isinstance(table, dict) for table in data):
            what = f"written as [[{section.name}]]"
        more = ", once for each" if section.repeated else ", once"
        mistakes.add(lines.of((section.name,)), f"{section.header}: is {what}; write {section.header}{more}")
        return ()
    paths: list[KeyPath] = [(section.name, i) if section.repeated else (section.name,) for i in range(len(tables))]
    return tuple(
        _table(Table(section, path, lines, mistakes, present=frozenset(values)), values)
        for path, values in zip(paths, tables, strict=True)
    )


def _table(table: Table, values: dict[str, object]) -> Table:
    for key, value in values.items():
        if key in table.section.keys:
            _value(table, table.section.field(key), value)
            continue
        close = suggestion(key, table.section.keys)
        home = _homes(key)
        table.wrong(key, f"not a key of this section; {_advice(table, close, home)}")
    for wanted in table.section.fields:
        if wanted.required and wanted.key not in values:
            table.wrong(wanted.key, f"is missing; add it: {wanted.kind.says}")
    return table


def _advice(table: Table, close: str, home: str) -> str:
    if home:
        return f"it belongs in {home}"
    return f"delete it or use one of {', '.join(table.section.keys)}{close}"


def _value(table: Table, wanted: Field, value: object) -> None:
    problems = list(wanted.kind.problems(value))
    for inside, problem in problems:
        table.wrong(wanted.key, problem, *inside)
    if not problems:
        table.values[wanted.key] = wanted.kind.convert(value)
