"""Tables of the pages in docs/ that say what the code says: ``python -m builder.cli.docs_pages`` writes them.

``ops_page`` writes another one, which needs TensorFlow.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from builder.base.documentation import fill_blocks, link_pages
from builder.base.errors import INTERRUPTED, PIPE_CLOSED, ColdforgeError
from builder.base.files import write_file
from builder.base.project import HOME, RUNTIME
from builder.cli import list_commands
from builder.cli.command import COMMON, Argument, Command
from builder.cli.results import RESULTS, Schema, make_results_schema
from builder.config.keys import Key, Section, read_field_docs
from builder.config.schema import SECTIONS
from builder.importers.frameworks.architectures import TESTED
from handler.errors import HandlerError

DOCS = HOME / "docs"
HEADER = RUNTIME / "abi" / "model.h"

_COMMENT = re.compile(r"\A/\*(.*?)\*/\n?", re.DOTALL)


def format_pages() -> dict[Path, str]:
    """Return the whole text of each page by its file, and the schema of results."""
    declarations = "\n".join(_format_declarations(HEADER.read_text(encoding="utf-8")))
    commands = [*_format_arguments(COMMON), *(line for one in list_commands() for line in _format_command(one))]
    keys = "".join(map(_format_section, SECTIONS.values()))
    codes = "| code | status | again | |\n|---|---|---|---|\n" + "".join(map(_format_error, _list_errors()))
    tested = (f"| {kind} | {', '.join(names.values())} |\n" for kind, names in TESTED.items())
    architectures = "| they take | architectures |\n|---|---|\n" + "".join(tested)
    exits = "| exit code | |\n|---|---|\n" + "".join(_format_exit_codes())
    return {
        (page := DOCS / "abi.md"): fill_blocks(page, header=declarations),
        (page := DOCS / "cli.md"): fill_blocks(page, commands=link_pages("\n".join(commands))),
        (page := DOCS / "errors.md"): fill_blocks(page, codes=codes, exits=exits),
        (page := DOCS / "hugging-face.md"): fill_blocks(page, architectures=architectures),
        (page := DOCS / "model-toml.md"): fill_blocks(page, keys=link_pages(keys)),
        DOCS / "results.schema.json": json.dumps(make_results_schema(), indent=1) + "\n",
    }


def _format_declarations(header: str) -> Iterator[str]:
    """Yield a section for each group of adjacent declarations, with the comment before them."""
    top = _COMMENT.match(header)
    assert top
    yield _format_prose(top[1])
    body = header[header.index("#define CF_ABI_VERSION") : header.index("/*@FLAT@*/")]
    for chunk in re.split(r"\n{2,}", body.strip()):
        comment = _COMMENT.match(chunk)
        code = chunk[comment.end() :] if comment else chunk
        if names := _find_declared_names(code):
            yield f"## {', '.join(names)}\n"
        if comment:
            yield _format_prose(comment[1])
        if code.strip():
            yield f"```c\n{code.strip()}\n```\n"


def _find_declared_names(code: str) -> list[str]:
    """Return the names that ``code`` declares."""
    macros = re.findall(r"^#define (\w+)", code, re.MULTILINE)
    types = re.findall(r"(?:^typedef .*|^\} )\b(cf_\w+);", code, re.MULTILINE)
    return [*macros, *types, *re.findall(r"\b(cf_\w+)\(", code)]


def _format_prose(comment: str) -> str:
    """Return the text of a comment as paragraphs of Markdown."""
    text = re.sub(r"^ ?\*? ?", "", comment.strip(), flags=re.MULTILINE)
    text = re.sub(r"(?<!`)(\*\w+|\bcf_\w+|\bCF_\w+|\bNULL)\b(?!`)", r"`\1`", text)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(textwrap.fill(p, 120, break_long_words=False) for p in paragraphs) + "\n"


def _format_command(command: Command) -> Iterator[str]:
    yield f"## {command.name}\n"
    yield f"{command.about}\n\n    {command.usage}\n"
    yield from _format_arguments(command.arguments)
    if fields := RESULTS[command.name]["properties"]:
        yield "With `--json`:\n\n| field | type | |\n|---|---|---|"
        yield from (
            f"| `{name}` | {_format_type(field)} | {_escape_cell(field.get('description', ''))} |"
            for name, field in fields.items()
        )
        yield ""


def _format_arguments(arguments: Sequence[Argument]) -> Iterator[str]:
    """Yield a table of ``arguments``."""
    parser = argparse.ArgumentParser(add_help=False)
    for add in arguments:
        add(parser)
    if actions := parser._actions:  # the one list of all arguments, in groups or not; sphinx-argparse reads it, too
        yield "| argument | |\n|---|---|"
        yield from (f"| `{_format_argument(action)}` | {_escape_cell(action.help or '')} |" for action in actions)
        yield ""


def _format_argument(action: argparse.Action) -> str:
    """Return the argument as a person writes it."""
    if not action.option_strings:
        return f"{action.metavar or action.dest}{' ...' if action.nargs in ('+', '*') else ''}"
    value = action.metavar or ("\\|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    return action.option_strings[-1] + ("" if action.nargs == 0 else f" {value}")


def _format_type(field: Schema) -> str:
    """Return the type of a field of the result, in words."""
    kinds = field.get("type", "anything")
    names = " or ".join(kinds) if isinstance(kinds, list) else kinds
    if "items" in field:
        inner = field["items"]
        return names.replace("array", f"list of {_format_type(inner)}s" if inner.get("type") else "list")
    return str(names)


def _escape_cell(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("None", "null").split()).replace("|", "\\|").replace("<", "&lt;")


def _format_section(section: Section) -> str:
    docs = dict(read_field_docs(section.made_of))
    rows = "".join(_format_key(key, docs[key.name]) for key in section.keys.values())
    table = f"| Key | Value | When left out | Meaning |\n|---|---|---|---|\n{rows}"
    return f"\n## {section.header}\n\n{section.doc}\n\n{table}"


def _format_key(key: Key, doc: str) -> str:
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


def _list_errors() -> Iterator[tuple[int, str, bool, str]]:
    """Yield (status, code, whether to try again, meaning) of each error, by status."""
    rows = [(e.status, e.code, e.retryable, inspect.getdoc(e) or "") for e in HandlerError.__subclasses__()]
    failed = "The function failed, not the request. The message names the request's id; the log has more under that id."
    yield from sorted([*rows, (500, "internal", True, failed)])


def _format_exit_codes() -> Iterator[str]:
    """Yield a row for each exit code that a program may want to distinguish."""
    for error in sorted(ColdforgeError.__subclasses__(), key=lambda error: error.exit_code):
        yield f"| {error.exit_code} | {' '.join((inspect.getdoc(error) or '').replace('``', '`').split())} |\n"
    yield f"| {INTERRUPTED} | Ctrl-C ended the command. |\n"
    yield f"| {PIPE_CLOSED} | Whoever read the result stopped, as `head` does. |\n"


def _format_error(error: tuple[int, str, bool, str]) -> str:
    status, code, retryable, meaning = error
    return f"| `{code}` | {status} | {'yes' if retryable else ''} | {' '.join(meaning.split())} |\n"


if __name__ == "__main__":
    for path, text in format_pages().items():
        write_file(path, text)
