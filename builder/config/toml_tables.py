"""Checked tables from TOML text: syntax, unknown keys, types and ranges, each mistake with its line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from builder.config.keys import Key, Section
from builder.config.schema import SECTIONS
from builder.config.toml_lines import KeyPath, LineNumbers
from builder.config.value_types import describe_value, suggest_closest


@dataclass
class Mistakes:
    """All mistakes so far, sorted by line when printed."""

    file: str
    entries: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, message: str) -> None:
        """Note a mistake."""
        self.entries.append((line, message))

    def __str__(self) -> str:
        return "\n".join(
            f"{self.file}:{line}: {message}" for line, message in sorted(self.entries, key=lambda entry: entry[0])
        )


@dataclass
class SpecTable:
    """One table: ``values`` holds the converted values of keys that passed their own check, without defaults."""

    section: Section
    path: KeyPath
    lines: LineNumbers
    mistakes: Mistakes
    values: dict[str, Any] = field(default_factory=dict)
    present: frozenset[str] = frozenset()  # keys in the file, valid or not

    def get(self, key: str) -> Any:
        """Return the key's value; its default when the file does not have it, None when its value is invalid."""
        default = None if key in self.present else self.section.keys[key].default
        return self.values.get(key, default)

    def note_mistake(self, key: str, message: str, *inside: int) -> None:
        """Note ``what is wrong; what would be right`` at the key, or at an item of its list."""
        line = self.lines.find_line((*self.path, key, *inside))
        self.mistakes.add(line, f"{self.section.header}.{key}: {message}")


@dataclass(frozen=True)
class SpecTables:
    """Tables of a file. A missing section is an empty table, or no element of ``feeds`` and its like."""

    model: SpecTable
    feeds: tuple[SpecTable, ...]
    fetches: tuple[SpecTable, ...]
    image: SpecTable | None
    audio: SpecTable | None
    text: SpecTable | None
    outputs: tuple[SpecTable, ...]
    tolerance: SpecTable
    golden: SpecTable
    weights: SpecTable
    activations: SpecTable
    layers: tuple[SpecTable, ...]
    limits: SpecTable


def read_tables(text: str, mistakes: Mistakes) -> SpecTables | None:
    """Check every section of ``text`` on its own; None when it is not TOML at all."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        mistakes.add(*_locate_syntax_error(str(error), text))
        return None
    except RecursionError:
        mistakes.add(1, "nested too deep to be read; correct this first, the rest is unread")
        return None
    lines = LineNumbers(text)
    for name in data.keys() - SECTIONS.keys():
        mistakes.add(lines.find_line((name,)), _explain_unknown(name, data[name]))
    tables: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        rows = _make_tables(section, data.get(name), lines, mistakes)
        missing = None if name in ("image", "audio", "text") else SpecTable(section, (name,), lines, mistakes)
        tables[name] = rows if section.repeated else next(iter(rows), missing)
    return SpecTables(**tables)


def _locate_syntax_error(error: str, text: str) -> tuple[int, str]:
    """Return tomllib's line number, and its message without that."""
    place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", error)
    what = error[: place.start()] if place else error
    if place and place[1]:
        return int(place[1]), f"not TOML: {what}, at column {place[2]}; correct this first, the rest is unread"
    return text.rstrip().count("\n") + 1, f"not TOML: {what}, at the end; correct this first, the rest is unread"


def _find_sections(key: str) -> str:
    """Return the sections that have ``key``."""
    return " or ".join(section.header for section in SECTIONS.values() if key in section.keys)


def _explain_unknown(name: str, value: object) -> str:
    if isinstance(value, dict | list) and not _find_sections(name):
        headers = ", ".join(section.header for section in SECTIONS.values())
        return f"[{name}]: not a section; the sections are {headers}{suggest_closest(name, SECTIONS)}"
    home = _find_sections(name)
    close = suggest_closest(name, [key for section in SECTIONS.values() for key in section.keys])
    return f"{name}: stands outside every section; " + (f"move it below {home}" if home else f"delete it{close}")


def _make_tables(section: Section, data: object, lines: LineNumbers, mistakes: Mistakes) -> tuple[SpecTable, ...]:
    """Make the tables of one section. For a section of the wrong shape, note one mistake and return none."""
    if data is None:
        return ()
    tables = data if section.repeated else [data]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        what = describe_value(data)
        if isinstance(data, dict):
            what = f"written as [{section.name}]"
        elif isinstance(data, list) and all(isinstance(table, dict) for table in data):
            what = f"written as [[{section.name}]]"
        more = ", once for each" if section.repeated else ", once"
        mistakes.add(lines.find_line((section.name,)), f"{section.header}: is {what}; write {section.header}{more}")
        return ()
    paths: list[KeyPath] = [(section.name, i) if section.repeated else (section.name,) for i in range(len(tables))]
    return tuple(
        _fill_table(SpecTable(section, path, lines, mistakes, present=frozenset(values)), values)
        for path, values in zip(paths, tables, strict=True)
    )


def _fill_table(table: SpecTable, values: dict[str, object]) -> SpecTable:
    keys = table.section.keys
    for name, value in values.items():
        if name in keys:
            _check_value(table, keys[name], value)
            continue
        home, close = _find_sections(name), suggest_closest(name, keys)
        advice = f"it belongs in {home}" if home else f"delete it or use one of {', '.join(keys)}{close}"
        table.note_mistake(name, f"not a key of this section; {advice}")
    for key in keys.values():
        if key.required and key.name not in values:
            table.note_mistake(key.name, f"is missing; add it: {key.kind.says}")
    return table


def _check_value(table: SpecTable, key: Key, value: object) -> None:
    problems = list(key.kind.find_problems(value))
    for position, problem in problems:
        table.note_mistake(key.name, problem, *position)
    if not problems:
        table.values[key.name] = key.kind.convert_value(value)
