"""The statement beside a bundle, untrusted bytes that are read and checked for their form, and its signature.

A signature is a DSSE envelope, signed with a plain ed25519 key; a file holds one envelope on one line:
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from builder.base.errors import BundleError, UsageError
from builder.base.escape import escape_invisible
from builder.base.records import parse_json
from builder.package.bundle import EVERY_BUNDLE
from builder.package.layer import EPOCH
from builder.package.provenance import BUILD_TYPE, JOIN_TYPE, PREDICATE_TYPE, STATEMENT, STATEMENT_TYPE
from builder.verify.quantise.precision import PrecisionChoice

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NEXT = "Do not deploy this bundle: fetch it again from whoever built it, or build it again."
"""End of a message about a bundle that differs from what was built."""

_LARGEST = 16 << 20  # In bytes: ten thousand files would need a tenth of it.
PAYLOAD_TYPE = "application/vnd.in-toto+json"


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


def sign_payload(payload: bytes, key: Path) -> str:
    """Return an envelope around ``payload`` with a signature of the private ``key``, a PEM file. Raises UsageError."""
    private = _load_private_key(key)
    signature = {
        "keyid": _key_id(private.public_key()),
        "sig": _encode_base64(private.sign(_pre_authentication(payload))),
    }
    envelope = {"payloadType": PAYLOAD_TYPE, "payload": _encode_base64(payload), "signatures": [signature]}
    return json.dumps(envelope) + "\n"


def open_envelope(text: str) -> tuple[bytes, dict[str, bytes]]:
    """Return the payload of an envelope and its signatures by their keys' names, unchecked. Raises ValueError."""
    try:
        envelope: dict[str, Any] = parse_json(text)
        if envelope["payloadType"] != PAYLOAD_TYPE:
            raise ValueError(f"its payload is of type {envelope['payloadType']!r}")
        signatures = {str(signature["keyid"]): _decode_base64(signature["sig"]) for signature in envelope["signatures"]}
        return _decode_base64(envelope["payload"]), signatures
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"it is no DSSE envelope ({type(error).__name__}: {error})") from error


def require_signature(payload: bytes, signatures: dict[str, bytes], key: Path) -> str:
    """Return the name of the public ``key`` (PEM). Raises UsageError, and BundleError if no signature is valid."""
    from cryptography.exceptions import InvalidSignature

    public = _load_public_key(key)
    for signature in signatures.values():  # The signature counts, whatever name its key has in the envelope.
        try:
            public.verify(signature, _pre_authentication(payload))
            return _key_id(public)
        except InvalidSignature:
            continue
    raise BundleError(f"none of its signatures is by {key.name} ({_key_id(public)[:16]}…)")


def _pre_authentication(payload: bytes) -> bytes:
    """Return the bytes that are signed: the type and the payload with their lengths."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def _load_private_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise _make_key_error(path, "private", error) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _make_key_error(path, "private", type(key).__name__)
    return key


def _load_public_key(path: Path) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _make_key_error(path, "public", error) from error
    if not isinstance(key, Ed25519PublicKey):
        raise _make_key_error(path, "public", type(key).__name__)
    return key


def _make_key_error(path: Path, kind: str, found: object) -> UsageError:
    make = "openssl genpkey -algorithm ed25519 -out private.pem; openssl pkey -in private.pem -pubout -out public.pem"
    return UsageError(f"{path} is no {kind} ed25519 key in PEM without a password ({found}). To make a pair: {make}")


def _key_id(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 (hex) of the key's own encoding (SubjectPublicKeyInfo)."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
