"""The lists, by name, and the sample of them that belongs to a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date

from tests.conformance import applications, frameworks, keras2, layers
from tests.conformance.case import Case
from tests.support.days import share

GROUPS: Mapping[str, Callable[[], list[Case]]] = {
    layers.GROUP: layers.cases,
    applications.GROUP: applications.cases,
    keras2.GROUP: keras2.cases,
    frameworks.PYTORCH: frameworks.pytorch,
    frameworks.JAX: frameworks.jax,
}

DAYS = 28
"""In which every case of Keras is in a sample once."""


def sample(day: date) -> list[Case]:
    """What belongs to ``day``, of the lists of Keras."""
    return [case for cases in (layers.cases, applications.cases) for case in share(cases(), DAYS, day)]
