"""coldforge installed from its wheel, without its checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

OFFLINE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
    "PIP_RETRIES": "0",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "",
}
"""The environment of a machine whose package indexes and other servers don't answer."""


@dataclass(frozen=True)
class Installed:
    """``wheel``: the names in it; ``packages``: where it is installed; ``command``: coldforge."""

    wheel: tuple[str, ...]
    packages: Path
    command: Path

    def run(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([self.command, *arguments], env=clean(), capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done


def clean(**more: str) -> dict[str, str]:
    """The environment of somebody who has no checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more


def install(folder: Path) -> Installed:
    """Make the wheel and install it in an environment of its own in ``folder``.

    The packages are those of this environment, which the wheel's installation would fetch.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    building = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(building, env=clean(), check=True)
    (wheel,) = folder.glob("coldforge-*.whl")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], env=clean(), check=True)
    packages = folder / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with zipfile.ZipFile(wheel) as archive:
        return Installed(tuple(archive.namelist()), packages, python.with_name("coldforge"))
