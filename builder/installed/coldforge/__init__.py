"""coldforge as pip installs it: the command, and in ``home`` all the files of a checkout that it needs.

``builder`` and ``handler`` are not packages of their own in site-packages: they are found below ``home``, and only by
this command. In a checkout there is no ``home``, and they are found at the top.
"""

from __future__ import annotations

import sys
from pathlib import Path

HOME = Path(__file__).resolve().with_name("home")


def main() -> int:
    """Run one command and return its exit code."""
    if HOME.is_dir():
        sys.path.insert(0, str(HOME))
    from builder.cli import main as run

    return run()
