"""Which tests run together, and bundles that several share, built once with the commands a user runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

from builder.pack.bundle import Bundle
from tests.support import needs, parts

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile("long", max_examples=5_000, deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)  # new findings belong to `make fuzz`
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if parts.is_full(item.nodeid, item.name):
            item.add_marker(pytest.mark.full)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(parts.group(item)))
    items.sort(key=lambda item: parts.order(_group(item)))


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return str(marker.args[0]) if marker else ""


def make_bundle(model: str, target: str = "") -> Bundle:
    """``make bundle MODEL=... TARGET=...`` in this checkout; of all targets, the bundle of x86_64."""
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
