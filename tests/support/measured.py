"""Processes of their own under ``make coverage``."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """What a process without this one's environment must have, so that coverage.py counts there too."""
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
