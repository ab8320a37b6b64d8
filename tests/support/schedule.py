"""Mark each test with its group, and send the tests of a group to one process of pytest-xdist, in their order.

This is what xdist's own ``--dist loadgroup`` does, but its version 3.8 writes the groups into the tests' names, which
pytest 9.2 no longer lets it change. Here the first process to have collected the tests writes the groups to a file.
"""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

BUILT_IN_THE_CHECKOUT = {"digits", "emotion", "languages"}
"""Fixtures that share dist/, build/ and the active layer of this checkout with the tests of the group "checkout"."""


def mark(item: pytest.Item) -> None:
    """Mark the test as ``full`` where only ``make test-all`` runs it, and with a group where it has none."""
    folder = Path(item.nodeid).parts[1]
    if folder in ("integration", "e2e") and item.get_closest_marker("quick") is None:
        item.add_marker(pytest.mark.full)
    if item.get_closest_marker("xdist_group") is None:
        in_the_checkout = folder == "e2e" or BUILT_IN_THE_CHECKOUT & set(getattr(item, "fixturenames", ()))
        item.add_marker(pytest.mark.xdist_group("checkout" if in_the_checkout else item.nodeid.partition("::")[0]))


def group_of(item: pytest.Item) -> str:
    """Return the group that the test is marked with."""
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    return str(marker.args[0])


def rank(item: pytest.Item) -> int:
    """Return where the group of the test stands: the longest groups first, so that none is left alone at the end."""
    group = group_of(item)
    firsts = ("checkout", "fuzz", "sanitized", "tests/integration", "zoo")
    return next((place for place, start in enumerate(firsts) if group.startswith(start)), len(firsts))


def write_groups(path: Path, items: list[pytest.Item]) -> None:
    """Every test and its group. Processes that collected the same tests write the same."""
    own = path.with_name(f"{path.name}.{os.getpid()}")
    own.write_text(json.dumps({item.nodeid: group_of(item) for item in items}))
    own.replace(path)


class GroupScheduling(LoadScopeScheduling):
    """Groups go to the processes in the order of the collected tests."""

    def __init__(self, config: pytest.Config, log: Any, path: Path) -> None:
        super().__init__(config, log)
        self._path = path

    @cached_property
    def _groups(self) -> dict[str, str]:
        groups: dict[str, str] = json.loads(self._path.read_text())
        return groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]
