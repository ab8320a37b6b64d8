"""What a hostile container, or a hostile model in the host's sandbox, may leave in its folder."""

from __future__ import annotations

import io
import itertools
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.base.errors import SandboxError
from builder.base.project import Project
from builder.base.targets import X86_64
from builder.base.untrusted_files import make_folder, require_regular
from builder.config import ModelSpec, Source
from builder.package.bundle import LIBRARY, list_bundle_files
from builder.pipeline.docker.docker_run import Mount, _relay_output, make_sandbox_options, scratch_of, take_bundle

REQUIRED, _ = list_bundle_files("evil")
SECRET = b"aws_secret_access_key = stand-in"
SIZES = {"components": [], "unzipped": 0, "zipped": 0, "max_unzipped": 1, "max_zipped": 1}


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """``dist/`` as a container leaves it, with a bundle of the model ``evil``; a secret is beside it."""
    bundle = tmp_path / "dist" / "evil"
    for name in (*REQUIRED, "layer.zip"):
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(name.encode())
    (bundle / "manifest.json").write_text(json.dumps({"sizes": SIZES}))
    (tmp_path / "home" / ".aws").mkdir(parents=True)
    (tmp_path / "home" / ".aws" / "credentials").write_bytes(SECRET)
    return tmp_path / "dist"


def take(dist: Path, limit: int = 1 << 20) -> Path:
    taken = dist.parent / "taken"
    taken.mkdir()
    take_bundle(dist, "evil", "evil", taken, limit)
    return taken


def test_a_bundle_is_taken_whole_and_with_the_modes_of_one(dist: Path) -> None:
    (dist / "evil" / "model.h").chmod(0o4777)
    taken = take(dist)
    found = {p.relative_to(taken).as_posix(): p for p in taken.rglob("*") if p.is_file()}
    assert set(found) == {*REQUIRED, "layer.zip"}
    assert {name: oct(p.stat().st_mode & 0o7777) for name, p in found.items()} == {
        name: oct(0o755 if name == f"layer/{LIBRARY}" else 0o644) for name in found
    }


def test_what_is_not_in_the_list_stays_where_it_is(dist: Path) -> None:
    (dist / "evil" / "layer" / "lib" / "more.so").write_bytes(b"more")
    (dist / "evil" / "layer" / "python").symlink_to(dist.parent / "home")
    taken = take(dist)
    assert not (taken / "layer" / "lib" / "more.so").exists()
    assert not (taken / "layer" / "python").exists()


def a_link(path: Path, home: Path) -> None:
    path.symlink_to(home / ".aws" / "credentials")


def a_link_to_a_file_beside(path: Path, home: Path) -> None:
    path.with_name("real").write_bytes(b"x")
    path.symlink_to("real")


def a_hard_link(path: Path, home: Path) -> None:
    path.hardlink_to(home / ".aws" / "credentials")


def a_pipe(path: Path, home: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path, home: Path) -> None:
    path.mkdir()


def a_socket(path: Path, home: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path is limited to 107 bytes
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.chdir(here)


def a_device(path: Path, home: Path) -> None:
    try:
        os.mknod(path, 0o020666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root makes devices")


def a_huge_file(path: Path, home: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


HOSTILE = {
    a_link: "a symbolic link",
    a_link_to_a_file_beside: "a symbolic link",
    a_hard_link: "a hard link elsewhere",
    a_pipe: "a named pipe",
    a_folder: "a folder",
    a_socket: "a socket",
    a_device: "a device",
    a_huge_file: "larger than a build's result",
}


@pytest.mark.parametrize("name", [f"layer/{LIBRARY}", "layer.zip", "manifest.json"])
@pytest.mark.parametrize("put", HOSTILE, ids=lambda f: f.__name__)
def test_what_is_no_regular_file_is_refused_by_name(put: Callable[[Path, Path], None], name: str, dist: Path) -> None:
    path = dist / "evil" / name
    path.unlink()
    put(path, dist.parent / "home")
    with pytest.raises(SandboxError, match=HOSTILE[put]) as error:
        take(dist)
    assert name in str(error.value)
    copied = [p for p in (dist.parent / "taken").rglob("*") if p.is_file()]
    assert SECRET not in [p.read_bytes() for p in copied]


@pytest.mark.parametrize("name", ["evil", "evil/layer", "evil/layer/lib"])
def test_a_folder_that_is_a_link_is_refused(name: str, dist: Path) -> None:
    folder = dist / name
    folder.rename(dist.parent / "elsewhere")
    folder.symlink_to(dist.parent / "elsewhere")
    with pytest.raises(SandboxError, match=f"{folder.name} is a symbolic link"):
        take(dist)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"sizes": 1}', '{"sizes": {}}', "\xff"])
def test_a_manifest_that_is_none_is_an_error_and_no_traceback(text: str, dist: Path) -> None:
    (dist / "evil" / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(SandboxError, match="no bundle"):
        take(dist)


def test_a_bundle_that_is_not_there_is_an_error(dist: Path) -> None:
    (dist / "evil" / "model.h").unlink()
    with pytest.raises(SandboxError, match="no bundle"):
        take(dist)


def test_all_files_together_are_limited(dist: Path) -> None:
    for name in ("model.h", "layer.zip"):
        (dist / "evil" / name).write_bytes(bytes(600_000))
    with pytest.raises(SandboxError, match="larger"):
        take(dist)


@pytest.mark.parametrize("put", [f for f in HOSTILE if f not in (a_folder, a_huge_file)], ids=lambda f: f.__name__)
def test_a_stages_folder_holds_regular_files_only(put: Callable[[Path, Path], None], dist: Path) -> None:
    require_regular(dist)
    put(dist / "evil" / "one", dist.parent / "home")
    with pytest.raises(SandboxError, match=HOSTILE[put]):
        require_regular(dist)


def test_a_stages_folder_has_no_folder_that_is_a_link(dist: Path) -> None:
    (dist / "evil" / "more").symlink_to(dist.parent / "home", target_is_directory=True)
    with pytest.raises(SandboxError, match="evil/more is a symbolic link"):
        require_regular(dist)


def test_a_mount_point_is_not_made_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "scratch" / "build").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "scratch" / "build" / "cache").symlink_to(tmp_path / "home")
    with pytest.raises(SandboxError, match="a symbolic link, not a folder"):
        make_folder(tmp_path / "scratch", "build/cache/models")
    assert list((tmp_path / "home").iterdir()) == []


def test_a_model_has_a_scratch_folder_of_its_own(tmp_path: Path) -> None:
    """By its content too: a hostile model with another's name must not choose what the other is made of."""
    project = Project(tmp_path)
    model = tmp_path / "model.keras"

    def scratch(name: str, content: str) -> Path:
        model.write_text(content)
        spec = ModelSpec(tmp_path / "model.toml", name, "1", Source("keras", model))
        made = scratch_of(spec, project, model, X86_64)
        (made / "cache").mkdir(exist_ok=True)
        return made

    first = scratch("one", "a")
    assert scratch("one", "a") == first
    assert scratch("two", "a") != first
    assert first.exists()
    second = scratch("one", "b")
    assert second not in (first, *first.parents)
    assert not first.exists()


def test_a_container_may_have_so_much_and_no_more() -> None:
    options = make_sandbox_options("1000:1000", [Mount(Path("/a"), Path("/b"))], memory=1 << 30)
    pairs = list(itertools.pairwise(options))
    for pair in (
        ("--network", "none"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--memory", str(1 << 30)),
        ("--memory-swap", str(1 << 30)),
        ("--pids-limit", "4096"),
    ):
        assert pair in pairs
    assert "--read-only" in options


def test_what_a_container_says_does_not_reach_the_terminal_as_commands() -> None:
    said: list[str] = []
    error = "coldforge: \x1b[2Jno\n" + "x" * (1 << 20) + "\n"
    message = _relay_output(io.StringIO(f"a\x1b]0;title\x07\u202eb\n{error}"), said.append)
    assert said == ["a\\x1b]0;title\\x07\\u202eb"]
    assert message.startswith("\\x1b[2Jno\nxxx")
    assert len(message) <= 1 << 17
