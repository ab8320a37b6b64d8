"""What scripts of cases print of them, and the folder that they leave files in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory


def report_agreement(same: Mapping[str, bool]) -> None:
    """Print the names of the cases that do not agree, and then how many do."""
    for name, agrees in same.items():
        if not agrees:
            print(f"{name} differs")
    print(f"{sum(same.values())} of {len(same)} agree")


def run_in_folder(run_cases: Callable[[Path], None]) -> None:
    """Call ``run_cases`` with the folder that the command names, or with one that is deleted afterwards."""
    if len(sys.argv) > 1:
        run_cases(Path(sys.argv[1]))
        return
    with TemporaryDirectory() as scratch:
        run_cases(Path(scratch))
