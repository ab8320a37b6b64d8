"""Whole builds that are doubled, out of disk or killed: real commands over one small model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.base.cache import compute_digest, file_digest
from builder.base.errors import DiskError
from tests.conftest import ROOT, have_dependencies
from tests.support import faults, needs
from tests.support.deliveries import PACKING
from tests.support.graphs import SMALL_GRAPH

pytestmark = pytest.mark.integration

SPEC = """\
[model]
source = "graph.pbtxt"
name = "small"
version = "{version}"

[[feeds]]
name = "x"
shape = [1, 4]

[[fetches]]
name = "y"
"""

SIZE_MB = 64


@dataclass(frozen=True)
class Checkout:
    """``small``: whether its file system is one of ``SIZE_MB``."""

    root: Path
    small: bool

    def spec(self, version: int | str) -> Path:
        path = self.root / f"{version}.toml"
        if not path.exists():  # a build may be reading it
            path.write_text(SPEC.format(version=version))
        return path

    def start(self, version: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "builder.cli", "-C", str(self.root), "bundle", str(self.spec(version))]
        pipe = subprocess.PIPE
        command += ["--in", "host"]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def bundle(self, version: int) -> tuple[int, str]:
        """The exit code of a build, and what it said."""
        process = self.start(version)
        _, said = process.communicate(timeout=300)
        return process.returncode, said

    @property
    def delivered(self) -> Path:
        return self.root / "dist" / "small"

    def rubbish(self) -> list[str]:
        """What no build means to leave."""
        found = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name != "ballast"]
            found += [f"{folder}/{name}" for name in (*folders, *files) if re.search(r"\.tmp-|\.lock$", name)]
        return found

    def require_whole(self, *versions: str) -> None:
        """The bundle is one build's: every file as its manifest says, and the active layer the same."""
        manifest = json.loads((self.delivered / "manifest.json").read_text())
        assert manifest["model"]["version"] in versions
        assert json.loads((self.delivered / "model.json").read_text())["model"].items() <= manifest["model"].items()
        for name, entry in manifest["files"].items():
            assert file_digest(self.delivered / name) == entry["sha256"], name
        assert compute_digest(self.root / "layers" / "model" / "content") == compute_digest(self.delivered / "layer")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """With a graph in it and nothing built but the dependencies layer; small where this user may mount."""
    root = tmp_path_factory.mktemp("checkout")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(root)]
    small = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        shutil.copytree(have_dependencies(), root / "build" / "dependencies")
        (root / "graph.pbtxt").write_text(SMALL_GRAPH)
        yield Checkout(root, small)
    finally:
        if small:
            subprocess.run(["umount", "--lazy", str(root)], check=True)


def test_two_builds_at_once_are_right(checkout: Checkout) -> None:
    """One builds, and the other waits and finds what it has built."""
    processes = [checkout.start(1) for _ in range(2)]
    said = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 2, "\n".join(said)
    # A lock says nothing of its holder until that has written its number.
    waiting = re.findall(
        r"waiting for (?:process (\d+)|another process), which is working on .*/build/small/build$",
        "\n".join(said),
        re.M,
    )
    assert len(waiting) == 1, "\n".join(said)
    assert {int(number) for number in waiting if number} <= {process.pid for process in processes}
    assert sorted(len(re.findall(r"^  import .* · cached$", s, re.M)) for s in said) == [0, 1], "\n".join(said)
    checkout.require_whole("1")
    assert checkout.rubbish() == []


def test_a_build_that_is_killed_while_programs_run_for_it(checkout: Checkout) -> None:
    """TensorFlow in its sandbox, and clang: for a moment they work for a builder that is no longer there."""
    if not checkout.delivered.exists():
        assert checkout.bundle(1)[0] == 0
    before = compute_digest(checkout.delivered)
    for stage in ("import", "link"):
        process = checkout.start(3)
        while not list((checkout.root / "build" / "small").glob(f"{stage}.tmp-*")):
            assert process.poll() is None, f"it ended before the stage {stage}"
            time.sleep(0.001)
        process.kill()
        process.communicate()
        assert compute_digest(checkout.delivered) == before
    assert checkout.bundle(3)[0] == 0
    checkout.require_whole("3")
    assert checkout.rubbish() == []


def test_a_full_disk_leaves_the_last_bundle_and_the_next_build_is_right(checkout: Checkout) -> None:
    """With more room, or more in place already, a build comes further: its import, library or bundle has no room."""
    if not checkout.small:
        needs.missing("a small file system (tmpfs) cannot be mounted: that takes root's rights")
    if not checkout.delivered.exists():
        assert checkout.bundle(1)[0] == 0
    assert failed_for_space(checkout, 4) == "import"
    assert failed_for_space(checkout, 200) == "link"
    assert checkout.bundle(2)[0] == 0
    assert failed_for_space(checkout, 8) == "pack"
    checkout.require_whole("2")
    assert checkout.bundle(2)[0] == 0
    checkout.require_whole("2")
    assert checkout.rubbish() == []


def failed_for_space(checkout: Checkout, kilobytes: int) -> str:
    """The stage at which version 2 fails, with that much space left. All is as before then."""
    before, ballast = compute_digest(checkout.delivered), checkout.root / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(checkout.root).free - (kilobytes << 10)))
    code, said = checkout.bundle(2)
    ballast.unlink()
    assert code == DiskError.exit_code, said
    assert re.search(rf"^coldforge: no space is left for {re.escape(str(checkout.root))}", said, re.M), said
    assert "Traceback" not in said
    assert compute_digest(checkout.delivered) == before
    assert checkout.rubbish() == []
    (stage,) = re.findall(r"^  (\w+) .* — failed$", said, re.M)
    return str(stage)


def test_a_bundle_that_is_killed_at_any_operation(checkout: Checkout, tmp_path: Path) -> None:
    """Packing and activating of a library that was really built."""
    if not checkout.delivered.exists():
        assert checkout.bundle(1)[0] == 0
    version = json.loads((checkout.delivered / "manifest.json").read_text())["model"]["version"]
    counts = faults.stop_everywhere(faults.build(tmp_path), f"{PACKING}{checkout.spec(version)}", tmp_path)
    assert counts["killed"] > 50
