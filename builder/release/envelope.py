"""Signatures of statements: DSSE envelopes, signed with a plain ed25519 key.

Source: https://github.com/secure-systems-lab/dsse/blob/master/protocol.md. A file holds one envelope on one line.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.base.errors import BundleError, UsageError
from builder.base.records import parse_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"


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
