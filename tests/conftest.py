"""Which tests run together, and bundles that several share, built once with the commands a user runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from builder.base.project import Project
from builder.package.bundle import Bundle
from builder.package.dependencies import build_dependencies
from tests.support import needs, schedule

ROOT = Path(__file__).resolve().parents[1]

for variable in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
    os.environ.pop(variable, None)  # `make test` sets them, and a make that a test runs would answer otherwise

settings.register_profile("default", deadline=None)  # a busy machine is no failure
settings.register_profile("long", max_examples=5_000, deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)  # new findings belong to `make fuzz`
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))


_GROUPS = pytest.StashKey[Path]()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Before pytest chooses by markers."""
    schedule.mark(item)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=schedule.rank)


@pytest.hookimpl(tryfirst=True)  # before xdist says that the tests are collected
def pytest_collection_finish(session: pytest.Session) -> None:
    if path := getattr(session.config, "workerinput", {}).get("groups"):
        schedule.write_groups(Path(path), session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    stash = node.config.stash
    if _GROUPS not in stash:
        stash[_GROUPS] = Path(tempfile.mkdtemp(prefix="coldforge-tests-")) / "groups.json"
    node.workerinput["groups"] = str(stash[_GROUPS])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> schedule.GroupScheduling:
    return schedule.GroupScheduling(config, log, config.stash[_GROUPS])


def pytest_unconfigure(config: pytest.Config) -> None:
    if path := config.stash.get(_GROUPS, None):
        shutil.rmtree(path.parent, ignore_errors=True)


@contextmanager
def checkout_lock() -> Iterator[None]:
    """No other test process builds in this checkout meanwhile. Not reentrant."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "tests.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_bundle(model: str, target: str = "") -> Bundle:
    """``make bundle MODEL=... TARGET=...`` in this checkout; of all targets, the bundle of x86_64."""
    with checkout_lock():
        return _make_bundle(model, target)


@contextmanager
def active_bundle(model: str) -> Iterator[Bundle]:
    """The bundle of ``model``, whose layer is the active one of this checkout and stays it meanwhile."""
    with checkout_lock():
        yield _make_bundle(model)


def have_dependencies() -> Path:
    """The dependencies layer of this checkout, built once for all test processes."""
    return build_dependencies(Project(ROOT))[1]


def _make_bundle(model: str, target: str = "") -> Bundle:
    done = subprocess.run(
        ["make", "bundle", f"MODEL={model}", "BUILD_IN=host", f"TARGET={target}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Bundle.load(ROOT / "dist" / (f"{model}-arm64" if target == "arm64" else model))


def pytest_runtest_teardown() -> None:
    """tfcompile writes into the current folder, so what compiles in this process changes it: not for the next test."""
    os.chdir(ROOT)


@pytest.fixture
def node_js() -> str:
    """The path of Node.js."""
    return needs.node()


@pytest.fixture(scope="session")
def emotion() -> Bundle:
    """The trained emotion network, whose layer is then the active one."""
    return make_bundle("emotion")


@pytest.fixture(scope="session")
def digits() -> Bundle:
    """The digits network, trained here."""
    return make_bundle("digits")
