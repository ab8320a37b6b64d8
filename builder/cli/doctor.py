"""A check of this machine for everything that the commands need, with one line that gets each missing thing.

Each check only looks; nothing is installed, built or sent. All of them run without a package, so that they work before
anything is set up.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builder.base.commands import CHECKOUT, CLEANING, bundle_command, choose_command, route_option, setup_command
from builder.base.console_tables import format_table
from builder.base.lambda_python import LAMBDA_PYTHON, find_python
from builder.base.project import Project
from builder.base.sandbox.confinement import KernelFeatures
from builder.base.targets import TARGETS
from builder.pipeline.docker.docker_client import BuilderImage, why_no_buildkit, why_no_engine
from builder.verify.target_runner import find_emulator, has_c_library

PYTHONS = (3, 11), (3, 13)
"""First and last version that TensorFlow's wheel and the locks support."""

LEAST_MEMORY, LEAST_DISK = 3_000_000_000, 4_000_000_000
"""Bytes that a build of a middling network has used, with TensorFlow's packages."""

PACKAGES = ("tensorflow-cpu", "keras", "ziglang")
BUNDLE = bundle_command()
FEATURES = ("avx2", "fma", "avx512f", "avx512_vnni")
"""Flags of a processor: the kernels need the first two and are faster with the others."""


@dataclass(frozen=True)
class Finding:
    """``found``: what is there, or why not. ``needed_for``: commands. ``remedy``: the line that gets what is not."""

    name: str
    there: bool
    found: str
    needed_for: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """Findings about this machine."""

    findings: tuple[Finding, ...]

    @property
    def can_build(self) -> bool:
        """True if `make bundle` finds a way: all that Docker needs, or a Python for which it installs the packages."""
        present = {finding.name: finding.there for finding in self.findings}
        in_docker = present["Docker"] and present["builder image"]
        return present["make"] and (in_docker or present["Python"])

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {"can_build": self.can_build, "findings": [asdict(finding) for finding in self.findings]}


def format_diagnosis(diagnosis: Diagnosis) -> str:
    """Return a row for each finding, then how to get missing things, and whether a model can be built now."""
    rows = [("ok" if f.there else "--", f.name, f.found, f.needed_for) for f in diagnosis.findings]
    lines = [format_table(("", "what", "found", "needed for"), rows), ""]
    lines += [f"{f.name}: {f.remedy}" for f in diagnosis.findings if f.remedy]
    lines.append(f"{BUNDLE} works here." if diagnosis.can_build else f"{BUNDLE} does not work here yet.")
    return "\n".join(lines)


def examine_machine(project: Project) -> Diagnosis:
    """Run every check, in the order in which a new user needs the things."""
    return Diagnosis(tuple(_list_findings(project)))


def _list_findings(project: Project) -> Iterator[Finding]:
    yield check_python(sys.version_info[:2], _can_make_environments())
    yield check_packages(importlib.metadata.version)
    yield _check_program("make", BUNDLE, "apt-get install make")
    yield from check_docker(BuilderImage.from_environment(project.lock))
    yield check_sandbox(KernelFeatures.from_machine())
    yield check_memory(Path("/proc/meminfo"))
    yield check_disk(project.root)
    yield check_processor(Path("/proc/cpuinfo"))
    yield from check_emulators()
    yield check_lambda_python()
    yield _check_program(
        "sam",
        "deploying, and sam local invoke",
        choose_command("make sam", "pip install aws-sam-cli"),
        project.root / ".venv-sam" / "bin" / "sam",
    )
    yield _check_program("node", "wasm, bindings --lang node", "apt-get install nodejs")
    yield check_aws(os.environ, Path.home() / ".aws")


def check_python(version: tuple[int, int], has_venv: bool) -> Finding:
    """Check the Python that runs this. ``has_venv``: whether it runs in a virtual environment, or can make one."""
    first, last = PYTHONS
    supported = first <= version <= last
    text = ".".join(map(str, version))
    if supported and not has_venv and CHECKOUT:
        return Finding("Python", False, f"{text} without venv", "everything", f"apt-get install python{text}-venv")
    remedy = (
        ""
        if supported
        else choose_command(
            f"make PYTHON=python{last[0]}.{last[1]} setup", f"uvx --python {last[0]}.{last[1]} coldforge"
        )
    )
    return Finding("Python", supported, text, "everything", remedy)


def _can_make_environments() -> bool:
    return sys.prefix != sys.base_prefix or importlib.util.find_spec("ensurepip") is not None


def check_packages(version_of: Callable[[str], str]) -> Finding:
    """Check the packages. ``version_of`` returns an installed one's version, or raises PackageNotFoundError."""
    versions, missing = [], []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version_of(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    text = ", ".join(versions) if not missing else f"no {', '.join(missing)}"
    return Finding("packages", not missing, text, "every command outside Docker", setup_command() if missing else "")


def check_docker(image: BuilderImage) -> Iterator[Finding]:
    """Check for an engine, and if one answers, for everything that ``image`` is built with."""
    needed_for = "bundle --in docker"
    instead = f"or build with {route_option('host')}"
    engine = why_no_engine()
    yield Finding(
        "Docker",
        not engine,
        engine or "an engine answers",
        f"{needed_for}, make local-invoke",
        f"start Docker, {instead}" if engine else "",
    )
    if engine:
        yield Finding("builder image", False, "needs an engine", needed_for)
        return
    buildkit, missing = why_no_buildkit(), image.why_unavailable()
    remedy = f"install that package, {instead}" if buildkit else ""
    yield Finding("buildx", not buildkit, buildkit or "builds images", needed_for, remedy)
    text = (
        ("needs buildx" if buildkit else "its base is out of reach") if missing else f"here, or made from {image.base}"
    )
    remedy = f"{missing}: name another base with COLDFORGE_BASE_IMAGE, {instead}" if missing and not buildkit else ""
    yield Finding("builder image", not missing, text, needed_for, remedy)


def check_sandbox(kernel: KernelFeatures) -> Finding:
    """Check the kernel for all that confines other people's models."""
    line = kernel.describe_missing({})
    remedy = "build in Docker, or on Linux 6.2 or newer" if line else ""
    return Finding("sandbox", not line, str(kernel), "models of others", remedy)


def check_memory(meminfo: Path) -> Finding:
    """Check the memory. ``meminfo``: a file as Linux writes it, in kB."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, LookupError, ValueError):
        return Finding("memory", True, "not known here", "bundle")
    remedy = "" if free >= LEAST_MEMORY else f"close other programs: a build takes about {_format_size(LEAST_MEMORY)}"
    return Finding("memory", not remedy, f"{_format_size(free)} available", "bundle", remedy)


def check_disk(folder: Path) -> Finding:
    """Check the disk of ``folder``."""
    free = shutil.disk_usage(folder).free
    remedy = "" if free >= LEAST_DISK else f"free {_format_size(LEAST_DISK)} there; {CLEANING} what builds keep"
    return Finding("disk", not remedy, f"{_format_size(free)} free in {folder}", "setup, bundle", remedy)


def check_processor(cpuinfo: Path) -> Finding:
    """Check the processor. ``cpuinfo``: a file as Linux writes it."""
    try:
        words = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "").split()
    except OSError:
        words = []
    if not words:
        return Finding("processor", True, platform.machine(), "verifying")
    has = [feature for feature in FEATURES if feature in words]
    fits = set(FEATURES[:2]) <= set(has)
    remedy = "" if fits else "build on a processor of 2013 or later: the library cannot be run here"
    return Finding(
        "processor", fits, f"{platform.machine()} with {', '.join(has) or 'none of its kernels'}", "verifying", remedy
    )


def check_emulators() -> Iterator[Finding]:
    """Check for QEMU for each target that this machine is not."""
    for target in TARGETS:
        if target.emulator and platform.machine().lower() not in target.machines:
            program, root = find_emulator(target.emulator)
            runnable = program is not None and has_c_library(root)
            remedy = "" if runnable else f"apt-get install {target.emulator.packages}"
            state = str(program) if runnable else "no QEMU for it, so its libraries are built and not run"
            yield Finding(f"{target.name} here", runnable, state, f"bundle --target {target.name}", remedy)


def check_lambda_python() -> Finding:
    """Check for the version of Python that Lambda runs the function on."""
    python = find_python()
    remedy = "" if python.matches_lambda else f"pyenv install {LAMBDA_PYTHON}, or uv python install {LAMBDA_PYTHON}"
    text = str(python.path) if python.matches_lambda else f"invoke and serve run on Python {python.version} instead"
    return Finding(
        f"Lambda's Python {LAMBDA_PYTHON}", python.matches_lambda, text, "invoke and serve as in Lambda", remedy
    )


def check_aws(environment: Mapping[str, str], folder: Path) -> Finding:
    """Check for credentials and a region; their values are not read or shown."""
    profile = environment.get("AWS_PROFILE", "default")
    named = "AWS_ACCESS_KEY_ID" in environment or "AWS_WEB_IDENTITY_TOKEN_FILE" in environment
    text = "".join(
        path.read_text(errors="replace") for name in ("credentials", "config") if (path := folder / name).is_file()
    )
    credentials = named or f"[{profile}]" in text or f"[profile {profile}]" in text
    region = "AWS_REGION" in environment or "AWS_DEFAULT_REGION" in environment or "region" in text
    state = f"{'credentials' if credentials else 'no credentials'}, {'a region' if region else 'no region'}"
    complete = credentials and region
    return Finding("AWS", complete, state, "deploying, publish", "" if complete else "aws configure")


def _check_program(name: str, needed_for: str, remedy: str, own: Path | None = None) -> Finding:
    path = str(own) if own and own.exists() else shutil.which(name)
    return Finding(name, path is not None, path or "not on PATH", needed_for, "" if path else remedy)


def _format_size(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
