"""The coldforge command: it parses arguments, calls one function and prints its result.

A module here has the commands of one group, each a function whose docstring is its help. A command's imports run
with the command: a machine with Python and Docker alone builds too.

Failures reach a person as a message and an exit code (see ``builder.base.errors``), never as a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, chdir
from itertools import chain
from pathlib import Path

from builder import __version__
from builder.base.disk import disk_error
from builder.base.errors import INTERRUPTED, PIPE_CLOSED, ColdforgeError, UsageError
from builder.base.escape import escape_terminal
from builder.base.project import Project
from builder.cli import (
    batch_commands,
    build_commands,
    deploy_commands,
    inspect_commands,
    provenance_commands,
    run_commands,
    start_commands,
)
from builder.cli.argument_parser import SHELLS, CommandParser, answer_completion, format_completion_script
from builder.cli.command import Command, Family

GROUPS: dict[str, tuple[Command | Family, ...]] = {
    "Start": start_commands.COMMANDS,
    "Build": build_commands.COMMANDS,
    "Try": run_commands.COMMANDS,
    "Inspect": inspect_commands.COMMANDS,
    "Deploy": (*deploy_commands.COMMANDS, *batch_commands.COMMANDS),
    "Trust": provenance_commands.COMMANDS,
}
"""Commands by group, in the order of `coldforge --help`."""


def list_commands() -> Iterator[Command]:
    """Yield each command, those of families too."""
    for entry in chain(*GROUPS.values()):
        yield from entry.commands if isinstance(entry, Family) else (entry,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        parser = make_parser()
        answer_completion(parser)
        options = parser.parse_args(words or ["--help"])
        with _enter_folder(options.work_in):
            code = options.command(options, Project.in_current_folder()) or 0
        sys.stdout.flush()  # A closed pipe is noticed here, and not when Python ends.
        return code
    except ColdforgeError as error:
        print(escape_terminal(f"coldforge: {error}"), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # The reader of the result has closed the pipe, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        failure = disk_error(error, Path.cwd())
        if failure is None:
            raise
        print(f"coldforge: {failure}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        print("coldforge: interrupted; the last good bundle is unchanged.", file=sys.stderr)
        return INTERRUPTED


def _enter_folder(folder: Path) -> AbstractContextManager[None]:
    """Change to ``folder``, as make and git do with -C. Raises UsageError where it is not a folder."""
    if not folder.is_dir():
        raise UsageError(f"-C {folder}: there is no such folder.")
    return chdir(folder)


class _Completion(argparse.Action):
    """An action that prints the script for a shell, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, _namespace: object, value: object, _option: object = None
    ) -> None:
        print(format_completion_script(str(value)))
        parser.exit()


def _format_overview() -> Iterator[str]:
    """Yield the commands by group, one per line."""
    for group, commands in GROUPS.items():
        yield group
        yield from (f"  {command.name:<14} {command.help}" for command in commands)
        yield ""
    yield "`coldforge COMMAND --help` says what a command does and takes, and shows an example."


def make_parser() -> CommandParser:
    """Return the parser of every command."""
    parser = CommandParser(
        prog="coldforge",
        usage="coldforge [-C DIR] COMMAND ...",
        description="A trained model as one small Lambda layer.",
        epilog="\n".join(_format_overview()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"coldforge {__version__}")
    parser.add_argument("--completion", choices=SHELLS, action=_Completion, help="print what a shell completes with")
    parser.add_argument(
        "-C",
        dest="work_in",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the project's folder, with model.toml; it gets build/ and dist/ (default: the current folder)",
    )
    commands = parser.add_subparsers(prog="coldforge", required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    for entry in chain(*GROUPS.values()):
        entry.add_to(commands)
    return parser
