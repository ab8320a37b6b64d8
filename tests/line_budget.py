"""Print the lines of each package beside its budget: ``python -m tests.line_budget``; fail above a maximum.

``budget.toml`` has the maxima. Counted are the lines of tracked source files, tests' data not included.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from builder.base.console_tables import format_table

ROOT = Path(__file__).parents[1]
SUFFIXES = (".py", ".c", ".h", ".inc", ".js", ".mjs", ".in", ".yaml", ".md")


def count_lines(packages: list[str], revision: str | None = None) -> Counter[str]:
    """Return the lines of each of ``packages``, folders and files, in the working tree or at a ``revision``."""
    command = ["git", "grep", "--cached", "-c", "", *([revision] if revision else []), "--", *packages]
    if revision:
        command.remove("--cached")
    lines: Counter[str] = Counter()
    for row in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines():
        path, _, count = row.removeprefix(f"{revision}:").rpartition(":")
        package = max((name for name in packages if f"{path}/".startswith(f"{name}/")), key=len)
        if path == package or path.endswith(SUFFIXES):
            lines[package] += int(count)
    return lines


def find_last_tag() -> str | None:
    """Return the last tag before HEAD, or None without one."""
    command = ["git", "describe", "--tags", "--abbrev=0"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or None


def main() -> int:
    """Print the table; return 1 if a package has more lines than its budget allows."""
    budget: dict[str, int] = tomllib.loads((ROOT / "budget.toml").read_text(encoding="utf-8"))["lines"]
    tag = find_last_tag()
    now, before = count_lines([*budget]), count_lines([*budget], tag) if tag else Counter[str]()
    rows = [
        (
            name,
            f"{now[name]:,}",
            f"{most:,}",
            f"{now[name] - before[name]:+,}" if tag else "",
            "OVER" * (now[name] > most),
        )
        for name, most in budget.items()
    ]
    print(format_table(("package", "lines", "budget", f"since {tag}" if tag else "", ""), rows, right=(1, 2, 3)))
    over = [name for name, most in budget.items() if now[name] > most]
    if over:
        print(f"over budget: {', '.join(over)}. Delete lines, or raise the number in budget.toml for review.")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
