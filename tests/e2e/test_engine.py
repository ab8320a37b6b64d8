"""The engine that the other tests use, and that a private one leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from builder.base.errors import EnvironmentSetupError
from builder.pipeline.docker.docker_client import BuilderImage, run_docker, why_no_engine
from builder.pipeline.docker.route import Route, choose_route
from tests.support.docker import engine as engines
from tests.support.docker import images
from tests.support.docker.clients import client_without_buildx
from tests.support.docker.engine import Engine
from tests.support.process import stop

ROOT = Path(__file__).parents[2]


LOCK = ROOT / "requirements" / "build.txt"


def choose(build_in: str, base: str) -> tuple[Route, list[str]]:
    """The route for an image that is made from ``base``, and what was said about it."""
    lines: list[str] = []
    image = BuilderImage.from_environment(LOCK, {"COLDFORGE_BASE_IMAGE": base})
    return choose_route(build_in, [], image, lines.append), lines


def test_the_engine_answers(engine: Engine) -> None:
    assert why_no_engine() is None
    assert choose("auto", images.floor()) == choose("docker", images.floor()) == ("docker", [])
    assert choose("host", images.floor()) == ("host", [])


def test_without_an_engine_auto_is_the_host_and_docker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    floor = images.floor()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/socket")
    assert choose("auto", floor)[0] == "host"
    with pytest.raises(EnvironmentSetupError, match=r"no Docker engine answers \(Cannot connect[^$]*BUILD_IN=host"):
        choose("docker", floor)
    monkeypatch.setenv("DOCKER", "no-such-client")
    with pytest.raises(EnvironmentSetupError, match="no `no-such-client` on PATH"):
        choose("docker", floor)


def test_a_base_that_cannot_be_pulled_is_asked_for_before_anything_is_made(engine: Engine) -> None:
    route, lines = choose("auto", "registry.invalid/amazonlinux:2023")
    assert route == "host"
    assert len(lines) == 1
    assert "registry.invalid/amazonlinux:2023" in lines[0]


def test_a_client_without_buildx(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER", client_without_buildx(tmp_path, monkeypatch))
    route, lines = choose("auto", images.floor())
    assert route == "host"
    assert len(lines) == 1
    assert "buildx" in lines[0]
    with pytest.raises(EnvironmentSetupError, match="buildx"):
        BuilderImage.from_environment(LOCK, {"COLDFORGE_BASE_IMAGE": "never/made:1"}).ensure_built()


def test_the_floor_image_has_the_oldest_c_library_above_it(engine: Engine) -> None:
    done = run_docker("run", "--rm", images.floor(), "ldd", "--version")
    assert "2.36" in done.stdout.splitlines()[0], done.stderr


def test_the_lambda_image_is_laid_out_like_lambda(lambda_image: str) -> None:
    probe = "import sys, awslambdaric, boto3; print('%d.%d' % sys.version_info[:2], awslambdaric.__file__)"
    options = ["--rm", "--env", "PYTHONPATH=/var/runtime", "--entrypoint", "/var/lang/bin/python3.13"]
    done = run_docker("run", *options, lambda_image, "-c", probe)
    assert done.stdout.split() == ["3.13", "/var/runtime/awslambdaric/__init__.py"], done.stderr


def test_an_image_is_made_once(engine: Engine) -> None:
    def identity() -> str:
        return run_docker("image", "inspect", "--format", "{{.Id}}", images.floor()).stdout

    assert identity() == identity() != ""


@pytest.fixture
def own(engine: Engine) -> None:
    if not engine.private:
        pytest.skip("starts engines, which is only done where this run started its own")


@pytest.mark.usefixtures("own")
class TestPrivate:
    def test_it_leaves_nothing_when_a_test_fails(self, tmp_path: Path) -> None:
        folder = tmp_path / "docker"
        with pytest.raises(RuntimeError, match="as expected"), engines._private(folder) as second:  # noqa: PT012
            assert _version(second.environment)
            socket = Path(second.environment["DOCKER_HOST"].removeprefix("unix://"))
            raise RuntimeError("as expected")
        assert not socket.parent.exists()
        assert _traces(folder) == []

    def test_it_ends_with_a_killed_run_and_the_next_one_starts(self, tmp_path: Path) -> None:
        folder = tmp_path / "docker"
        script = f"""
            import time
            from pathlib import Path
            from tests.support.docker import engine
            with engine._private(Path({str(folder)!r})) as one:
                print(one.environment["DOCKER_HOST"], flush=True)
                time.sleep(600)
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as run:
            try:
                assert run.stdout
                socket = run.stdout.readline().strip().removeprefix("unix://")
                assert Path(socket).exists()
                run.send_signal(signal.SIGKILL)
            finally:
                stop(run)
        deadline = time.monotonic() + engines.STOP_SECONDS
        while _processes(folder) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert _processes(folder) == []
        with engines._private(folder) as again:
            assert _version(again.environment)
        assert not Path(socket).parent.exists()
        assert _traces(folder) == []

    def test_two_runs_do_not_share_one(self, tmp_path: Path) -> None:
        folder = tmp_path / "docker"
        with (
            engines._private(folder),
            pytest.raises(engines.NoEngine, match="another test run"),
            engines._private(folder),
        ):
            pytest.fail("a second engine over the same data")


def _version(environment: dict[str, str]) -> str:
    command = [engines.CLIENT, "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def _traces(folder: Path) -> list[str]:
    """Processes, mounts, network interfaces and packet filter rules of the engine whose data is in ``folder``."""
    bridge = engines._Bridge.of(folder.resolve())
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    listed = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for command in (["ip", "link"], ["iptables", "-S"], ["iptables", "-t", "nat", "-S"])
    ]
    network = bridge.address.rpartition(".")[0] + "."
    rest = [line for lines in listed for line in lines if bridge.name in line or network in line]
    return [*_processes(folder), *mounts, *rest]


def _processes(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0].endswith("dockerd") and str(folder / "data") in words:
            found.append(" ".join(words))
    return found
