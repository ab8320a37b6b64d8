"""Locations of objects in S3, and functions that read and write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import IO, Any

from builder.base.aws import aws_errors, is_missing
from builder.base.errors import BatchError, UsageError


@dataclass(frozen=True)
class S3Location:
    """A location in S3. ``key``: an object's key, or the beginning of several keys."""

    bucket: str
    key: str

    @classmethod
    def from_address(cls, address: str) -> S3Location:
        """Parse ``s3://bucket/key``. Raises UsageError."""
        bucket, _, key = address.removeprefix("s3://").partition("/")
        if not address.startswith("s3://") or not bucket:
            raise UsageError(f"{address} is no place in S3; write s3://bucket/prefix.")
        return cls(bucket, key)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def join_key(self, name: str) -> S3Location:
        """Return the location called ``name`` in this folder."""
        return S3Location(self.bucket, f"{self.key.rstrip('/')}/{name}".lstrip("/"))


def batch_errors(action: str) -> AbstractContextManager[None]:
    """Turn an error of boto3 in the block into a BatchError that says which ``action`` failed."""
    return aws_errors(action, BatchError)


@contextmanager
def open_object(place: S3Location, s3: Any) -> Iterator[Any]:
    """Yield the body of the object at ``place``. Raises BatchError, also for errors of reading it in the block."""
    with batch_errors(f"reading {place}"), closing(s3.get_object(Bucket=place.bucket, Key=place.key)["Body"]) as body:
        yield body


def read_object(place: S3Location, s3: Any) -> bytes | None:
    """Return the bytes of the object at ``place``; None where there is no object. Raises BatchError."""
    try:
        with open_object(place, s3) as body:
            data: bytes = body.read()
            return data
    except BatchError as error:
        if is_missing(error.__cause__):
            return None
        raise


def upload_file(file: IO[str], place: S3Location, s3: Any) -> None:
    """Upload the temporary ``file`` to ``place``, in pieces where it is large. Raises BatchError."""
    file.flush()
    data: Any = getattr(file, "buffer")  # noqa: B009  # the bytes below a text file
    data.seek(0)
    with batch_errors(f"writing {place}"):
        s3.upload_fileobj(data, place.bucket, place.key)
