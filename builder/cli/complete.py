"""Completions for the Tab key, by argcomplete: commands, options, models and other names that an argument takes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from builder.base.commands import setup_command
from builder.base.errors import EnvironmentSetupError
from builder.base.project import Project

SHELLS = ("bash", "zsh", "fish")

Completer = Callable[..., Iterable[str]]
"""Function that gets the word so far as ``prefix`` and lists candidates; those with another prefix are left out."""


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


def set_completer(action: argparse.Action, completer: Completer) -> None:
    """Set the function that lists the values of the argument ``action``."""
    action.completer = completer  # type: ignore[attr-defined]


def complete_models(prefix: str, **_: Any) -> list[str]:
    """Return the examples, and files and folders, among them those with a model.toml."""
    from argcomplete.completers import FilesCompleter

    return sorted({*list_known_models(Project.in_current_folder()), *FilesCompleter()(prefix)})


def list_known_models(project: Project) -> list[str]:
    """Return the names of the examples, and of the folders here that have a model.toml."""
    examples = (path.parent.name for path in project.examples.glob("*/model.toml"))
    return sorted({*examples, *(str(path.parent) for path in Path().glob("*/model.toml"))})
