"""What is too long for every run: a share of it each day, so that all of it runs in a few days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TypeVar

T = TypeVar("T")


def today() -> date:
    """By universal time, so that it is the same day wherever the tests run."""
    return datetime.now(UTC).date()


def share(items: Sequence[T], days: int, day: date) -> list[T]:
    """Those of ``items`` that belong to ``day``; each belongs to one of any ``days`` days in a row."""
    return [item for number, item in enumerate(items) if number % days == day.toordinal() % days]
