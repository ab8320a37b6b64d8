"""docs/cli.md and its schema, generated from the commands: ``python -m builder.cli.cli_reference docs/cli.md``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from builder.base.documentation import link_pages
from builder.base.files import write_file
from builder.cli import COMMANDS
from builder.cli.command import Arguments, Command, add_common, list_commands
from builder.cli.guide import describe_command, format_example
from builder.cli.results import RESULTS, Schema, make_results_schema

SCHEMA = "results.schema.json"
"""File beside the page."""

_HEAD = """\
# Commands

<!-- Generated from builder/cli by `python -m builder.cli.cli_reference docs/cli.md`. -->

`make` calls these commands; its variables are their arguments. In a checkout that is set up, `.venv/bin/coldforge`
is the command. A command that fails ends with an [exit code](errors.md#how-a-command-ends).

Results go to standard output, progress and errors to standard error. On a terminal, what goes on now is a line that
lives. In a pipe, with `CI` set or with `TERM=dumb`, there is one plain line for each thing that ended. `NO_COLOR`
switches colours off.

`eval "$(coldforge --completion bash)"` in `~/.bashrc` has the Tab key complete commands, options and models; `zsh` and
`fish` likewise.

With `--json`, the result is JSON. An error stays text, and its exit code says which. The tables below have the fields
at the top of a result. [results.schema.json](results.schema.json) has all of them, as JSON Schema: that of the command
`NAME` is at `#/$defs/NAME`.

Every command takes:
"""


def format_cli_reference() -> str:
    """Return the whole page."""
    commands = (named for entry in COMMANDS for named in list_commands(entry))
    sections = (line for name, command in commands for line in _format_section(name, command))
    return link_pages("\n".join([_HEAD, *_format_arguments(add_common), *sections]))


def _format_section(name: str, command: Command) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{describe_command(name, command.help)}\n\n    {format_example(name)}\n"
    yield from _format_arguments(command.arguments)
    if fields := RESULTS[name]["properties"]:
        yield "With `--json`:\n\n| field | type | |\n|---|---|---|"
        yield from (
            f"| `{name}` | {_format_type(field)} | {_escape_cell(field.get('description', ''))} |"
            for name, field in fields.items()
        )
        yield ""


def _format_arguments(add: Callable[[Arguments], None]) -> Iterator[str]:
    """Yield a table of the arguments that ``add`` adds to a parser."""
    parser = argparse.ArgumentParser(add_help=False)
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
    page = Path(sys.argv[1])
    write_file(page, format_cli_reference())
    write_file(page.with_name(SCHEMA), json.dumps(make_results_schema(), indent=1) + "\n")
