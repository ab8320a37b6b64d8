"""Command lines for messages: of make in a checkout, of coldforge if its wheel is installed."""

from __future__ import annotations

import shlex
from pathlib import Path

from builder import __version__
from builder.base.project import HOME
from builder.base.targets import Target

CHECKOUT = (HOME / "Makefile").is_file()
"""True if coldforge runs from a checkout, rather than from its wheel."""


def choose_command(checkout: str, installed: str) -> str:
    """Return the command that works in the current folder, which may be another than the checkout's."""
    return checkout if CHECKOUT and Path.cwd() == HOME else installed


DEPLOYING = choose_command("`make deploy` and `make publish`", "`sam deploy` and `coldforge publish`")
"""The commands that upload a layer, through S3 if it is large."""

CLEANING = choose_command("`make clean` deletes", "deleting build/ frees")
"""The beginning of a sentence about freeing disk space."""


def bundle_command(model: str = "", target: Target | None = None) -> str:
    """Return the command that builds the bundle of ``model``, a name or a path, for ``target``.

    ``model`` is empty or "." for the project's own, and may be several names with spaces between them.
    """
    argument = "" if model in ("", ".") else shlex.quote(model)
    words = argument if Path(model).exists() else shlex.join(model.split())
    option = f" --target {target.name}" if target and target.suffix else ""
    return choose_command(
        f"make bundle{f' MODEL={argument}' if argument else ''}{target.option if target else ''}",
        f"coldforge bundle{f' {words}' if argument else ''}{option}",
    )


def route_option(place: str) -> str:
    """Return the option for a build in ``place``, "host" or "docker"."""
    return f"--in {place} (with make: BUILD_IN={place})"


def setup_command() -> str:
    """Return the command that installs the packages for a build."""
    return choose_command("make setup", f"pip install --force-reinstall coldforge=={__version__}")


def docs_command(page: str) -> str:
    """Return the command that shows ``page``, a file's name in docs/ without its ending."""
    return f"`coldforge docs {page}`"
