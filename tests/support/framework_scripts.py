"""Scripts of tests/support/frameworks, run in the environment of a framework."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from builder.config import Format
from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment
from tests.conftest import ROOT

SCRIPTS = ROOT / "tests" / "support" / "frameworks"


def run_script(form: Format, script: str, *arguments: Path) -> str:
    """Run ``script`` where models of ``form`` are read, and return what it prints."""
    python = ensure_environment(FRAMEWORKS[form], print) / "bin" / "python"
    variables = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "KERAS_BACKEND": "jax"}
    command = [python, SCRIPTS / script, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=600, check=True, env=os.environ | variables
    )
    return done.stdout
