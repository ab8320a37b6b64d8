"""Weights that come from S3 into memory while the function starts; boto3 is real, S3 is a server of the test's."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from builder.compiler.emit.write_weights import CHUNK, HEADER, write_weights_file
from builder.compiler.weights_file import Layout
from handler import weights
from handler.errors import StartupError
from handler.model import Model
from tests.conftest import ROOT
from tests.support import s3
from tests.support.outside import build, program, values

PIECES = 3
ITEMS = (PIECES * CHUNK - 64) // 4
NAME = "models/outside.weights"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without weights beside it."""
    made = build(tmp_path_factory.mktemp("outside"), items=ITEMS)[0]
    made.weights.rename(made.folder / "elsewhere")
    return made.path


@pytest.fixture
def storage(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3.Bucket]:
    """An S3 with the weights of ``library`` in it, where the function looks for them."""
    with s3.serving() as bucket:
        bucket.objects[NAME] = (library.parent / "elsewhere").read_bytes()
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("COLDFORGE_WEIGHTS", "s3://models/")
        yield bucket


def copied(library: Path) -> np.ndarray:
    opened = Model(str(library))
    found = np.frombuffer(opened.run([bytes(4)])[0], np.float32)
    opened.close()
    return found


def test_every_piece_is_fetched_into_its_place(library: Path, storage: s3.Bucket) -> None:
    np.testing.assert_array_equal(copied(library), values(0, ITEMS))
    assert storage.requests == [f"GET {NAME}"] * (1 + PIECES)


def test_processes_that_share_an_environment_fetch_once_and_map_one_file(
    library: Path, storage: s3.Bucket, tmp_path: Path
) -> None:
    """As on Managed Instances: all start at once, each opens the model, and one of them transfers the weights."""
    code = (
        "import sys, numpy; from handler import weights; from handler.model import Model\n"
        "weights.TEMPORARY = sys.argv[2]; model = Model(sys.argv[1])\n"
        "maps = [line.split()[5] for line in open('/proc/self/maps') if line.rstrip().endswith('.weights')]\n"
        "print(numpy.frombuffer(model.run([bytes(4)])[0], numpy.float32)[:2].tolist(), *set(maps))"
    )
    command = [sys.executable, "-c", code, str(library), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AWS_LAMBDA_MAX_CONCURRENCY": "4"}
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {process.communicate(timeout=100)[0] for process in started}
    (kept,) = tmp_path.glob("coldforge-*.weights")
    assert said == {f"{values(0, ITEMS)[:2].tolist()} {kept}\n"}
    assert storage.requests == [f"GET {NAME}"] * (1 + PIECES)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_process_that_died_while_it_fetched_leaves_nothing_in_the_way(
    library: Path, storage: s3.Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "TEMPORARY", str(tmp_path))
    monkeypatch.setenv("AWS_LAMBDA_MAX_CONCURRENCY", "2")
    good, storage.objects[NAME] = storage.objects[NAME], b"no weights"
    with pytest.raises(StartupError, match="not a weights file"):
        Model(str(library))
    (part,) = tmp_path.glob("*.part")
    part.write_bytes(b"half of something" * 1000)
    storage.objects[NAME] = good
    np.testing.assert_array_equal(copied(library), values(0, ITEMS))
    assert not list(tmp_path.glob("*.part"))


def test_a_disk_that_is_full_is_said(
    library: Path, storage: s3.Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(weights, "TEMPORARY", str(tmp_path))
    monkeypatch.setenv("AWS_LAMBDA_MAX_CONCURRENCY", "2")
    with pytest.raises(StartupError, match="more ephemeral storage"):
        Model(str(library))


def test_a_whole_address_names_the_object(library: Path, storage: s3.Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.objects["other/v 2"] = storage.objects.pop(NAME)
    monkeypatch.setenv("COLDFORGE_WEIGHTS", "s3://other/v 2")
    np.testing.assert_array_equal(copied(library), values(0, ITEMS))


def test_what_s3_asks_to_try_again_is_tried_again(library: Path, storage: s3.Bucket) -> None:
    storage.failing[NAME] = [503]
    np.testing.assert_array_equal(copied(library), values(0, ITEMS))


def test_pieces_that_break_off_are_fetched_again(
    library: Path, storage: s3.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = weights._parse_header

    def and_then_cut(*arguments: object) -> object:
        storage.cut = 2
        return header(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(weights, "_parse_header", and_then_cut)
    np.testing.assert_array_equal(copied(library), values(0, ITEMS))
    assert len(storage.requests) == 1 + PIECES + 2


@pytest.mark.parametrize("place", ["list", "first", "last"])
def test_damage_is_found(library: Path, storage: s3.Bucket, place: str) -> None:
    data = bytearray(storage.objects[NAME])
    at = {"list": HEADER.size + 40, "first": HEADER.unpack_from(data)[2], "last": len(data) - 65}[place]
    data[at] ^= 1
    storage.objects[NAME] = bytes(data)
    with pytest.raises(StartupError, match="damaged"):
        Model(str(library))


@pytest.mark.parametrize(
    ("start", "size", "piece"),
    [(128, 0, 0), (128, 0, 1 << 20), (128, 5, 0), (0, 5, 5), (HEADER.size - 1, 5, 5), (65_537, 5, 5)],
)
def test_a_header_that_makes_no_sense_is_damage(start: int, size: int, piece: int) -> None:
    """Pieces of no bytes were a traceback, and so was a file of none."""
    hashes = bytes(32) * (-(-size // piece) if piece else 0)
    fields = [b"CFWEIGHT", 1, start, size, bytes(32), piece, hashlib.sha256(hashes).digest()]
    first = (weights.HEADER.pack(*fields) + hashes).ljust(weights.FIRST, b"\0")
    with pytest.raises(StartupError, match="it are damaged"):
        weights._parse_header(first, "it", bytes(32).hex())


@pytest.mark.parametrize("length", [-1, 1])
def test_an_object_of_another_length_than_its_header_says_is_damage(
    library: Path, storage: s3.Bucket, length: int
) -> None:
    """Found before there is memory for what the header says, which may be any size."""
    data = storage.objects[NAME]
    storage.objects[NAME] = data[:-1] if length < 0 else data + b"\0"
    with pytest.raises(StartupError, match="damaged"):
        Model(str(library))
    assert len(storage.requests) == 1


def test_other_weights_are_refused_before_they_are_fetched(library: Path, storage: s3.Bucket, tmp_path: Path) -> None:
    write_weights_file(program(1, ITEMS), Layout(4 * ITEMS, "another", "model"), tmp_path / "other")
    storage.objects[NAME] = (tmp_path / "other").read_bytes()
    with pytest.raises(StartupError, match="belong to another model"):
        Model(str(library))
    assert len(storage.requests) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot be fetched"), (b"", "not a weights file"), (b"hello" * 100, "not a weights file")],
)
def test_what_is_not_there_or_no_weights_is_said(
    library: Path, storage: s3.Bucket, content: bytes | None, says: str
) -> None:
    del storage.objects[NAME]
    if content is not None:
        storage.objects[NAME] = content
    with pytest.raises(StartupError, match=says) as caught:
        Model(str(library))
    assert "s3://models/outside.weights" in str(caught.value)


def test_a_new_object_in_the_middle_is_no_mixture(
    library: Path, storage: s3.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = weights._parse_header

    def and_then_replaced(*arguments: object) -> object:
        storage.objects[NAME] += b"\0"
        return header(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(weights, "_parse_header", and_then_replaced)
    with pytest.raises(StartupError, match="PreconditionFailed"):
        Model(str(library))


def test_the_list_of_hashes_is_what_the_pieces_have(storage: s3.Bucket) -> None:
    data = storage.objects[NAME]
    start = HEADER.unpack_from(data)[2]
    _, size, piece, hashes = weights._parse_header(data[: weights.FIRST], "", HEADER.unpack_from(data)[4].hex())
    assert (size, piece, len(hashes)) == (len(data) - start, CHUNK, PIECES)
    assert hashes[1] == hashlib.sha256(data[start + piece : start + 2 * piece]).digest()


def test_what_a_mapped_file_needs_loads_no_client(library: Path) -> None:
    code = (
        "import sys; from handler.model import Model; Model(sys.argv[1]); "
        "print([m for m in ('boto3', 'botocore', 'concurrent.futures', 'ssl') if m in sys.modules])"
    )
    environment = {**os.environ, "COLDFORGE_WEIGHTS": str(library.parent / "elsewhere"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(library)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
