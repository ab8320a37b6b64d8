"""Where things are in S3, and AWS's clients, whose errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from builder.commands import setup_command
from builder.errors import BatchError, EnvironmentSetupError, UsageError


@dataclass(frozen=True)
class Place:
    """``key``: of an object, or what keys begin with."""

    bucket: str
    key: str

    @classmethod
    def of(cls, address: str) -> Place:
        """The place at ``s3://bucket/key``. Raises UsageError."""
        bucket, _, key = address.removeprefix("s3://").partition("/")
        if not address.startswith("s3://") or not bucket:
            raise UsageError(f"{address} is no place in S3; write s3://bucket/prefix.")
        return cls(bucket, key)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def below(self, name: str) -> Place:
        """``name`` in this folder."""
        return Place(self.bucket, f"{self.key.rstrip('/')}/{name}".lstrip("/"))


def client(service: str, endpoint: str | None = None) -> Any:
    """A client of AWS. Raises EnvironmentSetupError where boto3 or the region is missing."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise EnvironmentSetupError(
            f"AWS is asked with boto3, which is not installed here; `{setup_command()}` installs it."
        ) from None
    try:
        retries = {"mode": "standard", "total_max_attempts": 5}
        return boto3.session.Session().client(service, endpoint_url=endpoint, config=Config(retries=retries))
    except BotoCoreError as error:
        raise EnvironmentSetupError(
            f"AWS cannot be asked: {error}. `aws sts get-caller-identity` has to work."
        ) from None


@contextmanager
def asking(doing: str) -> Iterator[None]:
    """What boto3 raises becomes a BatchError that says what was being done."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (ClientError, BotoCoreError, Boto3Error) as error:
        raise BatchError(f"{doing} failed: {error}") from error


def upload(file: IO[str], place: Place, s3: Any) -> None:
    """Put what was written to ``file``, a temporary one, at ``place``; in pieces where it is large. Raises
    BatchError.
    """
    file.flush()
    data: Any = getattr(file, "buffer")  # noqa: B009  # the bytes below a text file
    data.seek(0)
    with asking(f"writing {place}"):
        s3.upload_fileobj(data, place.bucket, place.key)
