"""The Docker client on this machine, and whether an engine answers it.

``DOCKER`` in the environment names another client than the first on PATH; ``DOCKER_HOST`` and contexts
work as they do for the client itself.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from typing import Literal

from builder.commands import either
from builder.errors import EnvironmentSetupError, UsageError

Route = Literal["docker", "host"]
ANSWER_SECONDS = 20
"""How long an engine may take to answer before it counts as none."""


def client() -> str | None:
    """The client's path, or None when there is none."""
    return shutil.which(os.environ.get("DOCKER") or "docker")


def why_no_engine() -> str | None:
    """None when an engine answers; otherwise the reason, in the client's own words where it has any."""
    path = client()
    if path is None:
        return f"there is no `{os.environ.get('DOCKER') or 'docker'}` on PATH"
    command = [path, "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        return f"the engine did not answer within {ANSWER_SECONDS} s"
    except OSError as error:
        return f"{path} does not run: {error.strerror}"
    return None if done.returncode == 0 else (done.stderr.strip() or f"`{path} version` failed")


def engine_memory() -> int | None:
    """Bytes of memory that the engine's machine has; None where it does not say."""
    done = docker("info", "--format", "{{.MemTotal}}")
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def choose(build_in: str, system: str = platform.system()) -> Route:
    """Where to build: ``docker`` or ``host`` as asked; ``auto`` is Docker when an engine answers.

    ``system``: this machine's, as ``platform.system`` names it. Raises UsageError for another word, and
    EnvironmentSetupError when no engine answers where Docker is asked for, or needed because this is not Linux.
    """
    if build_in not in ("auto", "docker", "host"):
        raise UsageError(f"BUILD_IN={build_in} is not docker, host or auto.")
    if build_in == "host":
        if system != "Linux":
            raise EnvironmentSetupError(
                f"{system} cannot build by itself: TensorFlow's ahead-of-time compiler needs Linux. Start Docker, and "
                f"build there: {either('BUILD_IN=docker', 'coldforge bundle --in docker')}."
            )
        return "host"
    reason = why_no_engine()
    if not reason:
        return "docker"
    if system != "Linux":
        raise EnvironmentSetupError(f"a build on {system} needs Docker, and no engine answers: {reason}\nStart one.")
    if build_in == "docker":
        raise EnvironmentSetupError(
            f"BUILD_IN=docker, but no Docker engine answers: {reason}\n"
            "Start one, or build with this machine's own packages: BUILD_IN=host gives the same library."
        )
    return "host"


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the client and capture what it says. Raises EnvironmentSetupError when there is none."""
    path = client()
    if path is None:
        raise EnvironmentSetupError(f"no Docker: {why_no_engine()}.")
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
