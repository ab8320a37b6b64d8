"""The Docker client on this machine, and the builder image: built once for each Dockerfile, lock and base.

``DOCKER`` in the environment names another client than the first on PATH; ``DOCKER_HOST`` and contexts
work as they do for the client itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.commands import route_option
from builder.base.errors import EnvironmentSetupError

DOCKERFILE = Path(__file__).with_name("Dockerfile")
REPOSITORY = "coldforge/builder"

_ANSWER_SECONDS = 20
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


def _why_no_image(reference: str) -> str | None:
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
            command, env=environment, capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"`docker {arguments[0]}` had no answer within {_ANSWER_SECONDS} s"
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


@dataclass(frozen=True)
class BuilderImage:
    """Inputs of the image. ``base_digest``: ``sha256:…``, or "" if the base is not pinned."""

    base: str
    base_digest: str
    lock: Path

    @classmethod
    def from_environment(cls, lock: Path, environment: Mapping[str, str] = os.environ) -> BuilderImage:
        """Return the Dockerfile's own base, or the one that COLDFORGE_BASE_IMAGE and COLDFORGE_BASE_DIGEST name."""
        base, digest = environment.get("COLDFORGE_BASE_IMAGE"), environment.get("COLDFORGE_BASE_DIGEST")
        if base:
            return cls(base, digest or "", lock)
        return cls(_read_default("BASE_IMAGE"), digest or _read_default("BASE_DIGEST"), lock)

    @property
    def pinned(self) -> bool:
        """True if the base has a digest."""
        return "@sha256:" in self.reference

    @property
    def reference(self) -> str:
        """The base with its digest, as FROM has it."""
        return f"{self.base}@{self.base_digest}" if self.base_digest else self.base

    @property
    def tag(self) -> str:
        """The image's name, with a digest of all that it is made of."""
        return f"{REPOSITORY}:{compute_digest(DOCKERFILE, self.lock, self.base, self.base_digest)[:16]}"

    def why_unavailable(self) -> str | None:
        """Return the reason in a line why this engine has no image and can make none, else None. Fetches nothing."""
        return None if self._is_built() else why_no_buildkit() or _why_no_image(self.reference)

    def _is_built(self) -> bool:
        return run_docker("image", "inspect", self.tag).returncode == 0

    def ensure_built(self, say: Callable[[str], None] = lambda _: None) -> str:
        """Return the tag, after building the image if this engine has none. Raises EnvironmentSetupError."""
        if self._is_built():
            return self.tag
        if reason := why_no_buildkit():
            raise EnvironmentSetupError(f"The builder image cannot be made: {reason}.")
        if not self.pinned:
            say(f"{self.base} has no digest; pin it with COLDFORGE_BASE_DIGEST")
        say(f"making the builder image from {self.base} (once; about 700 MB to fetch)")
        done = subprocess.run(
            [find_docker() or "docker", *self._build_arguments()],
            env=os.environ | {"DOCKER_BUILDKIT": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise EnvironmentSetupError(self._explain_failure(done.stderr))
        return self.tag

    def _build_arguments(self) -> list[str]:
        arguments = ["build", "--progress", "plain", "--file", str(DOCKERFILE), "--tag", self.tag]
        arguments += ["--build-arg", f"BASE_IMAGE={self.base}", "--build-arg", f"BASE_DIGEST={self.base_digest}"]
        return [*arguments, *ca_secret(), str(self.lock.parent)]

    def _explain_failure(self, stderr: str) -> str:
        words = "\n".join(f"  {line}" for line in stderr.strip().splitlines()[-8:])
        if reason := why_no_engine():
            return f"The Docker engine went away: {reason}"
        if "failed to resolve source metadata" in stderr or "failed to do request" in stderr:
            advice = (
                f"{self.reference} cannot be fetched. Where its registry is not reached, or no longer has that digest, "
                f"name another base with COLDFORGE_BASE_IMAGE, or build without Docker: {route_option('host')}."
            )
        else:
            advice = f"With the cause removed run this again, or build without Docker: {route_option('host')}."
        return f"The builder image cannot be made. {advice} Docker said:\n{words}"


def ca_secret(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return options that lend SSL_CERT_FILE, when it is set, to a build as its secret ``ca``."""
    bundle = environment.get("SSL_CERT_FILE")
    return ["--secret", f"id=ca,src={bundle}"] if bundle and Path(bundle).is_file() else []


def _read_default(argument: str) -> str:
    default = re.search(rf"^ARG {argument}=(.*)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert default
    return default.group(1).strip()
