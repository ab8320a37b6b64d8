"""Install the function's packages into a folder and take out what it never loads.

    python build.py FOLDER [--python-version 3.13] [--target arm64]

Standalone: only the standard library, and any Python 3.11+ with pip. The packages are wheels of
requirements.txt, hash-checked, for Linux on x86_64 or arm64 and the named Python, which need not be the one that
runs this. Each package's ``*.dist-info/wheel.json`` says which wheel it came from. Bytecode is written if the named
Python can be found: in Lambda the folder is read-only, so modules without it are compiled again at every start. It
is never checked against the sources (unchecked hash) and holds no times or paths of this machine: the same input
gives the same bytes. What debuggers read of the libraries goes, too.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import elf

HERE = Path(__file__).parent
MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}
"""Lambda's names of architectures to those of wheels."""
IN_LAMBDA = "/opt/python"

# What stays of Powertools. Another part of it (event_handler, batch, ...) is had by adding its folder.
POWERTOOLS = {"exceptions", "logging", "metrics", "shared", "tracing", "utilities", "warnings"}
UTILITIES = {"jmespath_utils"}  # Logger imports it
# Of Pillow: what decodes JPEG, PNG, WebP, GIF and BMP, reads EXIF (a TIFF inside), resizes and computes.
PIL_MODULES = {
    "__init__", "_binary", "_deprecate", "_typing", "_util", "_version", "BmpImagePlugin", "ExifTags",
    "GifImagePlugin", "GimpGradientFile", "GimpPaletteFile", "Image", "ImageChops", "ImageColor", "ImageFile",
    "ImageFilter", "ImageMath", "ImageMode", "ImageOps", "ImagePalette", "ImageSequence", "JpegImagePlugin",
    "JpegPresets", "MpoImagePlugin", "PaletteFile", "PngImagePlugin", "TiffImagePlugin", "TiffTags", "WebPImagePlugin",
}  # fmt: skip
PIL_EXTENSIONS = {"_imaging", "_imagingmath", "_webp"}
# _imaging is linked with libraries for formats that the function refuses: it does not load without them. What takes
# their place has the same functions, each of which fails (returns 0) or says that its version is "none".
STAND_INS = ("libtiff", "libopenjp2", "libxcb")
VERSIONS = {"TIFFGetVersion": "none", "opj_version": "none"}  # called when _imaging is loaded
WORTH = 0.95  # of its size, what is left of a library that is stripped
# cffi's out-of-line ABI mode needs only _cffi_backend, so the parser and what that needs go.
DROPPED = ("cffi", "pycparser", "pycparser-*", "bin", "__pycache__")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="x86_64", choices=sorted(MACHINES))
    parser.add_argument("--python-version", default="3.13")
    parser.add_argument("--python", help="the interpreter that writes the bytecode")
    options = parser.parse_args()
    try:
        report = install(options.folder, options.python_version, MACHINES[options.target])
    except subprocess.CalledProcessError as error:  # pip has said why
        return int(error.returncode)
    stand_ins = trim(options.folder)
    name_wheels(options.folder, report, stand_ins, strip(options.folder, stand_ins))
    record_what_stays(options.folder)
    if not compile_all(options.folder, options.python_version, options.python):
        print(
            f"no python{options.python_version} here: the layer goes without bytecode, and cold starts take longer",
            file=sys.stderr,
        )
    return 0


def install(target: Path, version: str, machine: str) -> dict[str, Any]:
    """Exactly the locked wheels, without their bytecode; pip's report of them. Raises CalledProcessError."""
    digits = version.replace(".", "")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input",
            "--require-hashes", "--no-deps", "--no-compile", "--only-binary=:all:", "--implementation", "cp",
            "--platform", f"manylinux2014_{machine}", "--platform", f"manylinux_2_28_{machine}",
            "--python-version", version, "--abi", f"cp{digits}", "--abi", "abi3", "--abi", "none",
            "--target", str(target), "-r", str(HERE / "requirements.txt"), "--report", str(report),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return found


def name_wheels(target: Path, report: dict[str, Any], stand_ins: list[str], stripped: dict[str, str]) -> None:
    """Leave in each package's ``*.dist-info`` the name and SHA-256 of its wheel, of pip's ``report``.

    Packages that were dropped have none. ``stand_ins``: the files that took the place of a wheel's own. ``stripped``:
    those that ``strip`` made smaller, with the SHA-256 that they have now.
    """
    for package in report["install"]:
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        origin = package["download_info"]
        wheel = {
            "file": unquote(urlsplit(origin["url"]).path.rpartition("/")[2]),
            "sha256": origin["archive_info"]["hashes"]["sha256"],
        }
        plain = re.sub(r"[-_.]+", "_", name).lower()
        if mine := [file for file in stand_ins if file.startswith(f"{plain}.libs/")]:
            wheel["stand_ins"] = mine
        owned = _recorded(target, f"{plain}-{version}.dist-info")
        if changed := {file: digest for file, digest in stripped.items() if file in owned}:
            wheel["stripped"] = changed
        folder = target / f"{plain}-{version}.dist-info"
        if folder.is_dir():
            (folder / "wheel.json").write_text(json.dumps(wheel, indent=2) + "\n", encoding="utf-8")


def strip(target: Path, stand_ins: list[str]) -> dict[str, str]:
    """Take out of each library what only debuggers read, a third of the layer: names to the SHA-256 of what is left."""
    found = {}
    for path in sorted(path for path in target.rglob("*") if ".so" in path.suffixes):
        name = path.relative_to(target).as_posix()
        if name not in stand_ins:
            data = elf.stripped(path.read_bytes())
            if len(data) < WORTH * path.stat().st_size:  # or it stays as its wheel has it
                path.write_bytes(data)
                found[name] = hashlib.sha256(data).hexdigest()
    return found


def _recorded(target: Path, info: str) -> set[str]:
    """The files of a package, by its RECORD; none where it was dropped."""
    record = target / info / "RECORD"
    lines = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    return {row[0] for row in csv.reader(lines)}


def record_what_stays(target: Path) -> None:
    """Leave in each RECORD the files that are there. The others include commands, whose first line, and with it their
    hash and size, has the path of the Python that ran pip."""
    for record in target.glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if _is_below(next(csv.reader([line]))[0], target)]
        record.write_text("".join(kept), encoding="utf-8")


def _is_below(name: str, target: Path) -> bool:
    return not name.startswith("../") and (target / name).is_file()


def trim(target: Path) -> list[str]:
    """Delete what the handler never loads, and return which files are stand-ins now; ``*.dist-info`` stays."""
    for pattern in DROPPED:
        for path in list(target.glob(pattern)):
            _delete(path)
    powertools = target / "aws_lambda_powertools"
    _keep(powertools, POWERTOOLS)
    _keep(powertools / "utilities", UTILITIES)
    pil = target / "PIL"
    for path in pil.iterdir():
        if path.name.split(".")[0] not in (PIL_EXTENSIONS if path.suffix == ".so" else PIL_MODULES):
            _delete(path)
    for pattern in ("*.pyi", "py.typed"):
        for path in list(target.rglob(pattern)):
            path.unlink()
    libraries = sorted((target / "pillow.libs").iterdir())
    extensions = list(pil.glob("*.so"))
    replaced = [path for path in libraries if path.name.startswith(tuple(f"{name}-" for name in STAND_INS))]
    for path in replaced:
        replace(path, extensions)
    needed = reached(extensions, libraries)
    for path in libraries:
        if path.name not in needed:
            path.unlink()
    return [path.relative_to(target).as_posix() for path in replaced]


def replace(path: Path, users: Iterable[Path]) -> None:
    """Put a stand-in into the place of the library ``path``. Raises ElfError where ``users`` want more of it than
    functions."""
    library = elf.Library(path.read_bytes())
    offered = {symbol.name: symbol for symbol in library.symbols() if symbol.defined}
    wanted = {s.name for user in users for s in elf.Library(user.read_bytes()).symbols() if not s.defined}
    for name in wanted & offered.keys():
        if not offered[name].function:
            raise elf.ElfError(f"{name} of {path.name} is data, and a stand-in has only functions")
    versions = {name: offered[name].version for name in wanted & offered.keys()}
    path.write_bytes(elf.stand_in(library, versions, {n: t for n, t in VERSIONS.items() if n in versions}))


def reached(users: Iterable[Path], libraries: Iterable[Path]) -> set[str]:
    """Names of those ``libraries`` that the loader loads for ``users``, directly or not."""
    there = {path.name: path for path in libraries}
    found: set[str] = set()
    todo = list(users)
    while todo:
        names = {name for name in elf.Library(todo.pop().read_bytes()).needed if name in there} - found
        found |= names
        todo += [there[name] for name in names]
    return found


def _keep(package: Path, folders: set[str]) -> None:
    for path in package.iterdir():
        if path.is_dir() and path.name not in folders:
            _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def compile_all(target: Path, version: str, python: str | None) -> bool:
    """Write bytecode beside every module; False if no Python ``version`` can be found."""
    check = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for name in filter(None, (python, sys.executable, *_installed(version))):
        try:
            matches = subprocess.run([name, "-c", check], capture_output=True, check=False).returncode == 0
        except OSError:
            continue
        if matches:
            # -I: modules from a PYTHONPATH that the compiler loads change which constants it shares.
            command = [name, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
            subprocess.run([*command, "-s", str(target), "-p", IN_LAMBDA, str(target)], check=True)
            return True
    return False


def _installed(version: str) -> list[str]:
    """Where a Python may be: on PATH, then what pyenv and uv have installed."""
    found = shutil.which(f"python{version}")
    homes = [
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python")),
    ]
    kept = [str(p) for home in homes for p in sorted(home.glob(f"*{version}*/bin/python{version}"), reverse=True)]
    return ([found] if found else []) + kept


if __name__ == "__main__":
    sys.exit(main())
