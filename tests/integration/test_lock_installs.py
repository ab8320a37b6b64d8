"""pip finds a file for every pin of every lock file, on each Python that coldforge supports and this machine has.

uv, which writes the locks, ignores the upper bounds of Requires-Python; pip, which installs them, does not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.interpreters import SUPPORTED, find_python
from tests.support.locks import LOCKS, pins, together

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.slow]


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_pin_can_be_installed_from_nothing(version: str, tmp_path: Path) -> None:
    """``--dry-run`` installs nothing. It fetches metadata alone where both pip and the index can do so."""
    python = find_python(version)
    if python is None:
        pytest.skip(f"NOTHING IS RESOLVED: there is no Python {version}")
    allowed: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, _, hashes in pins(lock):
            allowed.setdefault(name, set()).update(hashes)
    for number, requirements in enumerate(together(LOCKS)):
        wanted, report = tmp_path / f"{number}.txt", tmp_path / f"{number}.json"
        wanted.write_text("\n".join(requirements))
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--dry-run", "--no-deps"]
        command += ["--ignore-installed", "--report", str(report), "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
        assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if "ERROR" in line)
        for found in json.loads(report.read_text())["install"]:
            name = found["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
            assert found["download_info"]["archive_info"]["hashes"]["sha256"] in allowed[name], name
