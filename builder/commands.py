"""The command lines that messages name: of make in a checkout, of coldforge where its wheel is installed."""

from __future__ import annotations

import shlex

from builder import __version__
from builder.project import HOME
from builder.targets import Target

CHECKOUT = (HOME / "Makefile").is_file()


def either(checkout: str, installed: str) -> str:
    """The one that works here."""
    return checkout if CHECKOUT else installed


DEPLOYING = either("`make deploy` and `make publish`", "`sam deploy` and `coldforge publish`")
"""What uploads a layer, through S3 where it is large."""

CLEANING = either("`make clean` deletes", "deleting build/ frees")
"""How a sentence begins that says what makes room."""


def bundle_command(model: str = "", target: Target | None = None) -> str:
    """What builds the bundle of ``model``, a name or a path, for ``target``.

    Of the project's own model, when ``model`` is empty or the current folder.
    """
    named = "" if model in ("", ".") else shlex.quote(model)
    option = f" --target {target.name}" if target and target.suffix else ""
    return either(
        f"make bundle{f' MODEL={named}' if named else ''}{target.option if target else ''}",
        f"coldforge bundle{f' {named}' if named else ''}{option}",
    )


def setup_command() -> str:
    """What installs the packages that a build needs."""
    return either("make setup", f"pip install --force-reinstall coldforge=={__version__}")
