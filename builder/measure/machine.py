"""The machine that something was measured on, for whoever reads the figures."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def cpu_name() -> str:
    """The processor's name."""
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.machine()
