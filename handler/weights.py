"""Weights outside the library, from where ``COLDFORGE_WEIGHTS`` says: a mapped file, or memory filled from S3.

The module is imported at the start only for a model that has such weights, and boto3 only for weights in S3. The file's
format is in builder/compiler/emit/write_weights.py. A mapped file is read as it is needed, so only its header is
checked. Weights from S3 are checked whole, piece by piece, by threads that hash one piece while others are on their
way. Where several processes share an environment (``processes``), they go into one file that all of them map.
"""

# pathlib would be imported for this alone
# ruff: noqa: PTH104, PTH110, PTH112, PTH118

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
from contextlib import closing, suppress

from ._abi import ffi
from .errors import StartupError
from .processes import choose_thread_count, count_processes
from .typed import Any

VARIABLE = "COLDFORGE_WEIGHTS"

HEADER = struct.Struct("<8sIIQ32sQ32s")
MAGIC = b"CFWEIGHT"
FIRST = 65_536
"""Bytes of the first request, enough for the header and the hashes of 16 GB."""
TEMPORARY = "/tmp"
AT_ONCE = 12
ATTEMPTS = 3


def open_with_weights(library: Any, handle: Any, name: str, layout: str) -> tuple[int, Any, str]:
    """Open the model ``name``: return (status, memory to keep while it is open, the place of its weights).

    ``handle``: a cf_model **. ``layout``: the layout of weights that the library needs. Raises StartupError.
    """
    place = os.environ.get(VARIABLE, "")
    if place.endswith("/") or os.path.isdir(place):
        place = os.path.join(place, f"{name}.weights")
    if place.startswith("s3://") and count_processes() > 1:
        return library.cf_open_file(choose_thread_count(), fetch_shared(place, layout).encode(), handle), None, place
    if place.startswith("s3://"):
        memory = download_weights(place, layout)
        return library.cf_open_memory(0, ffi.from_buffer(memory), len(memory), handle), memory, place
    if place:
        return library.cf_open_file(choose_thread_count(), place.encode(), handle), None, place
    return library.cf_open(choose_thread_count(), handle), None, "beside the library"


def fetch_shared(address: str, layout: str) -> str:
    """Return a file of the weights at ``s3://bucket/key`` for all processes to map, fetched by the first of them.

    The others wait for it. Its name identifies its weights, so an existing file is the right one. Raises
    StartupError.
    """
    path = os.path.join(TEMPORARY, f"coldforge-{layout}.weights")
    try:
        # The lock ends with the process that holds it, however that ends.
        with open(f"{path}.lock", "wb", opener=_open_private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(path):
                with open(f"{path}.part", "w+b", opener=_open_private) as part:
                    download_weights(address, layout, part.fileno()).close()
                os.rename(f"{path}.part", path)
    except OSError as error:
        raise StartupError(
            f"the weights cannot be kept in {TEMPORARY}, where all processes share them: {error}."
        ) from error
    return path


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def download_weights(address: str, layout: str, file: int | None = None) -> mmap.mmap:
    """Load the whole file at ``s3://bucket/key`` into memory without a disk behind it, or into the open ``file``.

    Raises StartupError.
    """
    from .powertools import announce_powertools

    announce_powertools()
    from concurrent.futures import ThreadPoolExecutor

    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = address.removeprefix("s3://").partition("/")
    config = Config(
        connect_timeout=3,
        read_timeout=10,
        max_pool_connections=AT_ONCE,
        retries={"mode": "standard", "total_max_attempts": 3},
    )
    try:
        with closing(boto3.client("s3", config=config)) as client:
            answer = client.get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{FIRST - 1}")
            with answer["Body"] as body:
                first: bytes = body.read()
            start, size, piece, hashes = _parse_header(first, address, layout)
            if answer.get("ContentRange") != f"bytes 0-{len(first) - 1}/{start + size}":  # before there is memory
                raise _make_damaged_error(address)
            memory = _allocate_memory(start + size, file)
            memory[:start] = first[:start]
            # Another object may replace this one meanwhile, and pieces of two would not fit together.
            source = {"Bucket": bucket, "Key": key, "IfMatch": answer["ETag"]}
            offsets = range(start, start + size, piece)
            pieces = [(at, min(piece, start + size - at), wanted) for at, wanted in zip(offsets, hashes, strict=True)]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for _ in pool.map(lambda piece: _fetch_piece(client, source, memory, *piece), pieces):
                    pass  # the first error cancels what has not begun
            return memory
    except (ClientError, BotoCoreError, OSError) as error:
        raise StartupError(f"the weights cannot be fetched from {address} ({error}): see {VARIABLE}.") from error


def _allocate_memory(size: int, file: int | None) -> mmap.mmap:
    """Allocate memory of ``size`` bytes, in the open ``file`` if there is one. Raises StartupError."""
    if file is not None:
        try:
            os.posix_fallocate(file, 0, size)  # on a full disk, a write to the memory would end the process
        except OSError as error:
            raise StartupError(
                f"there is no room in {TEMPORARY} for {size:,} bytes of weights, which all processes share: give the "
                "function more ephemeral storage."
            ) from error
        return mmap.mmap(file, size)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError, AttributeError):  # optional; it avoids most page faults while the memory is filled
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _parse_header(first: bytes, address: str, layout: str) -> tuple[int, int, int, list[bytes]]:
    """Return the offset of the weights, their bytes, a piece's bytes, and each piece's SHA-256. Raises StartupError."""
    if len(first) < HEADER.size or first[: len(MAGIC)] != MAGIC:
        raise StartupError(f"{address} is not a weights file of coldforge: name a model.weights with {VARIABLE}.")
    _, _, start, size, digest, piece, hashes_digest = HEADER.unpack_from(first)
    if digest.hex() != layout:
        raise StartupError(
            f"the weights at {address} belong to another model or another build: put the file there that was built "
            "with the library, or that `coldforge weights` made for it."
        )
    hashes = first[HEADER.size : HEADER.size + 32 * -(-size // piece)] if piece else b""
    if not (piece and size and HEADER.size <= start <= len(first)) or hashlib.sha256(hashes).digest() != hashes_digest:
        raise _make_damaged_error(address)
    return start, size, piece, [hashes[at : at + 32] for at in range(0, len(hashes), 32)]


def _fetch_piece(client: Any, which: dict[str, str], memory: mmap.mmap, offset: int, size: int, wanted: bytes) -> None:
    """Fetch one piece. Raises StartupError if it is damaged, or the client's own errors."""
    from botocore.exceptions import BotoCoreError

    piece = memoryview(memory)[offset : offset + size]
    problem: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            with client.get_object(**which, Range=f"bytes={offset}-{offset + size - 1}")["Body"] as body:
                filled = 0
                while filled < size and (count := body.readinto(piece[filled:])):
                    filled += count
            if filled == size and hashlib.sha256(piece).digest() == wanted:
                return
        except (BotoCoreError, OSError) as error:  # a broken connection; a refusal by S3 is a ClientError
            problem = error
    raise problem or _make_damaged_error(f"s3://{which['Bucket']}/{which['Key']}")


def _make_damaged_error(address: str) -> StartupError:
    return StartupError(f"the weights at {address} are damaged: put the file there again.")
