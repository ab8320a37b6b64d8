"""The function in a container of AWS's own image, held to a share of a processor by Docker.

For machines on which this process may make no control group, and an engine that answers may.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.docker.client import docker
from builder.errors import EnvironmentSetupError
from builder.local import parts
from builder.local.emulator import HANDLER, START_SECONDS, init_ms_of, invoked
from builder.measure.share import FIRST_SHARES, PERIOD_US, too_many
from builder.pack.image import dockerfile
from builder.prices import WHOLE_PROCESSOR_MB
from builder.project import HOME, cache_folder

_PEAK = "cat /sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes 2>/dev/null | head -1"


@dataclass(frozen=True)
class Containers:
    """``image``: AWS's for Python, or the one that COLDFORGE_LAMBDA_IMAGE names. ``mounts``: folders by their place."""

    image: str
    mounts: Mapping[Path, str]
    environment: Mapping[str, str]
    python: str = parts.LAMBDA_PYTHON
    note: str = ""

    @property
    def name(self) -> str:
        return f"Docker (--cpu-quota, in periods of {PERIOD_US // 1000} ms, and --memory), in {self.image}"

    @contextmanager
    def running(self, memory: int) -> Iterator[Contained]:
        """The function with ``memory`` megabytes. Raises UsageError for more processors than the engine's machine has,
        and EnvironmentSetupError.
        """
        there = docker("info", "--format", "{{.NCPU}}").stdout.strip()
        if not there.isdigit() or memory / WHOLE_PROCESSOR_MB > int(there):
            raise too_many(memory / WHOLE_PROCESSOR_MB, there)
        quota = round(memory / WHOLE_PROCESSOR_MB * PERIOD_US)
        options = ["--cpu-period", str(PERIOD_US), "--cpu-quota", str(quota), "--cpu-shares", FIRST_SHARES]
        options += ["--memory", f"{memory}m", "--memory-swap", f"{memory}m", "--publish", "127.0.0.1::8080"]
        for folder, place in self.mounts.items():
            options += ["--mount", f"type=bind,source={folder.resolve()},target={place},readonly"]
        for name, value in {**self.environment, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory)}.items():
            options += ["--env", f"{name}={value}"]
        command = ["--log-level", "info", "/var/runtime/bootstrap", HANDLER]
        started = docker(
            "run", "--detach", *options, "--entrypoint", "/usr/local/bin/aws-lambda-rie", self.image, *command
        )
        container = started.stdout.strip()
        try:
            if started.returncode:
                raise EnvironmentSetupError(f"Docker does not start the function: {started.stderr.strip()}")
            port = docker("port", container, "8080/tcp").stdout.partition("\n")[0].rpartition(":")[2]
            found = Contained(container, int(port or 0))
            found.wait()
            yield found
        finally:
            if container:
                docker("rm", "--force", "--volumes", container)


@dataclass(frozen=True)
class Contained:
    """A function that runs, at a port of this machine: as ``builder.local.emulator.Emulator`` inside its block."""

    container: str
    port: int

    def wait(self) -> None:
        """Until it takes requests. Raises EnvironmentSetupError."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
            # Docker takes a connection before anything in the container does: only an answer, if 404, is one.
            with suppress(OSError, http.client.HTTPException):
                connection.request("GET", "/")
                connection.getresponse()
                return
            connection.close()
            time.sleep(0.05)
        raise EnvironmentSetupError(f"the emulator in the container does not start:\n{self.log[-2000:]}")

    def invoke(self, event: Any) -> Any:
        """The function's answer, or the platform's (``errorType``). Raises EnvironmentSetupError."""
        return invoked(self.port, json.dumps(event).encode(), lambda: self.log)

    @property
    def log(self) -> str:
        """What the function and the emulator have written."""
        found = docker("logs", self.container)
        return found.stdout + found.stderr

    @property
    def init_ms(self) -> float:
        """Start of Python to ready, by the emulator; known after the first request. NaN before."""
        return init_ms_of(self.log)

    @property
    def peak_rss(self) -> int:
        """Bytes of the container's memory, at most."""
        found = docker("exec", self.container, "/bin/sh", "-c", _PEAK).stdout.strip()
        return int(found) if found.isdigit() else 0


def containers(layer: Path) -> Containers:
    """For the bundle whose layer is the folder ``layer``. Raises EnvironmentSetupError."""
    cache, python = cache_folder() / "local", parts.find_python()
    packages = parts.dependencies(cache, python, HOME / "layers" / "dependencies")
    function = parts.function(cache, python, HOME / "handler")
    if not python.matches_lambda:
        raise EnvironmentSetupError(
            f"the container runs Python {parts.LAMBDA_PYTHON}, and there is none here to build the packages for it."
        )
    base = re.search(r"^ARG BASE_IMAGE=(.*)$", dockerfile(), re.MULTILINE)
    assert base is not None
    mounts = {function: "/var/task", packages / "python": "/opt/python"}
    mounts |= {layer / name: f"/opt/{name}" for name in ("lib", "model") if (layer / name).is_dir()}
    environment = {"AWS_LAMBDA_FUNCTION_NAME": "coldforge", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST"}
    environment |= {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_LAMBDA_FUNCTION_TIMEOUT": "120"}
    if any(layer.parent.glob("*.weights")):
        mounts[layer.parent] = "/mnt/bundle"
        environment["COLDFORGE_WEIGHTS"] = "/mnt/bundle/"
    return Containers(base[1], mounts, environment)
