"""Packages that a hash-locked requirements file pins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from builder.base.errors import EnvironmentSetupError

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*==\s*(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")


@dataclass(frozen=True)
class LockedPackage:
    """A pinned package; ``hashes`` are SHA-256 (hex) of the files that may be installed."""

    name: str
    version: str
    hashes: tuple[str, ...]


def read_lock(path: Path) -> tuple[LockedPackage, ...]:
    """Return the packages of a hash-locked requirements file, by name.

    Raises EnvironmentSetupError when a line is not a pin.
    """
    packages = []
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text or text.startswith("-"):
            continue
        match = _PIN.match(text)
        if match is None:
            raise EnvironmentSetupError(f"{path.name}: {text!r} is not pinned as name==version; lock it again.")
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        packages.append(LockedPackage(name, match["version"], tuple(sorted(set(_HASH.findall(text))))))
    return tuple(sorted(packages, key=lambda p: p.name))
