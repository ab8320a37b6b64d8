"""The machine that something was measured on, for readers of the figures."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def cpu_name() -> str:
    """Return the processor's name."""
    try:
        match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else platform.machine()
