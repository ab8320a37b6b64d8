"""Every architecture of keras.applications, at the size that it was published for, with seeded weights."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import keras

from tests.conformance.case import Case

GROUP = "keras.applications"


def cases() -> list[Case]:
    return [Case(GROUP, name, partial(_make, name)) for name in sorted(dir(keras.applications)) if _is_one(name)]


def _is_one(name: str) -> bool:
    return name[0].isupper() and inspect.isfunction(getattr(keras.applications, name))


def _make(name: str) -> Any:
    return getattr(keras.applications, name)(weights=None)
