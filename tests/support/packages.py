"""Packages of Lambda's own runtime, for a function that runs here."""

from __future__ import annotations

from pathlib import Path

LAMBDA_HAS = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six.py")


def linked(folder: Path) -> Path:
    """A folder that has boto3 and what it needs, to be on the function's path."""
    import boto3

    folder.mkdir()
    site = Path(boto3.__file__).parents[1]
    for name in LAMBDA_HAS:
        if (site / name).exists():
            (folder / name).symlink_to(site / name)
    return folder
