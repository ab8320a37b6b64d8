"""Tables of docs/cli.md and its schema, from the commands: ``python -m builder.cli.cli_reference`` writes them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence

from builder.base.documentation import fill_blocks, link_pages
from builder.base.files import write_file
from builder.base.project import HOME
from builder.cli import list_commands
from builder.cli.command import COMMON, Argument, Command
from builder.cli.results import RESULTS, Schema, make_results_schema

PAGE = HOME / "docs" / "cli.md"
SCHEMA = PAGE.with_name("results.schema.json")


def format_cli_reference() -> str:
    """Return the whole page."""
    sections = (line for command in list_commands() for line in _format_section(command))
    return fill_blocks(PAGE, commands=link_pages("\n".join([*_format_arguments(COMMON), *sections])))


def _format_section(command: Command) -> Iterator[str]:
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


if __name__ == "__main__":
    write_file(PAGE, format_cli_reference())
    write_file(SCHEMA, json.dumps(make_results_schema(), indent=1) + "\n")
