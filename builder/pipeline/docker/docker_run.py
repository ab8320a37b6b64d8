"""One build in the builder image: no network, a read-only model, an unprivileged user, its own folders.

The steps that need the network come before, on the host: the model is located and the dependencies layer installed.
The container then runs the same command as the host route,
    python -m builder.cli bundle <model.toml> --in host

with coldforge's code mounted at /coldforge, and writes only into a folder of its own model below
``build/docker/``. When it has ended well, the bundle's files are copied from there, regular ones from a list, and
replace those in ``dist/`` as any other bundle does.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from builder.base.cache import compute_digest
from builder.base.commands import route_option
from builder.base.errors import ColdforgeError, EnvironmentSetupError, SandboxError, UsageError, error_of
from builder.base.escape import escape_terminal
from builder.base.files import replace_folder
from builder.base.project import Project
from builder.base.sandbox.confinement import CONTAINED
from builder.base.targets import DEFAULT, Target, host_target
from builder.base.untrusted_files import copy_regular, has_entry, make_folder
from builder.config import ModelSpec, TextSpec
from builder.importers.text import needs_package
from builder.package.bundle import LIBRARY, Bundle, activate_layer, list_bundle_files
from builder.package.dependencies import build_dependencies
from builder.package.lambda_limits import CONTAINER_IMAGE
from builder.package.layer import EPOCH
from builder.package.provenance import BASE, CHECKOUT
from builder.package.tokenizers_library import fetch_tokenizers
from builder.pipeline.docker.docker_client import BuilderImage, engine_memory, find_docker, run_docker, why_no_engine
from builder.pipeline.docker.route import why_not_in_image
from builder.sources import MODELS, Show, fetched_digest, list_named_files, locate_model, locate_text_file, no_progress
from builder.sources.miniaudio import fetch_miniaudio, fetched_folder

INSIDE = Path("/coldforge")
CACHE = INSIDE / "build" / "cache" / "coldforge"
_IMAGE_USER = 1000
"""User of the image, for a caller that is root."""
_DOCKER_FAILED, _KILLED, INTERRUPTED = range(125, 128), 137, 130
_ERROR = "coldforge: "

PROCESSES = 4096
"""Limit of a build's processes, threads included: TensorFlow and zig have some for each processor."""
MEMORY_SHARE = 0.75
"""Share of the memory of the engine's machine that a build may have, so that the machine outlives it."""
_LINE, _OUTPUT, _MESSAGE = 4096, 1 << 20, 1 << 16
"""Characters of a line of progress, of the result and of the error message, beyond which they are cut."""


@dataclass(frozen=True)
class DockerBuild:
    """A finished bundle, the image it was built in, and the result that the command inside printed."""

    bundle: Bundle
    image: str
    output: str


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine at a path in the container."""

    source: Path
    target: Path
    writable: bool = False

    def format_option(self) -> str:
        """Return the value of --mount: a line of CSV, so that a path may hold a comma."""
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields if self.writable else [*fields, "readonly"])
        return line.getvalue()


def bundle_in_docker(
    spec: ModelSpec,
    project: Project,
    say: Callable[[str], None] = lambda _: None,
    target: Target = DEFAULT,
    show: Show = no_progress,
    *,
    verbose: bool = False,
) -> DockerBuild:
    """Build ``spec`` for ``target`` in the builder image, make the result the project's bundle and active layer.

    ``say`` gets each line of progress, ``show`` the progress of the model's download; ``verbose``: with TensorFlow's
    output. Raises what the same build raises on the host (the container's message and exit code as that error),
    EnvironmentSetupError when Docker is at fault; the last good bundle stays in place.
    """
    if reason := why_not_in_image(spec):
        raise UsageError(f"{reason}: build on a Linux machine, with {route_option('host')}.")
    base = BuilderImage.from_environment(project.lock)
    image = base.ensure_built(say)
    say(f"building in {image}")
    model = locate_model(spec, project.cache, show)
    tokenizer_files = tokenizer_paths(locate_text_file(spec, project.cache, show).text, project.cache, target)
    if spec.audio:
        fetch_miniaudio(project.cache, show)
    _, dependencies = build_dependencies(project, target)
    scratch = scratch_of(spec, project, model, target)
    mounts = build_mounts(spec, project, model, dependencies, scratch, tokenizer_files)
    command = ["bundle", str(spec.path), "--in", "host", "--target", target.name, "--package", spec.packaging]
    command += ["--verbose"] * verbose
    known = {CONTAINED: "1", BASE: base.reference, CHECKOUT: str(project.root), "XDG_CACHE_HOME": str(CACHE.parent)}
    output = _run_container(image, mounts, command, choose_user(scratch), say, known)
    place = f"{spec.name}{target.suffix}"
    with replace_folder(project.dist / place) as folder:
        take_bundle(scratch / "dist", place, spec.name, folder)
    bundle = Bundle.load(project.dist / place)
    activate_layer(bundle, project.layers, target)
    return DockerBuild(bundle, image, output)


def tokenizer_paths(text: TextSpec | None, cache: Path, target: Target) -> list[Path]:
    """Return the tokenizer's file, and the folders of the package that it needs, which are fetched here.

    The bundle holds the package for ``target``; the golden inputs are made with the one for the engine's processor,
    which is this machine's. Raises EnvironmentSetupError, ImportModelError.
    """
    if text is None or text.file is None:
        return []
    targets = dict.fromkeys((target, host_target())) if needs_package(text) else {}
    return [text.file, *(fetch_tokenizers(cache, needed).folder for needed in targets)]


def scratch_of(spec: ModelSpec, project: Project, model: Path, target: Target) -> Path:
    """Return the folder that the container of this very model may write, with its stages and caches.

    Another model never sees this one's files: even one of the same name has another folder, which replaces this one's.
    """
    place = project.build / "docker" / f"{spec.name}{target.suffix}"
    scratch = place / compute_digest(str(spec.path), model)[:16]
    scratch.mkdir(parents=True, exist_ok=True)
    for other in place.iterdir():
        if other != scratch:
            shutil.rmtree(other, ignore_errors=True)
    return scratch


def take_bundle(dist: Path, place: str, model: str, folder: Path, limit: int = CONTAINER_IMAGE) -> None:
    """Copy the bundle of ``model`` that a container left in ``dist/place`` into the empty ``folder``.

    ``limit``: bytes of all together. Raises SandboxError for a link, a special file, files that are too large, and an
    invalid bundle.
    """
    required, optional = list_bundle_files(model)
    wanted = [*required, *(name for name in optional if has_entry(dist, f"{place}/{name}"))]
    try:
        for name in wanted:
            limit -= copy_regular(dist, f"{place}/{name}", folder / name, limit)
        Bundle.load(folder)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SandboxError(f"the container returned no bundle: {error}") from error
    (folder / "layer" / LIBRARY).chmod(0o755)


def build_mounts(
    spec: ModelSpec, project: Project, model: Path, dependencies: Path, scratch: Path, beside: Sequence[Path] = ()
) -> list[Mount]:
    """Return the mounts of a build: code, model and dependencies to read, and folders below ``scratch`` to write.

    ``beside``: the tokenizer's file, also if it was fetched with the model, and folders of the cache.
    """
    code = ("builder", "handler", "layers/dependencies", "requirements/build.txt", "requirements/tokenizers.txt")
    inputs = [Mount(project.home / name, INSIDE / name) for name in code]
    inputs += _mount_inputs(spec, project, model, dependencies, beside)
    return [*inputs, *_mount_outputs(scratch, [mount.target for mount in inputs])]


def _mount_inputs(
    spec: ModelSpec, project: Project, model: Path, dependencies: Path, beside: Sequence[Path]
) -> Iterator[Mount]:
    """Yield all mounts of inputs besides code. Files next to model.toml keep their paths, since it names them."""
    yield Mount(dependencies.resolve(), INSIDE / "build" / dependencies.name)
    cache, models = project.cache, project.cache / MODELS
    cached = [fetched_folder(cache)] if spec.audio else []
    cached += (path for path in beside if path.is_relative_to(cache) and not path.is_relative_to(models))
    if spec.source.path is None:
        cached += _list_fetched_models(spec, project, [model, *beside])
    else:
        yield Mount(model, model)
    for path in cached:
        yield Mount(path, CACHE / path.relative_to(cache))
    for path in dict.fromkeys(path for _, path in list_named_files(spec)):
        yield Mount(path, path)


def _list_fetched_models(spec: ModelSpec, project: Project, paths: Sequence[Path]) -> list[Path]:
    """Return the fetched models of this build alone, as others may be private, and the records of their addresses."""
    root = project.cache / MODELS
    own = {path.relative_to(root).parts[0] for path in paths if path.is_relative_to(root)}
    own |= {fetched_digest(spec.source, project.cache).get("sha256", ""), "revisions"}
    return [root / name for name in sorted(own) if name and (root / name).is_dir()]


def _mount_outputs(scratch: Path, inputs: Iterable[Path]) -> Iterator[Mount]:
    """Yield the writable mounts; ``inputs``: the paths in the container that are mount points already."""
    for name in ("build", "dist", "layers/model"):
        yield Mount(make_folder(scratch, name), INSIDE / name, writable=True)
        for target in inputs:
            if target.is_relative_to(INSIDE / name):  # the engine would make the mount point as root
                make_folder(scratch, target.relative_to(INSIDE).as_posix())


def choose_user(scratch: Path) -> str:
    """Return the user who runs the build: the caller, but never root. ``scratch`` becomes that user's."""
    if os.getuid():
        return f"{os.getuid()}:{os.getgid()}"
    for path in (scratch, *scratch.rglob("*")):
        if path.lstat().st_uid != _IMAGE_USER:
            os.chown(path, _IMAGE_USER, _IMAGE_USER, follow_symlinks=False)
    return f"{_IMAGE_USER}:{_IMAGE_USER}"


def make_sandbox_options(user: str, mounts: Iterable[Mount], memory: int | None = None) -> list[str]:
    """Return options of ``docker run`` for an untrusted program: a model may run code when it is loaded.

    ``memory``: the most bytes, swap included; no limit when None.
    """
    options = ["--network", "none", "--user", user, "--read-only", "--tmpfs", "/tmp:rw,nosuid,nodev,size=2g"]
    options += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    options += ["--pids-limit", str(PROCESSES), "--ulimit", "core=0"]
    if memory:
        options += ["--memory", str(memory), "--memory-swap", str(memory)]
    for mount in mounts:
        options += ["--mount", mount.format_option()]
    return options


def _run_container(
    image: str,
    mounts: list[Mount],
    command: list[str],
    user: str,
    say: Callable[[str], None],
    environment: Mapping[str, str],
) -> str:
    """Return the command's output. Raises the error that its exit code and last words stand for."""
    name = f"coldforge-{uuid.uuid4().hex[:12]}"
    memory = engine_memory()
    limit = int(memory * MEMORY_SHARE) if memory else None
    options = ["--rm", "--init", "--name", name, *make_sandbox_options(user, mounts, limit)]
    for variable, value in environment.items():
        options += ["--env", f"{variable}={value}"]
    if EPOCH in os.environ:
        options += ["--env", EPOCH]
    try:
        with subprocess.Popen(
            [find_docker() or "docker", "run", *options, image, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout
            assert process.stderr
            # The result is one page, printed at the end, so it cannot fill the pipe while progress is read.
            message = _relay_output(process.stderr, say)
            output = process.stdout.read(_OUTPUT)
    except BaseException:
        run_docker("rm", "--force", name)
        raise
    if process.returncode:
        raise _make_error(process.returncode, message)
    return escape_terminal(output)


def _relay_output(lines: IO[str], say: Callable[[str], None]) -> str:
    """Relay progress as it comes; return the message that the command ends with."""
    message: list[str] = []
    room = _MESSAGE
    while line := lines.readline(_LINE):
        text = escape_terminal(line.rstrip("\n"))
        if not message and not text.startswith((_ERROR, "Traceback ", "docker: ")):
            say(text)
        elif (room := room - len(text)) > 0:
            message.append(text.removeprefix(_ERROR))
    return "\n".join(message)


def _make_error(code: int, message: str) -> BaseException:
    """Return the error for an exit code of the command inside, or of Docker itself."""
    if code == INTERRUPTED:
        return KeyboardInterrupt()
    if code in _DOCKER_FAILED:
        why = why_no_engine() or message
        return EnvironmentSetupError(
            f"Docker could not run the build: {why}\nBuild without it: {route_option('host')}."
        )
    if code == _KILLED:
        return EnvironmentSetupError(
            "the build was killed in its container, most likely because memory ran out (it gets three quarters of the "
            f"engine's): give the engine more, or build with {route_option('host')}."
        )
    error = error_of(code, message)
    if error.exit_code == code:
        return error
    return ColdforgeError(f"the build in Docker failed (exit code {code}):\n{message}")
