"""The statement beside a bundle: untrusted bytes, read and checked for the form that ``coldforge bundle`` writes."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from builder.base.errors import BundleError
from builder.base.escape import escape_invisible
from builder.base.records import parse_json
from builder.package.bundle import EVERY_BUNDLE
from builder.package.layer import EPOCH
from builder.package.provenance import BUILD_TYPE, JOIN_TYPE, PREDICATE_TYPE, STATEMENT, STATEMENT_TYPE
from builder.verify.quantise.precision import PrecisionChoice

NEXT = "Do not deploy this bundle: fetch it again from whoever built it, or build it again."
"""End of a message about a bundle that differs from what was built."""

_LARGEST = 16 << 20  # In bytes: ten thousand files would need a tenth of it.


@contextmanager
def require_form(name: str, kind: str) -> Iterator[None]:
    """Raise BundleError where the block finds that the file ``name`` lacks the form of a bundle's ``kind``."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = escape_invisible(f"{type(error).__name__}: {error}")
        raise BundleError(f"{name} is not a bundle's {kind} ({what}). {NEXT}") from error


def parse_statement(text: bytes) -> dict[str, Any]:
    """Parse a statement of the form that ``coldforge bundle`` writes. Raises BundleError."""
    with require_form(STATEMENT, "statement"):
        statement = parse_json(text)
        definition = statement["predicate"]["buildDefinition"]
        wrong = [
            f"{key} is {value!r}"
            for key, value, allowed in (
                ("_type", statement["_type"], (STATEMENT_TYPE,)),
                ("predicateType", statement["predicateType"], (PREDICATE_TYPE,)),
                ("buildType", definition["buildType"], (BUILD_TYPE, JOIN_TYPE)),
            )
            if value not in allowed
        ]
        names = Counter(_read_subject_name(entry) for entry in statement["subject"])
        wrong += [f"{name} stands twice" for name, count in names.items() if count > 1]
        wrong += [f"it says nothing of {name}" for name in EVERY_BUNDLE if name not in names]
        wrong += _find_input_problems(definition)
        builder = statement["predicate"]["runDetails"]["builder"]
        if not (isinstance(builder["id"], str) and isinstance(builder["version"], dict)):
            wrong.append("it does not say where and with what it was built")
    if wrong:
        raise BundleError(f"{STATEMENT} is not a bundle's statement: {escape_invisible(wrong[0])}. {NEXT}")
    result: dict[str, Any] = statement
    return result


def subjects_of(statement: dict[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file that a statement names, by its name."""
    return {entry["name"]: entry["digest"]["sha256"] for entry in statement["subject"]}


def _find_input_problems(definition: dict[str, Any]) -> Iterator[str]:
    """Yield the errors in the form of the recorded inputs and parameters. Raises as a wrong type does."""
    external, internal = definition["externalParameters"], definition["internalParameters"]
    if not isinstance(external["target"], str) or not isinstance(internal.get(EPOCH, 0), int):
        yield "its parameters are not those of a bundle"
    if definition["buildType"] == JOIN_TYPE:
        names = external["models"]
        if not names or not all(isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name) for name in names):
            yield "it is of several models and does not name them"
    elif not (isinstance(external["model"], str) and external["package"] in ("zip", "image")):
        yield "it does not say what it was built from"
    for entry in definition["resolvedDependencies"]:
        if not (isinstance(entry["name"], str) and isinstance(entry.get("digest", {}), dict)):
            yield f"an input is called {entry['name']!r}"


def _read_subject_name(entry: Any) -> str:
    """Return a subject's name, a path inside the bundle. Raises ValueError."""
    name, sha256 = entry["name"], entry["digest"]["sha256"]
    if not isinstance(name, str) or str(PurePosixPath(name)) != name or name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"{name!r} is no file of a bundle")
    if not isinstance(sha256, str) or not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ValueError(f"{name} has no SHA-256")
    return name


def read_plain(folder: Path, name: str) -> bytes:
    """Read a small file of the bundle. Raises BundleError."""
    try:
        if not is_plain(folder, name) or (folder / name).stat().st_size > _LARGEST:
            raise BundleError(
                f"{folder} has no {name}: name a bundle's folder, such as dist/emotion, or build the bundle again."
            )
        return (folder / name).read_bytes()
    except OSError as error:
        raise BundleError(f"{name} cannot be read: {error.strerror}") from error


def is_plain(folder: Path, name: str) -> bool:
    """Return whether ``name`` is a regular file that is not reached through a link."""
    path = folder
    for part in PurePosixPath(name).parts:
        if os.path.islink(path) and path != folder:  # noqa: PTH114 - that raises where a name is too long
            return False
        path /= part
    return os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode)


def recorded_choice(folder: Path) -> PrecisionChoice | None:
    """Return what "auto" chose for the bundle in ``folder``; None where its model.toml did not say "auto".

    Raises BundleError for an invalid manifest.
    """
    with require_form("manifest.json", "manifest"):
        choice = parse_json(read_plain(folder, "manifest.json")).get("auto")
        return None if choice is None else PrecisionChoice.from_dict(choice)
