"""Objects in S3: images that events and requests name, and results where nobody waits for them.

boto3 is imported with the first object, so a function that never uses one does not pay for it (about 600 ms).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import (
    KeyTooLongError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TooLargeError,
    library_errors,
)
from .typed import Any

RESULTS = "COLDFORGE_RESULTS"
"""The variable with the place of results: ``s3://bucket`` or ``s3://bucket/prefix/``."""

LONGEST_KEY = 1024
"""Bytes of UTF-8 in a key that S3 accepts."""

ATTEMPTS = 3
_clients: dict[int, Any] = {}
_lock = threading.Lock()  # threads may share clients, but must not create them at the same time


@dataclass(frozen=True)
class S3Object:
    """An object in S3. ``key``: not URL-encoded. ``etag``: without quotes; an object with another one is not read."""

    bucket: str
    key: str
    version: str | None = None
    etag: str | None = None

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key[:200]}"


@library_errors()
def read_object(source: S3Object, limit: int, seconds: float) -> tuple[bytes, str]:
    """Return the object's bytes and its ETag, without quotes.

    Raises TooLargeError over ``limit`` bytes, and as ``open_object`` does.
    """
    with open_object(source, seconds) as answer:
        if answer["ContentLength"] > limit:
            raise TooLargeError(f"{source} has {answer['ContentLength']:,} bytes; at most {limit:,} are allowed")
        return answer["Body"].read(), answer.get("ETag", "").strip('"')


@contextmanager
def open_object(source: S3Object, seconds: float) -> Iterator[dict[str, Any]]:
    """Return a context with S3's answer and the object's open body. ``seconds``: see ``get_client``.

    Raises ObjectNotFoundError, ObjectChangedError and StorageUnavailableError, the last also during reading.
    """
    from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

    if not _is_key(source.key):
        raise ObjectNotFoundError(f"{source} does not exist: no key in S3 has this length or these characters")
    version = {"VersionId": source.version} if source.version else {}
    match = {"IfMatch": f'"{source.etag}"'} if source.etag else {}
    try:
        answer = get_client(seconds).get_object(Bucket=source.bucket, Key=source.key, **version, **match)
        with answer["Body"]:
            yield answer
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
        if status == 412:
            raise ObjectChangedError(f"{source} has other bytes now than when it was listed") from error
        if status >= 500:
            raise StorageUnavailableError(f"S3 did not deliver {source}; try again") from error
        raise ObjectNotFoundError(f"{source} does not exist, or the function's role may not read it") from error
    except ParamValidationError as error:  # a subclass of BotoCoreError, so it is caught first
        raise ObjectNotFoundError(f"{source} does not exist: S3 has no such buckets or keys") from error
    except (BotoCoreError, OSError) as error:  # no connection, no credentials, or a body that broke off
        raise StorageUnavailableError(f"S3 did not deliver {source}; try again") from error


def find_results_location() -> tuple[str, str] | None:
    """Return the bucket and the prefix that results are written to; None where they are only logged."""
    place = os.environ.get(RESULTS, "").removeprefix("s3://")
    bucket, _, prefix = place.partition("/")
    return (bucket, prefix) if bucket else None


def is_result(source: S3Object) -> bool:
    """Return whether the object lies where results are written."""
    place = find_results_location()
    return place is not None and source.bucket == place[0] and source.key.startswith(place[1])


def locate_result(name: str) -> S3Object | None:
    """Return the object for the result ``name``: prefix, name and ``.json``; None where results are not kept.

    Raises KeyTooLongError.
    """
    place = find_results_location()
    if place is None:
        return None
    target = S3Object(place[0], f"{place[1]}{name}.json")
    if not _is_key(target.key):
        raise KeyTooLongError(f"the result's key would have more than {LONGEST_KEY:,} bytes: {target}")
    return target


@library_errors()
def write_object(target: S3Object, text: str, seconds: float) -> None:
    """Write ``text``, which is JSON, to ``target``. ``seconds``: see ``get_client``. Raises StorageUnavailableError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        get_client(seconds).put_object(
            Bucket=target.bucket, Key=target.key, Body=text.encode(), ContentType="application/json; charset=utf-8"
        )
    except (ClientError, BotoCoreError, OSError) as error:
        raise StorageUnavailableError(f"S3 did not store {target}; the result is in the log") from error


def _is_key(key: str) -> bool:
    """Return whether S3 accepts such a key."""
    try:
        return 0 < len(key.encode()) <= LONGEST_KEY
    except UnicodeEncodeError:  # half a surrogate pair, which JSON's escapes can express
        return False


def forget_state() -> None:
    """Close every client, with its connections and credentials; the next call creates another."""
    with _lock:
        while _clients:
            _clients.popitem()[1].close()


def get_client(seconds: float) -> Any:
    """Return a client whose attempts end in about ``seconds`` if S3 is silent; one of four, created on demand."""
    each = 1 << min(max(int(seconds / ATTEMPTS).bit_length() - 1, 0), 3)
    with _lock:
        if each not in _clients:
            from .powertools import announce_powertools

            announce_powertools()
            import boto3
            from botocore.config import Config

            retries = {"mode": "standard", "total_max_attempts": ATTEMPTS}
            _clients[each] = boto3.client("s3", config=Config(connect_timeout=each, read_timeout=each, retries=retries))
    return _clients[each]
