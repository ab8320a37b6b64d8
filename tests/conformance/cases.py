"""The lists, by name, and the sample of them that belongs to a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date

from tests.conformance import applications, layers
from tests.conformance.case import Case
from tests.support.days import share

GROUPS: Mapping[str, Callable[[], list[Case]]] = {
    layers.GROUP: layers.cases,
    applications.GROUP: applications.cases,
}

DAYS = 28
"""In which every case is in a sample once."""


def sample(day: date) -> list[Case]:
    """What of each list belongs to ``day``."""
    return [case for cases in GROUPS.values() for case in share(cases(), DAYS, day)]
