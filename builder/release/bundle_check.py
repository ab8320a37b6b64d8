"""Whether a bundle is what its statement says, file by file, and whose statement that is. Nothing but files is read."""

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
from builder.base.json_input import parse_json
from builder.base.targets import Target
from builder.package.bundle import LAYER_MANIFEST, Bundle, find_bundle
from builder.package.join_bundles import read_identity
from builder.package.provenance import APART, ENVELOPE, STATEMENT
from builder.release.envelope import open_envelope, require_signature, sign_payload
from builder.release.statement import NEXT, is_plain, parse_statement, read_plain, require_form, subjects_of

_MADE_LATER = re.compile(rf"({'|'.join(APART)})/.+|[^/]+_(test|benchmark)|report\.html")
"""What other commands put beside a finished bundle (wasm, selftest, report). Nothing of it is deployed."""


@dataclass(frozen=True)
class CheckedBundle:
    """A bundle that is what ``statement`` says. ``key``: whose signature was checked; ``signers``: whose was not.

    ``name`` as under dist/, and the versions of its models with + between them. ``beside``: files in its folder that
    other commands made of it later. The statement says nothing of them.
    """

    folder: Path
    statement: dict[str, Any]
    name: str
    version: str
    key: str
    signers: tuple[str, ...]
    beside: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON; ``signed_by`` was checked, ``not_checked`` was not."""
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
        return subjects_of(self.statement)


def check_bundle(folder: Path, key: Path | None = None) -> CheckedBundle:
    """Check every file of the bundle in ``folder`` against its statement, and that against the public ``key`` if given.

    Raises BundleError, which names the file at fault, and UsageError for a key that is none.
    """
    text = read_plain(folder, STATEMENT)
    statement, beside = _verify_statement(folder, text)
    signer, signers = _verify_signature(folder, text, key)
    return CheckedBundle(folder, statement, *_read_bundle_identity(folder), signer, signers, beside)


def find_checked(dist: Path, name: str, target: Target, named: str = "") -> Bundle:
    """Find the bundle ``name`` as ``find_bundle`` does, and check that it is what its statement says.

    Raises UsageError where there is none, and BundleError as ``check_bundle`` and ``require_model`` do.
    """
    folder = dist / f"{name}{target.suffix}"
    if folder.is_dir():
        require_model(check_bundle(folder), name)
    return find_bundle(dist, name, target, named)


def require_model(checked: CheckedBundle, name: str | None = None, version: str | None = None) -> None:
    """Raise BundleError for a bundle of another model or version. None: any."""
    for kind, wanted, found in (("model", name, checked.name), ("version", version, checked.version)):
        if wanted is not None and wanted != found:
            raise BundleError(f"{checked.folder} is a bundle of {kind} {found}, not of {wanted}. {NEXT}")


def require_all_checked(checked: CheckedBundle) -> None:
    """Raise BundleError for a bundle with a file or a signature that was not checked."""
    if checked.beside:
        raise BundleError(
            f"{STATEMENT} does not name {escape_invisible(checked.beside[0])}: delete it, or leave out --strict."
        )
    if not checked.key:
        raise BundleError("no signature was checked: name the signer's public key with --key, or leave out --strict.")


def sign_bundle(folder: Path, key: Path) -> Path:
    """Sign the statement of the bundle in ``folder`` with the private ``key``; the envelope's path.

    Raises as ``check_bundle`` does: a bundle that is not what its statement says is not signed.
    """
    text = read_plain(folder, STATEMENT)
    _verify_statement(folder, text)
    write_file(folder / ENVELOPE, sign_payload(text, key))
    return folder / ENVELOPE


def _verify_statement(folder: Path, text: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The statement ``text``, and the files that it says nothing of. Raises BundleError where it is not true."""
    statement = parse_statement(text)
    subjects = subjects_of(statement)
    for name, sha256 in subjects.items():
        path = folder / name
        if not is_plain(folder, name):
            raise BundleError(
                f"{STATEMENT} names {escape_invisible(name)}, which is missing or not a regular file. {NEXT}"
            )
        if (found := file_digest(path)) != sha256:
            raise BundleError(
                f"{escape_invisible(name)} is not the file that {STATEMENT} names. {NEXT}\n "
                f" stated  {sha256}\n  found   {found}"
            )
    beside = tuple(name for name in _list_files(folder) if name not in subjects)
    for name in beside:
        if not _MADE_LATER.fullmatch(name):
            raise BundleError(f"{escape_invisible(name)} is in the bundle, but {STATEMENT} does not name it. {NEXT}")
    return statement, beside


def _read_bundle_identity(folder: Path) -> tuple[str, str]:
    """Read the name and version that both manifests of the bundle have. Raises BundleError."""
    identities = []
    for name in ("manifest.json", f"layer/{LAYER_MANIFEST}"):
        with require_form(name, "manifest"):
            identities.append(read_identity(parse_json(read_plain(folder, name))))
    whole, layer = (" ".join(identity) for identity in identities)
    if whole != layer:
        raise BundleError(f"manifest.json is of {whole}, its layer of {layer}. {NEXT}")
    return identities[0]


def _verify_signature(folder: Path, statement: bytes, key: Path | None) -> tuple[str, tuple[str, ...]]:
    """(the name of ``key``, whose signature is right; the names of keys that nobody asked about)."""
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
    """Everything in the bundle that is no folder, links to folders included."""
    for parent, folders, names in os.walk(folder):
        here = Path(parent).relative_to(folder)
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in (*names, *links):
            found = (here / name).as_posix()
            if found not in (STATEMENT, ENVELOPE):
                yield found
