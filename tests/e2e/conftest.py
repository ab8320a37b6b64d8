"""What the end-to-end tests share: an engine, the images, and a copy of the project to build in.

Without an engine every test here is skipped, and the run's summary says why. The engine and its clients'
environment last for this package only: other tests are to build on the host.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.base.cache import file_digest
from builder.base.project import Project
from builder.base.targets import DEFAULT
from builder.config import read_spec
from builder.package.bundle import Bundle
from builder.pipeline.docker.docker_client import BuilderImage, run_docker
from builder.pipeline.docker.docker_run import DockerBuild, bundle_in_docker, scratch_of
from builder.sources import locate_model
from tests.conftest import active_bundle
from tests.support.aws import LocalAws, local_aws
from tests.support.docker import images
from tests.support.docker.engine import Engine, NoEngine, running
from tests.support.needs import missing

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
_REASON = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: needs a Docker engine, and starts one where it can")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(1800))  # images are built in it


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reason = config.stash.get(_REASON, None)
    if reason:
        terminalreporter.section("NO DOCKER: the end-to-end tests did not run", red=True, bold=True)
        terminalreporter.line(reason)


@pytest.fixture(scope="package")
def package_engine(pytestconfig: pytest.Config) -> Iterator[Engine | None]:
    """The engine, or None when there can be none."""
    try:
        context = running(ROOT / "build" / "e2e" / "docker")
        engine = context.__enter__()
    except NoEngine as error:
        pytestconfig.stash[_REASON] = str(error)
        yield None
        return
    try:
        yield engine
    finally:
        context.__exit__(None, None, None)


@pytest.fixture(scope="package", autouse=True)
def engine(package_engine: Engine | None, pytestconfig: pytest.Config) -> Engine:
    """The engine; its clients' environment is set while the tests run."""
    if package_engine is None:
        missing(pytestconfig.stash[_REASON])
    return package_engine


@pytest.fixture(scope="package")
def builder_image(engine: Engine) -> str:
    """The tag of the builder image, on the stand-in base where this run has an engine of its own."""
    if engine.private:
        os.environ.setdefault("COLDFORGE_BASE_IMAGE", images.amazonlinux())
    return BuilderImage.from_environment(ROOT / "requirements" / "build.txt").ensure_built()


@pytest.fixture(scope="package")
def lambda_image(engine: Engine) -> str:
    """Lambda's python3.13 image: AWS's own where the engine has it or can fetch it, or else the stand-in."""
    if not engine.private:
        run_docker("pull", images.LAMBDA_TAGS[0])
    tag = images.lambda_runtime()
    if images.is_stand_in(images.LAMBDA_TAGS[1]):  # which has no registry's digest
        os.environ.setdefault("COLDFORGE_LAMBDA_IMAGE", images.LAMBDA_TAGS[1])
    return tag


@pytest.fixture(scope="module")
def emotion() -> Iterator[Bundle]:
    """The emotion network's bundle, made the active one again: `make bundle` of another model had replaced it."""
    with active_bundle("emotion") as bundle:
        yield bundle


@pytest.fixture(scope="package")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of its own: these builds leave the bundle and the active layer of the checkout alone."""
    root = tmp_path_factory.mktemp("project") / "coldforge"
    root.mkdir()
    root.parent.chmod(0o755)  # pytest's are 0700
    return Project(root)


@dataclass(frozen=True)
class Routes:
    """One model built both ways. ``host``: SHA-256 of the host's libmodel.so; ``statement``: the host's provenance;
    ``golden``: TensorFlow's answers; ``said``: Docker's progress."""

    host: str
    statement: str
    docker: DockerBuild
    golden: Path
    said: tuple[str, ...]


@pytest.fixture(scope="package")
def routes(project: Project, builder_image: str) -> Routes:
    done = subprocess.run(
        [sys.executable, "-m", "builder.cli", "-C", str(project.root), "bundle", "emotion", "--in", "host"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    bundle = Bundle.load(project.dist / "emotion")
    host, statement = file_digest(bundle.library), bundle.statement.read_text(encoding="utf-8")
    said: list[str] = []
    spec = read_spec(project.examples / "emotion" / "model.toml")
    built = bundle_in_docker(spec, project, said.append)
    scratch = scratch_of(spec, project, locate_model(spec, project.cache), DEFAULT)
    # Another model of this name, which a test mounts, takes the place of the folder.
    imported = shutil.copytree(scratch / "build" / "emotion" / "import", project.root / "imported")
    return Routes(host, statement, built, imported / "golden.npz", tuple(said))


@pytest.fixture(scope="package")
def local(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """A local AWS whose functions run in this engine, and reach it over the engine's bridge."""
    subprocess.run(["make", "--silent", ".venv-aws/.done"], cwd=ROOT, check=True)
    with local_aws(tmp_path_factory.mktemp("aws") / "log", _bridge_address()) as running_aws:
        yield running_aws


def _bridge_address() -> str:
    """This machine's address on the engine's bridge; the loopback's where it has none, as with Docker Desktop."""
    subnet = run_docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Subnet}}").stdout.strip()
    with socket.socket() as probe, contextlib.suppress(OSError, ValueError):
        address = str(ipaddress.ip_network(subnet)[1])
        probe.bind((address, 0))
        return address
    return "127.0.0.1"
