"""Environments of locked packages for the models of other frameworks, made when first needed.

Each has a folder of its own in the cache that all projects share, named by its lock and its Python. A build never loads
such a framework itself.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten

from builder.base.cache import compute_digest, run_cached
from builder.base.errors import EnvironmentSetupError
from builder.base.project import HOME, cache_folder
from builder.base.sandbox import Sandbox
from builder.base.sandbox.sandbox_client import ServerSettings
from builder.config import Format

_JOBS = "builder.importers.frameworks.framework_jobs"
_VARIABLES = (
    ("JAX_PLATFORMS", "cpu"),
    ("JAX_ENABLE_X64", "1"),  # Otherwise 64-bit integers and doubles are cut to 32 bits.
    ("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false"),  # The order of sums must not depend on the processors.
    ("KERAS_BACKEND", "jax"),
    ("OMP_NUM_THREADS", "1"),
    ("HF_HUB_OFFLINE", "1"),
    ("TOKENIZERS_PARALLELISM", "false"),  # Processes are forked.
    ("PYTHONWARNINGS", "ignore"),  # The frameworks' own code causes deprecation warnings.
)


@dataclass(frozen=True)
class Framework:
    """The ``lock`` of a framework's packages, in requirements/, and the ``size`` of their download.

    ``preloaded``: modules that its processes load once. ``links``: a page with further wheels.
    """

    name: str
    lock: str
    size: str
    preloaded: tuple[str, ...]
    links: str | None = None


def _make_framework(name: str, lock: str, size: str, reader: str, links: str | None = None) -> Framework:
    """Return a framework whose processes load the module ``reader`` of this package."""
    package = __name__.rpartition(".")[0]
    return Framework(name, lock, size, (_JOBS, f"{package}.{reader}", f"{package}.jax_program"), links)


_EXCHANGE = ("exchange.txt", "about 250 MB")
"""The environment of formats that are files alone: their readers need NumPy and JAX, and their frameworks answer."""

_TORCH = ("PyTorch", "torch.txt", "about 450 MB")
_TORCH_WHEELS = "https://download.pytorch.org/whl/cpu/torch/"

FRAMEWORKS: Mapping[Format, Framework] = {
    "jax": _make_framework("JAX", "jax.txt", "about 140 MB", "jax_model"),
    "keras_hub": _make_framework("KerasHub", "keras-hub.txt", "about 190 MB", "keras_hub_model"),
    "onnx": _make_framework("ONNX", *_EXCHANGE, "onnx.onnx_model"),
    "tflite": _make_framework("LiteRT", *_EXCHANGE, "tflite.tflite_model"),
    "xgboost": _make_framework("XGBoost", *_EXCHANGE, "tree_model"),
    "lightgbm": _make_framework("LightGBM", *_EXCHANGE, "tree_model"),
    "sklearn": _make_framework("scikit-learn", *_EXCHANGE, "sklearn_model"),
    "pytorch": _make_framework(*_TORCH, "torch_model", _TORCH_WHEELS),
    "transformers": _make_framework(*_TORCH, "transformers_model", _TORCH_WHEELS),
}
"""The framework of each format that TensorFlow does not read."""


def framework_sandbox(sandbox: Sandbox, form: Format, say: Callable[[str], None]) -> Sandbox:
    """Return ``sandbox`` for processes of the framework that reads ``form``; its environment is made if it is missing.

    ``say`` is called with the progress. Raises EnvironmentSetupError if it cannot be made.
    """
    framework = FRAMEWORKS[form]
    folder = ensure_environment(framework, say)
    remedy = f"delete {folder}, and it is made anew"
    loads = ServerSettings(framework.name, folder / "bin" / "python", _VARIABLES, remedy)
    return replace(sandbox, preloaded=framework.preloaded, loads=loads)


def ensure_environment(framework: Framework, say: Callable[[str], None]) -> Path:
    """Return the folder of the framework's virtual environment, which is made if it is missing."""
    lock = HOME / "requirements" / framework.lock
    key = compute_digest(str(Path(sys.executable).resolve()), ".".join(map(str, sys.version_info[:2])), lock)
    folder = cache_folder() / "frameworks" / f"{lock.stem}-{key[:12]}"
    run_cached(folder, key, functools.partial(_make_environment, framework, lock, say), say)
    return folder


def _make_environment(framework: Framework, lock: Path, say: Callable[[str], None], folder: Path) -> None:
    say(f"setting up {framework.name} in an environment of its own (once; {framework.size} to fetch, minutes)")
    _run_command(framework, [sys.executable, "-m", "venv", str(folder)], say)
    install = ["-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off"]
    locked = ["--no-deps", "--require-hashes", "-r", str(lock)]
    links = ["--find-links", framework.links] if framework.links else []
    _run_command(framework, [str(folder / "bin" / "python"), *install, *links, *locked], say)


def _run_command(framework: Framework, command: list[str], say: Callable[[str], None]) -> None:
    """Run ``command``; ``say`` is called with each download of pip and its size, and with the installation."""
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as running:
            assert running.stdout
            for line in running.stdout:
                if line.strip().startswith(("Downloading ", "Using cached ", "Installing ")):
                    say(f"  {shorten(line.strip(), 100, placeholder=' …')}")
        if running.returncode:
            errors.seek(0)
            raise EnvironmentSetupError(
                f"{framework.name}'s environment cannot be made; is the package index reachable?\n"
                f"{errors.read().strip()[-2000:]}"
            )
