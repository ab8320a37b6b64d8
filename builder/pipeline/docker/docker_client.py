"""The Docker client on this machine, with checks whether an engine answers it and can build and fetch images.

``DOCKER`` in the environment names another client than the first on PATH; ``DOCKER_HOST`` and contexts
work as they do for the client itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from builder.base.errors import EnvironmentSetupError

ANSWER_SECONDS = 20
"""Seconds that an engine or a registry may take to answer before it counts as absent."""


def find_docker() -> str | None:
    """Return the client's path, or None when there is none."""
    return shutil.which(os.environ.get("DOCKER") or "docker")


def why_no_engine() -> str | None:
    """Return None when an engine answers, else the reason, in the client's own words if it has any."""
    return _why_it_fails("version", "--format", "{{.Server.Version}}")


def why_no_buildkit() -> str | None:
    """Return None when the client can build with BuildKit (since Docker 23 by the buildx plugin), else the reason."""
    if _why_it_fails("build", "--help") is None:
        return None
    return f"{find_docker()} has no working buildx plugin (package docker-buildx or docker-buildx-plugin)"


def why_no_image(reference: str) -> str | None:
    """Return None when the engine has the image or its registry would give it, else the reason. Fetches nothing."""
    if run_docker("image", "inspect", reference).returncode == 0:
        return None
    reason = _why_it_fails("manifest", "inspect", reference)
    return reason and f"{reference.partition('@')[0]} cannot be fetched ({reason})"


def _why_it_fails(*arguments: str) -> str | None:
    """Return None when the client does this in time, else the reason as one line, in its own words if it has any."""
    path = find_docker()
    if path is None:
        return f"there is no `{os.environ.get('DOCKER') or 'docker'}` on PATH"
    command = [path, *arguments]
    environment = os.environ | {"DOCKER_BUILDKIT": "1"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"`docker {arguments[0]}` had no answer within {ANSWER_SECONDS} s"
    except OSError as error:
        return f"{path} does not run: {error.strerror}"
    words = done.stderr.strip() or f"`docker {arguments[0]}` failed"
    return None if done.returncode == 0 else words.splitlines()[0].rstrip(".")


def engine_memory() -> int | None:
    """Return the bytes of memory of the engine's machine; None if it does not tell."""
    done = run_docker("info", "--format", "{{.MemTotal}}")
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def run_docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the client and capture its output. Raises EnvironmentSetupError when there is none."""
    path = find_docker()
    if path is None:
        raise EnvironmentSetupError(f"no Docker: {why_no_engine()}.")
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
