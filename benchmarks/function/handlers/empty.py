"""A function that does nothing: what Python's start and Lambda's runtime client take."""

from __future__ import annotations


def lambda_handler(event: object, context: object) -> dict[str, bool]:
    return {"ok": True}
