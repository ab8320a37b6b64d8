"""The command lines that messages name: of make in a checkout, of coldforge where its wheel is installed."""

from __future__ import annotations

import shlex
from pathlib import Path

from builder import __version__
from builder.base.project import HOME
from builder.base.targets import Target

CHECKOUT = (HOME / "Makefile").is_file()
"""True if coldforge runs from a checkout, rather than from its wheel."""


def choose_command(checkout: str, installed: str) -> str:
    """Return the one that works in the current folder, which may be another than the checkout's."""
    return checkout if CHECKOUT and Path.cwd() == HOME else installed


DEPLOYING = choose_command("`make deploy` and `make publish`", "`sam deploy` and `coldforge publish`")
"""What uploads a layer, through S3 where it is large."""

CLEANING = choose_command("`make clean` deletes", "deleting build/ frees")
"""How a sentence begins that says what makes room."""


def bundle_command(model: str = "", target: Target | None = None) -> str:
    """What builds the bundle of ``model``, a name or a path, for ``target``.

    ``model`` is empty or "." for the project's own, and may be several names with spaces between them.
    """
    named = "" if model in ("", ".") else shlex.quote(model)
    words = named if Path(model).exists() else shlex.join(model.split())
    option = f" --target {target.name}" if target and target.suffix else ""
    return choose_command(
        f"make bundle{f' MODEL={named}' if named else ''}{target.option if target else ''}",
        f"coldforge bundle{f' {words}' if named else ''}{option}",
    )


def route_option(place: str) -> str:
    """Return the option that has a build run in ``place``, "host" or "docker"."""
    return f"--in {place} (with make: BUILD_IN={place})"


def setup_command() -> str:
    """What installs the packages that a build needs."""
    return choose_command("make setup", f"pip install --force-reinstall coldforge=={__version__}")


def docs_command(page: str) -> str:
    """Return the command that shows ``page``, a file's name in docs/ without its ending."""
    return f"`coldforge docs {page}`"
