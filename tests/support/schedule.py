"""Send each group of tests to one process of pytest-xdist.

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


def group_of(item: pytest.Item) -> str:
    """The group that the test is marked with."""
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    return str(marker.args[0])


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
