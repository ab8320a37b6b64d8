"""Parameters and add-ons of an environment in samconfig.toml, and those of the command line over them.

`sam deploy --parameter-overrides` on the command line replaces the whole list of samconfig.toml; here they are joined.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builder.base.errors import UsageError


def merge_parameters(samconfig: Path, environment: str, given: Sequence[str]) -> dict[str, str]:
    """Return the template's parameters, by name: those of ``environment``, then ``given`` as NAME=VALUE. The last wins.

    Raises UsageError where samconfig.toml cannot be read or has no such environment, and for invalid NAME=VALUE.
    """
    listed = read_deploy_table(samconfig, environment).get("parameter_overrides", [])
    words = shlex.split(listed) if isinstance(listed, str) else list(map(str, listed))
    if wrong := [word for word in (*words, *given) if "=" not in word]:
        raise UsageError(f"{wrong[0]}: write parameters as NAME=VALUE.")
    return dict(word.split("=", 1) for word in (*words, *given))


def read_environment_addons(samconfig: Path, environment: str) -> list[str]:
    """Return the add-ons that ``[<environment>.coldforge.parameters]`` names as ``with``, with commas between them.

    Raises UsageError as ``merge_parameters`` does.
    """
    return parse_addons(str(_read_table(samconfig, environment, "coldforge").get("with", "")))


def parse_addons(text: str) -> list[str]:
    """Return the names in ``text``, which are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_deploy_table(samconfig: Path, environment: str) -> dict[str, Any]:
    """Return the settings of `sam deploy` for ``environment``. Raises UsageError as ``merge_parameters`` does."""
    return _read_table(samconfig, environment, "deploy")


def _read_table(samconfig: Path, environment: str, command: str) -> dict[str, Any]:
    """Return the settings of ``command`` for ``environment``, which has settings for at least `sam deploy`."""
    try:
        tables = tomllib.loads(samconfig.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{samconfig} cannot be read: {error}") from None
    known = [name for name, table in tables.items() if isinstance(table, dict) and "deploy" in table]
    if environment not in known:
        raise UsageError(f"{samconfig.name} has no environment {environment}; it has {', '.join(known)}.")
    table: dict[str, Any] = tables[environment].get(command, {}).get("parameters", {})
    return table
