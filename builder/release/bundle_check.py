"""Check of a bundle against its statement, file by file, and of the signature. Nothing but files is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.base.cache import file_digest
from builder.base.errors import BundleError
from builder.base.escape import escape_invisible
from builder.base.files import write_file
from builder.base.records import parse_json
from builder.base.targets import Target
from builder.package.bundle import LAYER_MANIFEST, Bundle, find_bundle
from builder.package.join_bundles import read_identity
from builder.package.provenance import APART, ENVELOPE, STATEMENT
from builder.release.statement import (
    NEXT,
    is_plain,
    open_envelope,
    parse_statement,
    read_plain,
    require_form,
    require_signature,
    sign_payload,
    subjects_of,
)

_MADE_LATER = re.compile(rf"({'|'.join(APART)})/.+|[^/]+_(test|benchmark)|report\.html")
"""Files that other commands put beside a finished bundle (wasm, selftest, report). None of them is deployed."""


@dataclass(frozen=True)
class CheckedBundle:
    """A bundle that agrees with its ``statement``.

    ``key``: the key whose signature was checked. ``signers``: the keys whose signatures were not. ``name`` is as under
    dist/, and the versions of its models have + between them. ``beside``: files in its folder that other commands made
    later, which the statement does not mention.
    """

    folder: Path
    statement: dict[str, Any]
    name: str
    version: str
    key: str
    signers: tuple[str, ...]
    beside: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON: ``signed_by`` was checked, ``not_checked`` was not."""
        return {
            "folder": str(self.folder.resolve()),
            "name": self.name,
            "version": self.version,
            "files": self.subjects,
            "inputs": len(self.statement["predicate"]["buildDefinition"]["resolvedDependencies"]),
            "signed_by": self.key or None,
            "not_checked": {"signatures": list(self.signers), "files": list(self.beside)},
        }

    @property
    def subjects(self) -> dict[str, str]:
        """SHA-256 of each file that the statement names, by its name."""
        return subjects_of(self.statement)


def check_bundle(folder: Path, key: Path | None = None) -> CheckedBundle:
    """Check every file of the bundle in ``folder`` against its statement, and that against the public ``key`` if given.

    Raises BundleError, which names the file at fault, and UsageError for an invalid key.
    """
    text = read_plain(folder, STATEMENT)
    statement, unlisted = _verify_statement(folder, text)
    signer, signers = _verify_signature(folder, text, key)
    return CheckedBundle(folder, statement, *_read_bundle_identity(folder), signer, signers, unlisted)


def find_checked(dist: Path, name: str, target: Target, named: str = "") -> Bundle:
    """Find the bundle ``name`` as ``find_bundle`` does, and check it against its statement.

    Raises UsageError where there is none, and BundleError as ``check_bundle`` and ``require_model`` do.
    """
    folder = dist / f"{name}{target.suffix}"
    if folder.is_dir():
        require_model(check_bundle(folder), name)
    return find_bundle(dist, name, target, named)


def require_model(checked: CheckedBundle, name: str | None = None, version: str | None = None) -> None:
    """Raise BundleError for a bundle of another model or version; None allows any."""
    for kind, required, actual in (("model", name, checked.name), ("version", version, checked.version)):
        if required is not None and required != actual:
            raise BundleError(f"{checked.folder} is a bundle of {kind} {actual}, not of {required}. {NEXT}")


def require_all_checked(checked: CheckedBundle) -> None:
    """Raise BundleError for a bundle with a file or a signature that was not checked."""
    if checked.beside:
        raise BundleError(
            f"{STATEMENT} does not name {escape_invisible(checked.beside[0])}: delete it, or leave out --strict."
        )
    if not checked.key:
        raise BundleError("no signature was checked: name the signer's public key with --key, or leave out --strict.")


def sign_bundle(folder: Path, key: Path) -> Path:
    """Sign the statement of the bundle in ``folder`` with the private ``key``, and return the envelope's path.

    Raises as ``check_bundle`` does: a bundle that disagrees with its statement is not signed.
    """
    text = read_plain(folder, STATEMENT)
    _verify_statement(folder, text)
    write_file(folder / ENVELOPE, sign_payload(text, key))
    return folder / ENVELOPE


def _verify_statement(folder: Path, text: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Check the statement ``text``, and return it and the files that it does not mention. Raises BundleError."""
    statement = parse_statement(text)
    subjects = subjects_of(statement)
    for name, sha256 in subjects.items():
        path = folder / name
        if not is_plain(folder, name):
            raise BundleError(
                f"{STATEMENT} names {escape_invisible(name)}, which is missing or not a regular file. {NEXT}"
            )
        if (digest := file_digest(path)) != sha256:
            raise BundleError(
                f"{escape_invisible(name)} is not the file that {STATEMENT} names. {NEXT}\n "
                f" stated  {sha256}\n  found   {digest}"
            )
    unlisted = tuple(name for name in _list_files(folder) if name not in subjects)
    for name in unlisted:
        if not _MADE_LATER.fullmatch(name):
            raise BundleError(f"{escape_invisible(name)} is in the bundle, but {STATEMENT} does not name it. {NEXT}")
    return statement, unlisted


def _read_bundle_identity(folder: Path) -> tuple[str, str]:
    """Read the name and version that both manifests of the bundle have. Raises BundleError."""
    identities = []
    for name in ("manifest.json", f"layer/{LAYER_MANIFEST}"):
        with require_form(name, "manifest"):
            identities.append(read_identity(parse_json(read_plain(folder, name))))
    bundle_identity, layer = (" ".join(identity) for identity in identities)
    if bundle_identity != layer:
        raise BundleError(f"manifest.json is of {bundle_identity}, its layer of {layer}. {NEXT}")
    return identities[0]


def _verify_signature(folder: Path, statement: bytes, key: Path | None) -> tuple[str, tuple[str, ...]]:
    """Return the name of ``key``, whose signature is right, and the names of the keys that were not checked."""
    if not os.path.lexists(folder / ENVELOPE):
        if key is not None:
            raise BundleError(f"there is no {ENVELOPE}: nobody has signed this bundle. Sign it with `coldforge sign`.")
        return "", ()
    try:
        payload, signatures = open_envelope(read_plain(folder, ENVELOPE).decode())
    except ValueError as error:
        raise BundleError(f"{ENVELOPE} cannot be read: {error}. {NEXT}") from error
    if payload != statement:
        raise BundleError(f"{ENVELOPE} signs another statement than {STATEMENT}. {NEXT}")
    if key is None:
        return "", tuple(signatures)
    try:
        return require_signature(payload, signatures, key), ()
    except BundleError as error:
        raise BundleError(f"{ENVELOPE}: {error}. {NEXT}") from error


def _list_files(folder: Path) -> Iterator[str]:
    """Yield everything in the bundle that is not a folder, links to folders included."""
    for parent, folders, names in os.walk(folder):
        subfolder = Path(parent).relative_to(folder)
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in (*names, *links):
            file = (subfolder / name).as_posix()
            if file not in (STATEMENT, ENVELOPE):
                yield file
