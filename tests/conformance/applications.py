"""Every architecture of keras.applications, at the size that it was published for, with seeded weights."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import keras

from tests.conformance.case import Case

GROUP = "keras.applications"

SIDE = 224
"""Pixels, where the network takes any size."""


def cases() -> list[Case]:
    return [Case(GROUP, name, partial(_make, name)) for name in sorted(dir(keras.applications)) if _is_one(name)]


def _is_one(name: str) -> bool:
    return name[0].isupper() and inspect.isfunction(getattr(keras.applications, name))


def _make(name: str) -> Any:
    constructor = getattr(keras.applications, name)
    network = constructor(weights=None)
    if None in network.input_shape[1:]:
        network = constructor(weights=None, input_shape=(SIDE, SIDE, 3))
    return network
