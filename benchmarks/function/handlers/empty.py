"""A function that does nothing, to measure Python's start and Lambda's runtime client."""

from __future__ import annotations


def lambda_handler(event: object, context: object) -> dict[str, bool]:
    return {"ok": True}
