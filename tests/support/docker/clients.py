"""Clients of Docker as machines have them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.needs import missing


def client_without_buildx(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a client whose buildx plugin is broken, as of one that has none, wherever this machine's plugin is.

    Up to Docker 22 a client builds images without a plugin; then another on PATH is taken.
    """
    plugin = folder / "config" / "cli-plugins" / "docker-buildx"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("#!/bin/sh\nexit 1\n")
    plugin.chmod(0o755)
    monkeypatch.setenv("DOCKER_CONFIG", str(folder / "config"))
    clients = [path for place in os.get_exec_path() if (path := shutil.which("docker", path=place))]
    if not clients:
        missing("there is no docker (make tools installs docker.io)")
    for path in clients:
        command = [path, "version", "--format", "{{.Client.Version}}"]
        version = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        if int(version.partition(".")[0] or 0) >= 23:
            return path
    pytest.skip("every docker on PATH is older than 23, and has BuildKit built in")
