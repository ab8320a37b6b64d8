"""Clients of AWS services, with boto3 and the credentials that it finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from builder.base.commands import setup_command
from builder.base.errors import ColdforgeError, EnvironmentSetupError


def make_client(service: str, endpoint: str | None = None, *, attempts: int = 5, **settings: Any) -> Any:
    """Return a client of ``service`` that tries each call ``attempts`` times; ``settings``: of botocore's Config.

    Raises EnvironmentSetupError if boto3 or the region is missing.
    """
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise EnvironmentSetupError(
            f"AWS is asked with boto3, which is not installed here; `{setup_command()}` installs it."
        ) from None
    config = Config(retries={"mode": "standard", "total_max_attempts": attempts}, **settings)
    try:
        return boto3.session.Session().client(service, endpoint_url=endpoint, config=config)
    except BotoCoreError as error:  # The text may contain a secret.
        raise incomplete_settings(error) from None


def incomplete_settings(error: Exception) -> EnvironmentSetupError:
    """Return the error to raise if AWS cannot be called because of this machine's settings."""
    return EnvironmentSetupError(
        f"AWS cannot be asked: its settings here are incomplete ({type(error).__name__}). "
        "`aws sts get-caller-identity` has to work; AWS_PROFILE chooses other credentials."
    )


@contextmanager
def aws_errors(action: str, kind: type[ColdforgeError], advice: str = "") -> Iterator[None]:
    """Convert errors of boto3 in the block to a ``kind`` whose message names the failed ``action``."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (ClientError, BotoCoreError, Boto3Error) as error:
        raise kind(f"{action} failed: {error}{advice}") from error


def is_missing(error: BaseException | None) -> bool:
    """Return whether ``error`` is S3's for an object that does not exist."""
    return getattr(error, "response", {}).get("Error", {}).get("Code") in ("NoSuchKey", "404")
