"""Install the function's packages into a folder and take out what it never loads.

    python build.py FOLDER [--python-version 3.13] [--target arm64]

Standalone: only the standard library, and any Python 3.11+ with pip. The packages are wheels of
requirements.txt, hash-checked, for Linux on x86_64 or arm64 and the named Python, which need not be the one that
runs this. Bytecode is written if the named Python can be found: in Lambda the folder is read-only, so
modules without it are compiled again at every start. It is never checked against the sources (unchecked
hash) and holds no times or paths of this machine: the same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}
"""Lambda's names of architectures to those of wheels."""
IN_LAMBDA = "/opt/python"

# What stays of Powertools. Another part of it (event_handler, batch, ...) is had by adding its folder.
POWERTOOLS = {"exceptions", "logging", "metrics", "shared", "tracing", "utilities", "warnings"}
UTILITIES = {"jmespath_utils"}  # Logger imports it
# Of Pillow: what decodes JPEG, PNG, WebP, GIF and BMP, reads EXIF, resizes and computes.
PIL_PLUGINS = {"Bmp", "Gif", "Jpeg", "Mpo", "Png", "Tiff", "WebP"}  # Tiff: EXIF is a TIFF inside
PIL_EXTENSIONS = {"_imaging", "_imagingmath", "_webp"}
# Shared libraries that only the dropped extensions need.
PIL_LIBRARIES = ("libavif", "libfreetype", "libharfbuzz", "libbrotli", "liblcms2", "libpng")
# cffi's out-of-line ABI mode needs only _cffi_backend, so the parser and what that needs go.
DROPPED = ("cffi", "pycparser", "pycparser-*", "bin", "__pycache__")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="x86_64", choices=sorted(MACHINES))
    parser.add_argument("--python-version", default="3.13")
    parser.add_argument("--python", help="the interpreter that writes the bytecode")
    options = parser.parse_args()
    install(options.folder, options.python_version, MACHINES[options.target])
    trim(options.folder)
    if not compile_all(options.folder, options.python_version, options.python):
        print(
            f"no python{options.python_version} here: the layer goes without bytecode, and cold starts take longer",
            file=sys.stderr,
        )
    return 0


def install(target: Path, version: str, machine: str) -> None:
    """Exactly the locked wheels, without their bytecode. Raises CalledProcessError."""
    digits = version.replace(".", "")
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
        "--require-hashes", "--no-deps", "--no-compile", "--only-binary=:all:", "--implementation", "cp",
        "--platform", f"manylinux2014_{machine}", "--platform", f"manylinux_2_28_{machine}",
        "--python-version", version, "--abi", f"cp{digits}", "--abi", "abi3", "--abi", "none",
        "--target", str(target), "-r", str(HERE / "requirements.txt"),
    ]  # fmt: skip
    subprocess.run(command, check=True)


def trim(target: Path) -> None:
    """Delete what the handler never loads; the licences in ``*.dist-info`` stay."""
    for pattern in DROPPED:
        for path in list(target.glob(pattern)):
            _delete(path)
    powertools = target / "aws_lambda_powertools"
    _keep(powertools, POWERTOOLS)
    _keep(powertools / "utilities", UTILITIES)
    pil = target / "PIL"
    for path in pil.glob("*ImagePlugin.py"):
        if path.name.removesuffix("ImagePlugin.py") not in PIL_PLUGINS:
            path.unlink()
    for path in pil.glob("*.so"):
        if path.name.split(".")[0] not in PIL_EXTENSIONS:
            path.unlink()
    for pattern in ("*.pyi", "py.typed"):
        for path in list(target.rglob(pattern)):
            path.unlink()
    for prefix in PIL_LIBRARIES:
        for path in list((target / "pillow.libs").glob(f"{prefix}*")):
            path.unlink()


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
            command = [name, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
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
