"""Parts of a function: one for each piece by one author, with its files, its licence and its origin.

The bill of materials and NOTICE are two ways of writing these down. Parts that are compiled into libmodel.so have the
versions and licences of the packages that they come from: TensorFlow's wheel and zig's.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from builder import __version__
from builder.base.cache import file_digest
from builder.base.commands import setup_command
from builder.base.errors import EnvironmentSetupError
from builder.base.project import cache_folder
from builder.package.function_files import list_function_files
from builder.sources.miniaudio import ARCHIVE, HEADER, SHA256, VERSION, unpack_miniaudio

LAYERS = "/opt"
"""Folder in which Lambda puts the content of layers."""

LICENCES = Path(__file__).with_name("licences")
OURS = "MIT"
"""Licence of coldforge itself."""

_RULE = "-" * 80


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


def join_licences(component: Mapping[str, Any]) -> str:
    """Return the SPDX expression for all licences of a component of a bill of materials."""
    return " AND ".join(
        str(entry.get("expression") or entry["license"].get("id") or entry["license"]["name"])
        for entry in component["licenses"]
    )


def function_part(source: Path) -> LicensedPart:
    """Return the function's own code, which is in ``source``; bytecode is made later."""
    return LicensedPart(
        ref="coldforge:handler",
        name="coldforge handler",
        version=__version__,
        licence=OURS,
        files=list_shipped_files("/var/task/handler", list_function_files(source).items()),
        kind="application",
        about="the function's code",
        texts=(read_own_licence(),),
    )


def read_own_licence() -> str:
    """Return the text of the licence of coldforge itself."""
    return (LICENCES / f"{OURS}.txt").read_text(encoding="utf-8")


def library_parts(library: str, versions: Mapping[str, str], *, sound: bool = False) -> tuple[LicensedPart, ...]:
    """Return the parts compiled into the file ``library`` (its path in Lambda).

    ``versions``: the manifest's. ``sound``: whether the model takes sound. Raises EnvironmentSetupError when a package
    that made the library is not installed here.
    """
    paths, tensorflow, zig = (library,), versions["tensorflow"], versions["zig"]
    eigen = _read_package_file("tensorflow-cpu", "tensorflow/include/Eigen/Version")
    version = re.search(r'EIGEN_VERSION_STRING "([^"]+)"', eigen)
    return (
        LicensedPart(
            ref="coldforge:runtime",
            name="coldforge runtime",
            version=__version__,
            licence=OURS,
            inside=paths,
            about="the program's steps, the kernels and the C ABI (builder/runtime)",
            texts=(read_own_licence(),),
        ),
        LicensedPart(
            ref="openxla:xla",
            name="XLA",
            version=tensorflow,
            licence="Apache-2.0",
            inside=paths,
            purl=f"pkg:pypi/tensorflow-cpu@{tensorflow}#tensorflow/include/xla",
            about="of TensorFlow's wheel of this version: the kernels that it generates, and what they inline",
            texts=(_read_package_file("tensorflow-cpu", "tensorflow/include/LICENSE"),),
        ),
        LicensedPart(
            ref="tensorflow:eigen",
            name="Eigen",
            version=version[1] if version else "",
            licence="MPL-2.0",
            inside=paths,
            purl=f"pkg:pypi/tensorflow-cpu@{tensorflow}#tensorflow/include/Eigen",
            about="functions that XLA inlines in kernels, such as tanh; a library without such kernels has none of it",
            texts=(_read_notice_section("Eigen"),),
        ),
        LicensedPart(
            ref="zig:compiler-rt",
            name="compiler-rt",
            version=zig,
            licence="MIT AND (Apache-2.0 WITH LLVM-exception)",
            inside=paths,
            purl=f"pkg:pypi/ziglang@{zig}#ziglang/lib/compiler_rt",
            about="of zig's wheel of this version; the linker takes what is called, which may be nothing",
            texts=(
                _read_package_file("ziglang", "ziglang/LICENSE"),
                _read_package_file("ziglang", "ziglang/lib/libunwind/LICENSE.TXT"),
            ),
        ),
        *([_make_decoder_part(paths)] if sound else []),
    )


def _make_decoder_part(inside: tuple[str, ...]) -> LicensedPart:
    text = (unpack_miniaudio(cache_folder()) / HEADER).read_text(encoding="utf-8")
    return LicensedPart(
        ref=f"pkg:pypi/miniaudio@{VERSION}",
        name="miniaudio",
        version=VERSION,
        licence="MIT-0",
        inside=inside,
        purl=f"pkg:pypi/miniaudio@{VERSION}",
        about=f"{HEADER} of this package decodes FLAC and MP3; only in libraries of models that take sound",
        wheel=Wheel(ARCHIVE, SHA256),
        texts=(text.rpartition("ALTERNATIVE 2 - MIT No Attribution\n")[2].strip("=*/\n "),),
    )


def _read_package_file(package: str, name: str) -> str:
    """Read a text of an installed package. Raises EnvironmentSetupError."""
    try:
        file = importlib.metadata.distribution(package).locate_file(name)
        return Path(str(file)).read_text(encoding="utf-8")
    except (importlib.metadata.PackageNotFoundError, OSError) as error:
        raise EnvironmentSetupError(
            f"{package}'s {name} cannot be read ({error}): run `{setup_command()}` again."
        ) from error


def _read_notice_section(name: str) -> str:
    """Return the section of TensorFlow's THIRD_PARTY_NOTICES.txt on one project."""
    notices = _read_package_file("tensorflow-cpu", "tensorflow/THIRD_PARTY_NOTICES.txt")
    _, _, rest = notices.partition(f"{_RULE}\n== {name}\n")
    if not rest:
        raise EnvironmentSetupError(f"TensorFlow's THIRD_PARTY_NOTICES.txt says nothing of {name}.")
    return re.split(rf"\n{_RULE}\n+(?:{_RULE}\n)?== ", rest)[0].strip()
