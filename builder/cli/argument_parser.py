"""Parser of the command line: its errors are UsageErrors that suggest a similar name; argcomplete completes words."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from builder.base.commands import did_you_mean, setup_command
from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.project import Project

SHELLS = ("bash", "zsh", "fish")

Completer = Callable[..., Iterable[str]]
"""Function that gets the word so far as ``prefix`` and lists candidates; those with another prefix are left out."""


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser that raises where argparse prints its usage and ends the process."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}{'' if message.endswith(('.', '?')) else '.'} `{self.prog} --help` says more.")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse ``args``. An unknown option is reported even where another argument is missing as well."""
        first = "-" if self._subparsers else ""  # A command's own options follow its name.
        for word in takewhile(lambda word: word != "--" and word.startswith(first), args or ()):
            self._require_option(word.partition("=")[0])
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"{unknown[0]} is one argument too many.")
        return options, unknown

    def _require_option(self, word: str) -> None:
        known = self._option_string_actions
        if word.startswith("--") and not any(option.startswith(word) for option in known):
            self.error(f"there is no option {word}.{did_you_mean(word, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            kind = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest).lower()
            hint = did_you_mean(str(value), names) or f" It may be {', '.join(names)}."
            self.error(f"there is no {kind} {value}.{hint}")


def format_completion_script(shell: str) -> str:
    """Return the script that a shell evaluates for completion. Raises EnvironmentSetupError without argcomplete."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        raise EnvironmentSetupError(
            f"completion needs the package argcomplete; `{setup_command()}` installs it."
        ) from error
    return shellcode(["coldforge"], shell=shell)


def answer_completion(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions, and end the process; otherwise do nothing."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def complete_models(prefix: str, **_: Any) -> list[str]:
    """Return the examples, and files and folders, among them those with a model.toml."""
    from argcomplete.completers import FilesCompleter

    return sorted({*list_known_models(Project.in_current_folder()), *FilesCompleter()(prefix)})


def list_known_models(project: Project) -> list[str]:
    """Return the names of the examples, and of the folders here that have a model.toml."""
    examples = (path.parent.name for path in project.examples.glob("*/model.toml"))
    return sorted({*examples, *(str(path.parent) for path in Path().glob("*/model.toml"))})
