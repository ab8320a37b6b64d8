"""Parts of a folder of installed wheels: each package, and each library that its wheel includes.

A wheel lists its own content: its files with their hashes (RECORD), its licence (METADATA, ``licenses/``), the
libraries in it (``sboms/``, PEP 770) and here, by ``layers/dependencies/build.py``, its own name and hash
(``wheel.json``).
"""

from __future__ import annotations

import base64
import csv
import email
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder import __version__
from builder.base.cache import file_digest
from builder.base.errors import EnvironmentSetupError
from builder.package.components import (
    LAYERS,
    LICENCES,
    OURS,
    LicensedPart,
    Wheel,
    join_licences,
    list_shipped_files,
    read_own_licence,
)
from builder.package.layer import files_of

PLACE = f"{LAYERS}/python"

_SPDX = {"MIT": "MIT", "Apache 2.0": "Apache-2.0", "Apache-2.0": "Apache-2.0", "BSD-3-Clause": "BSD-3-Clause"}
"""SPDX names for METADATA's free-text field ``License``, for packages without ``License-Expression``."""

_OTHER_NAMES = {"libsharpyuv": "libwebp"}
"""Projects that libraries are part of, where a wheel's bill names only those."""

_COMPILED_IN = {"pillow": {"pkg:github/python/pythoncapi-compat": "PIL/_imaging."}}
"""Components of a wheel's bill without a file of their own, and the prefix of the file that they are compiled into."""

_LIBFFI = LicensedPart(
    ref="pkg:generic/libffi",
    name="libffi",
    version="",  # No cffi wheel states its version.
    licence="MIT",
    inside=("_cffi_backend.",),
    purl="pkg:generic/libffi",
    about="statically linked; cffi's wheel has no bill of materials that would say its version",
)


@dataclass(frozen=True)
class _InstalledWheel:
    """A package in ``root`` with its ``*.dist-info`` folder."""

    root: Path
    info: Path

    @property
    def title(self) -> str:
        """The name and version, as the folder has them."""
        return self.info.name.removesuffix(".dist-info")

    @property
    def name(self) -> str:
        return re.sub(r"[-_.]+", "-", self.title.rsplit("-", 1)[0]).lower()

    @property
    def version(self) -> str:
        return self.title.rsplit("-", 1)[1]

    def read_json(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.info / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _make_incomplete_error(f"{self.title}: {name} cannot be read ({error})") from error
        return content

    def read_record(self) -> dict[str, str]:
        """Return the wheel's files below ``root``, with their SHA-256 in hex ("" where there is none)."""
        with (self.info / "RECORD").open(encoding="utf-8", newline="") as file:
            return {row[0]: _decode_digest(row[1]) for row in csv.reader(file) if row}

    def read_licence(self) -> str:
        fields = email.message_from_string((self.info / "METADATA").read_text(encoding="utf-8"))
        licence = fields.get("License-Expression") or _SPDX.get(fields.get("License", ""))
        if not licence:
            raise _make_incomplete_error(f"{self.title}: METADATA has no licence that SPDX knows")
        return str(licence)

    def read_licence_texts(self) -> tuple[str, ...]:
        names = [*self.info.glob("licenses/**/*"), *self.info.glob("LICEN*"), *self.info.glob("NOTICE*")]
        return tuple(path.read_text(encoding="utf-8") for path in sorted(names) if path.is_file())

    def read_bills(self) -> dict[str, dict[str, Any]]:
        """Return the components of the bills in the wheel, by their reference."""
        return {
            component["bom-ref"]: component
            for path in sorted(self.info.glob("sboms/*.cdx.json"))
            for component in self.read_json(f"sboms/{path.name}").get("components", [])
        }


def wheel_parts(layer: Path) -> tuple[LicensedPart, ...]:
    """Return every part that is installed in ``layer``/python, in the order of names.

    Raises EnvironmentSetupError for a file that no package owns or that differs from its wheel's, and for an unknown
    package or library.
    """
    root = layer / "python"
    left = dict(files_of(root))
    parts: list[LicensedPart] = []
    for info in sorted(root.glob("*.dist-info")):
        parts += _list_parts(_InstalledWheel(root, info), left)
    if left:
        raise _make_incomplete_error(f"{min(left)} belongs to no package")
    return tuple(parts)


def _list_parts(package: _InstalledWheel, left: dict[str, Path]) -> Iterator[LicensedPart]:
    """Yield the package's parts; their files are removed from ``left``."""
    recorded, wheel = package.read_record(), package.read_json("wheel.json")
    stand_ins, stripped = set(wheel.get("stand_ins", [])), dict(wheel.get("stripped", {}))
    mine = {name: left.pop(name) for name in list(left) if _is_from_wheel(package, recorded, name)}
    for name, path in mine.items():
        digest = stripped.get(name) or recorded.get(name)
        if digest and name not in stand_ins and digest != file_digest(path):
            raise _make_incomplete_error(f"{name} is not what the wheel of {package.title} holds")
    libraries = {name: path for name, path in mine.items() if name.startswith(f"{package.name}.libs/")}
    files = [(name, path) for name, path in mine.items() if name not in libraries]
    yield LicensedPart(
        ref=f"pkg:pypi/{package.name}@{package.version}",
        name=package.name,
        version=package.version,
        licence=package.read_licence(),
        files=list_shipped_files(PLACE, files),
        purl=f"pkg:pypi/{package.name}@{package.version}",
        wheel=Wheel(wheel["file"], wheel["sha256"]),
        texts=package.read_licence_texts(),
    )
    yield from _list_library_parts(package, {name: path for name, path in libraries.items() if name not in stand_ins})
    yield from _compiled_in(package, mine)
    if stand_ins:
        yield LicensedPart(
            ref="coldforge:stand-ins",
            name="coldforge stand-ins",
            version=__version__,
            licence=OURS,
            files=list_shipped_files(PLACE, [(name, mine[name]) for name in sorted(stand_ins)]),
            about=f"in the places of libraries that {package.name} does not load without; they have no code of them",
            texts=(read_own_licence(),),
        )


def _list_library_parts(package: _InstalledWheel, files: Mapping[str, Path]) -> Iterator[LicensedPart]:
    """Yield one part for each project whose libraries the wheel includes."""
    bills = package.read_bills()
    projects = {re.sub(r"[@#?].*", "", ref).rpartition("/")[2]: component for ref, component in bills.items()}
    libraries: dict[str, list[tuple[str, Path]]] = {}
    for name, path in files.items():
        stem = re.split(r"[-.]", Path(name).name)[0]
        project = _OTHER_NAMES.get(stem, max((p for p in projects if stem.startswith(p)), key=len, default=""))
        if project not in projects:
            raise _make_incomplete_error(
                f"no bill of materials in the wheel of {package.title} names {Path(name).name}"
            )
        libraries.setdefault(project, []).append((name, path))
    for project, its in sorted(libraries.items()):
        about = f"in the wheel of {package.title}, whose licence texts have its own"
        yield replace(
            _make_component_part(projects[project]), files=list_shipped_files(PLACE, sorted(its)), about=about
        )


def _compiled_in(package: _InstalledWheel, files: Mapping[str, Path]) -> Iterator[LicensedPart]:
    parts = [
        replace(_make_component_part(package.read_bills()[ref]), inside=(begin,))
        for ref, begin in _COMPILED_IN.get(package.name, {}).items()
        if ref in package.read_bills()
    ]
    if package.name == "cffi":
        parts.append(replace(_LIBFFI, texts=((LICENCES / "libffi.txt").read_text(encoding="utf-8"),)))
    for part in parts:
        paths = [f"{PLACE}/{name}" for name in sorted(files) if name.startswith(part.inside)]
        if paths:
            yield replace(part, inside=tuple(paths))


def _make_component_part(component: Mapping[str, Any]) -> LicensedPart:
    """Return the part for a component of a wheel's bill."""
    version, ref = str(component.get("version", "")), str(component["bom-ref"])
    purl = component.get("purl") or (ref if "@" in ref or not version else f"{ref}@{version}")
    return LicensedPart(ref=purl, name=component["name"], version=version, licence=join_licences(component), purl=purl)


def _is_from_wheel(package: _InstalledWheel, recorded: Mapping[str, str], name: str) -> bool:
    """Return whether a file is of the wheel, or was made at its installation: bytecode, and metadata of the wheel."""
    folder, _, file = name.rpartition("/")
    source = f"{folder.removesuffix('__pycache__')}{file.partition('.')[0]}.py"
    return (
        name in recorded or name.startswith(f"{package.info.name}/") or (name.endswith(".pyc") and source in recorded)
    )


def _decode_digest(text: str) -> str:
    """Convert RECORD's ``sha256=<base64>`` to hex."""
    kind, _, digest = text.partition("=")
    return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex() if kind == "sha256" else ""


def _make_incomplete_error(what: str) -> EnvironmentSetupError:
    return EnvironmentSetupError(
        f"the dependencies layer cannot be accounted for: {what}. Delete build/dependencies* to install it again; if "
        "it is a new package or version, say what it is in builder/package/wheels.py."
    )
