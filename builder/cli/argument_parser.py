"""Parser of the command line: its errors are UsageErrors, which suggest a similar name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

from builder.base.commands import did_you_mean
from builder.base.errors import UsageError


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser that raises where argparse prints its usage and ends the process."""

    def error(self, message: str) -> NoReturn:
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
