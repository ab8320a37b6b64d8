"""Sections of docs/model-toml.md, from the schema: ``python -m builder.config.toml_reference`` writes them."""

from __future__ import annotations

from typing import Any

from builder.base.documentation import fill_blocks, link_pages
from builder.base.files import write_file
from builder.base.project import HOME
from builder.config.keys import Key, Section, read_field_docs
from builder.config.schema import SECTIONS

PAGE = HOME / "docs" / "model-toml.md"


def write_reference() -> str:
    """Return the whole page, in Markdown."""
    return fill_blocks(PAGE, keys=link_pages("".join(map(_format_section, SECTIONS.values()))))


def _format_section(section: Section) -> str:
    docs = dict(read_field_docs(section.made_of))
    rows = "".join(_format_row(key, docs[key.name]) for key in section.keys.values())
    table = f"| Key | Value | When left out | Meaning |\n|---|---|---|---|\n{rows}"
    return f"\n## {section.header}\n\n{section.doc}\n\n{table}"


def _format_row(key: Key, doc: str) -> str:
    cells = (f"`{key.name}`", key.kind.says, _format_default(key), " ".join(doc.split()))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _format_default(key: Key) -> str:
    if key.required:
        return "**required**"
    return key.otherwise or (f"`{_format_toml(key.default)}`" if key.default is not None else "")


def _format_toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        items = [_format_toml(item) for item in value]
        return items[0] if len(items) == 1 and not isinstance(value[0], str) else f"[{', '.join(items)}]"
    return f"{value:_}" if isinstance(value, int) else f"{value:g}"


if __name__ == "__main__":
    write_file(PAGE, write_reference())
