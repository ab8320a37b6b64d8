"""Stand-ins for the images that a container registry would serve: Debian by mmdebstrap, and what goes on top.

    python -m tests.support.docker.images [amazonlinux] [lambda] [floor]

An image is tagged with the hash of its recipe, so the engine's own store is the cache. They stand in for
behaviour (interpreter, paths, entry points), never for Amazon Linux's libraries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.project import cache_folder
from builder.measure.local import emulator_parts
from builder.pipeline.docker.docker_client import ca_secret, find_docker, run_docker

HERE = Path(__file__).parent / "stand_ins"
CACHE = cache_folder() / "local"
LAMBDA_TAGS = ("public.ecr.aws/lambda/python:3.13-x86_64", "public.ecr.aws/lambda/python:3.13")
"""What SAM asks for, and what a container image function and the AWS emulator ask for."""
BOTO3 = "1.43.108"  # in Lambda's image; the function does not import it


class ImageError(Exception):
    """A stand-in cannot be made; says what failed."""


def amazonlinux() -> str:
    """A base for the builder image: Debian 12, whose Python is 3.11."""
    return _debian("bookworm", "ca-certificates", "python3", "python3-venv")


def floor() -> str:
    """The oldest Debian above the floor of 2.34 (glibc 2.36) with a C compiler, to call a library from."""
    return _debian("bookworm", "gcc", "libc6-dev")


def lambda_runtime() -> str:
    """The python3.13 runtime as SAM and the emulator look for it; the tag that SAM asks for."""
    base = _debian("trixie", "ca-certificates", "python3", "python3-venv")
    emulator = emulator_parts.install_emulator(CACHE)
    tag = f"coldforge/lambda-stand-in:{compute_digest(HERE, emulator, emulator_parts.RUNTIME_LOCK, base, BOTO3)[:12]}"
    if not exists(tag):
        with tempfile.TemporaryDirectory(prefix="coldforge-image-") as context:
            for path in HERE.iterdir():
                shutil.copy(path, context)
            shutil.copy(emulator_parts.RUNTIME_LOCK, Path(context, "runtime.txt"))
            shutil.copy(emulator, Path(context, "aws-lambda-rie"))
            _build(Path(context), "lambda.Dockerfile", tag, {"BASE": base, "BOTO3": BOTO3})
    for name in LAMBDA_TAGS:
        # Never in the place of AWS's own image on somebody's engine.
        if not exists(name) or is_stand_in(name):
            _tagged(tag, name)
    return LAMBDA_TAGS[0]


def exists(tag: str) -> bool:
    return run_docker("image", "inspect", tag).returncode == 0


def is_stand_in(tag: str) -> bool:
    listed = run_docker("image", "inspect", "--format", '{{join .RepoTags " "}}', tag)
    return "coldforge/lambda-stand-in:" in listed.stdout


def _debian(suite: str, *packages: str) -> str:
    """A minimal Debian with ``packages``, from the mirror this system uses."""
    tag = f"coldforge/debian-{suite}:{compute_digest(suite, *packages)[:12]}"
    if exists(tag):
        return tag
    if shutil.which("mmdebstrap") is None:
        raise ImageError("mmdebstrap is not installed; `apt-get install mmdebstrap`")
    with tempfile.TemporaryDirectory(prefix="coldforge-image-") as folder:
        archive = Path(folder, "root.tar")
        _run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", suite, str(archive)])
        _run([_client(), "import", str(archive), tag])
    return tag


def _build(context: Path, dockerfile: str, tag: str, arguments: dict[str, str]) -> None:
    command = [_client(), "build", "--quiet", "--file", str(context / dockerfile), "--tag", tag, *ca_secret()]
    for name, value in arguments.items():
        command += ["--build-arg", f"{name}={value}"]
    _run([*command, str(context)])


def _tagged(image: str, tag: str) -> str:
    _run([_client(), "tag", image, tag])
    return tag


def _client() -> str:
    path = find_docker()
    if path is None:
        raise ImageError("there is no Docker client")
    return path


def _run(command: list[str]) -> None:
    environment = os.environ | {"DOCKER_BUILDKIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{' '.join(command)} failed:\n{done.stderr.strip()[-3000:]}")


STAND_INS: dict[str, Callable[[], str]] = {"amazonlinux": amazonlinux, "lambda": lambda_runtime, "floor": floor}


if __name__ == "__main__":
    for name in sys.argv[1:] or STAND_INS:
        print(f"{name}: {STAND_INS[name]()}")
