"""One maker at a time, whole content or none, and what the disk refuses as an error that a person can act on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builder.base.disk import disk_error, disk_errors
from builder.base.errors import ColdforgeError, DiskError, LinkError
from builder.base.files import lock_target, replace_file, replace_folder, scratch_folder, write_file
from tests.conftest import ROOT

STAGE = """
import sys, time
from pathlib import Path
from builder.base.cache import run_cached

def build(fresh):
    print("building", flush=True)
    for number in range(50):
        (fresh / str(number)).write_text(sys.argv[2])
    sys.stdin.readline()

run_cached(Path(sys.argv[1]), sys.argv[2], build, lambda line: print(line, flush=True))
print("there", flush=True)
"""


def stage(folder: Path, key: str) -> subprocess.Popen[str]:
    """Another process that makes a stage, and goes on when it gets a line."""
    command = [sys.executable, "-c", STAGE, str(folder), key]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.mark.parametrize(("key", "then"), [("one", "there"), ("two", "building")])
def test_the_second_waits_and_says_for_whom(tmp_path: Path, key: str, then: str) -> None:
    """And finds what the first has built, or builds what it wants itself."""
    first = stage(tmp_path / "stage", "one")
    assert says(first) == "building"
    second = stage(tmp_path / "stage", key)
    assert says(second) == f"waiting for process {first.pid}, which is working on {tmp_path / 'stage'}"
    first.communicate("\n", timeout=60)
    assert says(second) == then
    second.communicate("\n", timeout=60)
    assert first.returncode == second.returncode == 0
    assert {p.read_text() for p in (tmp_path / "stage").iterdir() if p.name != ".key"} == {key}
    assert [p.name for p in tmp_path.iterdir()] == ["stage"]


def test_a_killed_maker_holds_nobody_up(tmp_path: Path) -> None:
    first = stage(tmp_path / "stage", "one")
    assert says(first) == "building"
    second = stage(tmp_path / "stage", "two")
    assert says(second).startswith("waiting")
    first.send_signal(signal.SIGKILL)
    assert says(second) == "building"
    second.communicate("\n", timeout=60)
    assert first.wait() == -signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir()] == ["stage"]


def test_many_at_once_make_one_whole_thing(tmp_path: Path) -> None:
    processes = [stage(tmp_path / "stage", key) for key in ("one", "two", "one", "two")]
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(60) for process in processes] == [0] * 4
    content = {p.read_text() for p in (tmp_path / "stage").iterdir() if p.name != ".key"}
    assert content in ({"one"}, {"two"})
    assert [p.name for p in tmp_path.iterdir()] == ["stage"]
    for process in processes:
        process.communicate()


def test_what_another_is_making_is_left_alone(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "other") as mine:
        write_file(tmp_path / "file", "content")
        with replace_folder(tmp_path / "folder") as fresh:
            (fresh / "x").touch()
        assert mine.is_dir()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_a_lock_is_not_confused_by_one_that_was_deleted(tmp_path: Path) -> None:
    """`make clean` during a build: the next build has a lock of its own."""
    with lock_target(tmp_path / "stage"):
        (tmp_path / ".stage.lock").unlink()
        with lock_target(tmp_path / "stage"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_with_its_permissions_and_through_links(tmp_path: Path) -> None:
    write_file(tmp_path / "real", "one")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "two"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


def test_a_device_is_written_to_as_it_is() -> None:
    before = Path("/dev/null").stat()
    write_file(Path("/dev/null"), "content")
    assert (Path("/dev/null").stat().st_ino, Path("/dev/null").stat().st_mode) == (before.st_ino, before.st_mode)


def test_a_file_that_fails_stays_as_it_was(tmp_path: Path) -> None:
    write_file(tmp_path / "file", "one")

    def fail() -> None:
        with replace_file(tmp_path / "file") as fresh:
            fresh.write_text("half")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert (tmp_path / "file").read_text() == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, r"no space is left for /there/file \([\d,.]+ MB free\).*make clean"),
        (errno.EDQUOT, r"quota is used up at /there/file.*make clean"),
        (errno.EROFS, "/there/file is on a read-only file system"),
        (errno.EACCES, r"may not use /there/file.*`ls -ld /`"),
        (errno.EPERM, "may not use /there/file"),
        (errno.EMFILE, r"too many files are open in this process.*ulimit -n"),
        (errno.ENFILE, "too many files are open on this machine"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EIO, "the disk of /there/file fails"),
    ],
)
def test_what_the_disk_refuses_names_the_place_and_the_next_step(number: int, says: str) -> None:
    def refuse() -> None:
        with disk_errors(Path("/somewhere")):
            raise OSError(number, os.strerror(number), "/there/file")

    with pytest.raises(DiskError, match=f"(?s){says}"):
        refuse()


def test_a_write_names_no_file_so_the_folder_is_named(tmp_path: Path) -> None:
    found = disk_error(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert str(found).startswith(f"no space is left for {tmp_path} (")


def test_other_programs_say_it_in_their_words(tmp_path: Path) -> None:
    for words in ("ld.lld: error: cannot write: No space left on device", "error: NoSpaceLeft"):
        found = disk_error(LinkError(words), tmp_path)
        assert str(found).startswith("no space is left for")
        assert words in str(found)


def test_what_the_disk_has_no_part_in_passes_through(tmp_path: Path) -> None:
    for error in (LinkError("undefined symbol"), FileNotFoundError(errno.ENOENT, "none", "x"), ValueError("no")):
        assert disk_error(error, tmp_path) is None


def test_every_failure_has_an_exit_code_of_its_own() -> None:
    codes = [kind.exit_code for kind in ColdforgeError.__subclasses__()]
    assert len(set(codes)) == len(codes)


def test_a_stage_that_the_system_cuts_short(tmp_path: Path) -> None:
    """A real limit, RLIMIT_FSIZE, in a process of its own."""
    code = (
        "import resource, sys; from pathlib import Path; from builder.base.cache import run_cached; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "run_cached(Path(sys.argv[1]), 'k', lambda fresh: (fresh / 'large').write_bytes(bytes(10_000)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "stage")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "DiskError: a file in " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_ends_without_a_traceback() -> None:
    """Out of file descriptors before anything is read."""
    code = (
        "import resource, sys; from builder.cli import main; import builder.cli.inspect_commands; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); sys.exit(main(['explain', 'digits']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == DiskError.exit_code
    assert done.stderr.startswith("coldforge: too many files are open in this process")
    assert "Traceback" not in done.stderr
