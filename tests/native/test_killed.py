"""Deliveries that are killed, interrupted or refused by the disk at every one of their file operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import faults
from tests.support.deliveries import DELIVERIES


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faults.build(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("name", DELIVERIES)
def test_old_or_new_and_the_run_after_is_right(name: str, library: Path, tmp_path: Path) -> None:
    counts = faults.stop_everywhere(library, name, tmp_path)
    assert min(counts.values()) >= 5, counts
