"""Advice for messages: command lines, of make in a checkout and of coldforge if its wheel is installed, and names."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from builder import __version__
from builder.base.escape import escape_invisible
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


def find_similar_names(word: str, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> str:
    """Return up to ``count`` names of ``known`` that are similar to ``word``, joined by "or", or "".

    ``cutoff``: from 0, where all names are similar, to 1, where only an equal one is.
    """
    return escape_invisible(" or ".join(get_close_matches(word, list(known), count, cutoff)))


def did_you_mean(word: str, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> str:
    """Return a question with the result of ``find_similar_names``, to append to a message, or ""."""
    close = find_similar_names(word, known, count, cutoff)
    return f" Did you mean {close}?" if close else ""
