"""Parts of a function: one for each piece by one author, with its files, its licence and its origin.

The bill of materials and NOTICE are two ways of writing these down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from builder import __version__
from builder.base.cache import file_digest

LAYERS = "/opt"
"""Folder in which Lambda puts the content of layers."""

LICENCES = Path(__file__).with_name("licences")
OURS = "MIT"
"""Licence of coldforge itself."""


@dataclass(frozen=True)
class ShippedFile:
    """A file by its path in Lambda (or in the bundle, for weights outside the layers), with its SHA-256 in hex."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Wheel:
    """The wheel that a package came from: its file's name and SHA-256."""

    file: str
    sha256: str


@dataclass(frozen=True)
class LicensedPart:
    """A part, which has ``files`` of its own, or is compiled into those of another: ``inside`` has their paths.

    ``ref``: its name in the bill of materials; ``licence``: an SPDX expression; ``texts``: the text of the licences.
    """

    ref: str
    name: str
    version: str
    licence: str
    files: tuple[ShippedFile, ...] = ()
    inside: tuple[str, ...] = ()
    purl: str = ""
    kind: Literal["library", "application"] = "library"
    about: str = ""
    wheel: Wheel | None = None
    texts: tuple[str, ...] = ()


def list_shipped_files(place: str, files: Iterable[tuple[str, Path]]) -> tuple[ShippedFile, ...]:
    """Return ``files`` (name, path) as they are below ``place`` in Lambda."""
    return tuple(ShippedFile(f"{place}/{name}" if place else name, file_digest(path)) for name, path in files)


def function_part(source: Path) -> LicensedPart:
    """Return the function's own code, as ``handler/Makefile`` takes it from ``source``; bytecode is made later."""
    modules = [*source.glob("*.py"), *source.glob("*/*.py"), *source.glob("*/*.html")]
    files = sorted((p.relative_to(source).as_posix(), p) for p in modules if p.name != "_abi_build.py")
    return LicensedPart(
        ref="coldforge:handler",
        name="coldforge handler",
        version=__version__,
        licence=OURS,
        files=list_shipped_files("/var/task/handler", files),
        kind="application",
        about="the function's code",
        texts=(read_own_licence(),),
    )


def read_own_licence() -> str:
    """Return the text of the licence of coldforge itself."""
    return (LICENCES / f"{OURS}.txt").read_text(encoding="utf-8")
