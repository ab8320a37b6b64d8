"""One build in the builder image: no network, a read-only model, an unprivileged user, its own folders.

What needs the network happens here, before: the model is located and the dependencies layer installed. The
container then runs the same command as the host route,

    python -m builder.cli bundle <model.toml> --in host

with this checkout's code mounted at /coldforge, and writes only below ``build/docker/``. When it has ended
well, the bundle takes its place in ``dist/`` as any other does.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import tomllib
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from builder.docker.client import client, docker, why_no_engine
from builder.docker.image import BuilderImage
from builder.errors import ColdforgeError, EnvironmentSetupError
from builder.pack.bundle import Bundle, activate
from builder.pack.dependencies import build_dependencies
from builder.pack.swap import replacing
from builder.project import Project
from builder.sources import locate
from builder.spec import ModelSpec
from builder.stages.tuning import tuning_path
from builder.targets import DEFAULT, TARGETS, Target

INSIDE = Path("/coldforge")
IMAGE_USER = 1000
"""The user of the image, for a caller that is root."""
DOCKER_FAILED, KILLED, INTERRUPTED = range(125, 128), 137, 130
_ERROR = "coldforge: "


@dataclass(frozen=True)
class DockerBuild:
    """A finished bundle, the image it was built in, and what the command inside printed as its result."""

    bundle: Bundle
    image: str
    output: str


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine at a path in the container."""

    source: Path
    target: Path
    writable: bool = False

    def option(self) -> str:
        """The value of --mount: a line of CSV, so that a path may hold a comma."""
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields if self.writable else [*fields, "readonly"])
        return line.getvalue()


def bundle_in_docker(
    spec: ModelSpec, project: Project, say: Callable[[str], None] = lambda _: None, target: Target = DEFAULT
) -> DockerBuild:
    """Build ``spec`` for ``target`` in the builder image, make the result the project's bundle and active layer.

    ``say`` gets each line of progress. Raises what the same build raises on the host (the container's
    message and exit code as that error), EnvironmentSetupError when Docker is at fault; the last good bundle
    stays in place.
    """
    lock = project.root / "requirements" / "build.txt"
    image = BuilderImage.configured(lock).ensure(say)
    say(f"building in {image}")
    model = locate(spec, project.cache)
    _, dependencies = build_dependencies(project, target)
    scratch = project.build / "docker"
    mounts = build_mounts(spec, project, model, dependencies, scratch)
    command = ["bundle", str(spec.path), "--in", "host", "--target", target.name, "--package", spec.packaging]
    output = _run(image, mounts, command, owner(scratch), say)
    place = f"{spec.name}{target.suffix}"
    fresh = scratch / "dist" / place
    with replacing(project.dist / place) as folder:
        shutil.copytree(fresh, folder, dirs_exist_ok=True)
    bundle = Bundle.load(project.dist / place)
    activate(bundle, project.layers, target)
    return DockerBuild(bundle, image, output)


def build_mounts(spec: ModelSpec, project: Project, model: Path, dependencies: Path, scratch: Path) -> list[Mount]:
    """What a build sees: code, model and dependencies to read, and below ``scratch`` what it may write."""
    return [*_code(project), *_inputs(spec, project, model, dependencies), *_outputs(scratch)]


def _code(project: Project) -> Iterator[Mount]:
    for name in ("builder", "handler", "layers/dependencies"):
        yield Mount(project.root / name, INSIDE / name)


def _inputs(spec: ModelSpec, project: Project, model: Path, dependencies: Path) -> Iterator[Mount]:
    """Everything the build reads besides code. Files beside model.toml keep their paths: it names them."""
    yield Mount(dependencies.resolve(), INSIDE / "build" / dependencies.name)
    if spec.source.package:
        yield Mount(model.parent.parent, INSIDE / model.parent.parent.relative_to(project.root))
    else:
        yield Mount(model, model)
    if tuning_path(spec).exists():
        yield Mount(tuning_path(spec), tuning_path(spec))
    for path in {
        spec.path,
        *_named_files(spec.path),
        *filter(None, [spec.source.config, spec.weights.images, spec.activations.images]),
    }:
        yield Mount(path, path)


def _named_files(toml: Path) -> Iterator[Path]:
    """The label files of the outputs."""
    for output in tomllib.loads(toml.read_text(encoding="utf-8")).get("outputs", []):
        if "labels_file" in output:
            yield Path(os.path.abspath(toml.parent / output["labels_file"]))  # noqa: PTH100 - links stay as named


def _outputs(scratch: Path) -> Iterator[Mount]:
    for name in ("build", "dist", "layers/model"):
        folder = scratch / name
        folder.mkdir(parents=True, exist_ok=True)
        yield Mount(folder, INSIDE / name, writable=True)
    # Mount points inside a mount; the engine would make them as root.
    for name in (*(f"dependencies{target.suffix}" for target in TARGETS), "cache/models"):
        (scratch / "build" / name).mkdir(parents=True, exist_ok=True)


def owner(scratch: Path) -> str:
    """Who runs the build: whoever asked, but never root. ``scratch`` becomes that user's."""
    if os.getuid():
        return f"{os.getuid()}:{os.getgid()}"
    for path in (scratch, *scratch.rglob("*")):
        if path.lstat().st_uid != IMAGE_USER:
            os.chown(path, IMAGE_USER, IMAGE_USER, follow_symlinks=False)
    return f"{IMAGE_USER}:{IMAGE_USER}"


def sandbox(user: str, mounts: Iterable[Mount]) -> list[str]:
    """Options of ``docker run`` for a program that is not to be trusted: a model may run code when it is loaded."""
    options = ["--network", "none", "--user", user, "--read-only", "--tmpfs", "/tmp:rw,nosuid,nodev,size=2g"]
    options += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    for mount in mounts:
        options += ["--mount", mount.option()]
    return options


def _run(image: str, mounts: list[Mount], command: list[str], user: str, say: Callable[[str], None]) -> str:
    """What the command printed. Raises the error that its exit code and last words stand for."""
    name = f"coldforge-{uuid.uuid4().hex[:12]}"
    options = ["--rm", "--init", "--name", name, *sandbox(user, mounts)]
    if "SOURCE_DATE_EPOCH" in os.environ:
        options += ["--env", "SOURCE_DATE_EPOCH"]
    try:
        with subprocess.Popen(
            [client() or "docker", "run", *options, image, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout
            assert process.stderr
            # The result is one page, printed at the end: it cannot fill the pipe while progress is read.
            message = _relay(process.stderr, say)
            output = process.stdout.read()
    except BaseException:
        docker("rm", "--force", name)
        raise
    if process.returncode:
        raise _failure(process.returncode, message)
    return output


def _relay(lines: IO[str], say: Callable[[str], None]) -> str:
    """Pass progress on as it comes; hold back the message that the command ends with."""
    message: list[str] = []
    for line in lines:
        text = line.rstrip("\n")
        if message or text.startswith((_ERROR, "Traceback ", "docker: ")):
            message.append(text.removeprefix(_ERROR))
        else:
            say(text)
    return "\n".join(message)


def _failure(code: int, message: str) -> BaseException:
    """The error that stands for an exit code of the command inside, or of Docker itself."""
    if code == INTERRUPTED:
        return KeyboardInterrupt()
    if code in DOCKER_FAILED:
        why = why_no_engine() or message
        return EnvironmentSetupError(f"Docker could not run the build: {why}\nBUILD_IN=host builds without it.")
    if code == KILLED:
        return EnvironmentSetupError(
            "the build was killed in its container, most likely for want of memory: give the engine more, or "
            "build with BUILD_IN=host."
        )
    for kind in ColdforgeError.__subclasses__():
        if kind.exit_code == code:
            return kind(message)
    return ColdforgeError(f"the build in Docker failed (exit code {code}):\n{message}")
