"""What the builder asks of the fork server, and what comes back. Only the way there is a pickle."""

from __future__ import annotations

import json
import pickle
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.base.sandbox.job_limits import ProcessLimits
from builder.base.sandbox.kernel import KernelFeatures

_HEAD = struct.Struct("<Qd")
_STATUS = struct.Struct("<i?")


@dataclass(frozen=True)
class Job:
    """``function(*arguments)``, in the folder ``writes``, which it may write; it may read ``reads`` besides.

    The function gives nothing, or what JSON has a form for.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    writes: Path
    reads: tuple[Path, ...]
    limits: ProcessLimits
    kernel: KernelFeatures


@dataclass(frozen=True)
class JobRequest:
    """A job on its way. ``pickled``: opened in the child, so that the server stays as it was."""

    seconds: float
    pickled: bytes
    log: int
    answer: int


@dataclass(frozen=True)
class JobStatus:
    """How a child ended: its exit code, negative for a signal's number; whether it took too long."""

    code: int
    too_long: bool


def send_job(server: socket.socket, job: Job, log: int, answer: int) -> None:
    """``log`` and ``answer``: descriptors of files, for what the job prints and what it gives."""
    pickled = pickle.dumps(job)
    socket.send_fds(server, [_HEAD.pack(len(pickled), job.limits.seconds)], [log, answer])
    server.sendall(pickled)


def receive_request(client: socket.socket) -> JobRequest | None:
    """The next request, None at the end."""
    head, descriptors, _, _ = socket.recv_fds(client, _HEAD.size, 2)
    if len(head) < _HEAD.size or len(descriptors) != 2:
        return None
    size, seconds = _HEAD.unpack(head)
    pickled = _receive_exactly(client, size)
    return JobRequest(seconds, pickled, *descriptors) if len(pickled) == size else None


def send_status(client: socket.socket, status: JobStatus) -> None:
    client.sendall(_STATUS.pack(status.code, status.too_long))


def receive_status(server: socket.socket) -> JobStatus | None:
    """None where the server has ended."""
    found = _receive_exactly(server, _STATUS.size)
    return JobStatus(*_STATUS.unpack(found)) if len(found) == _STATUS.size else None


def _receive_exactly(stream: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (piece := stream.recv(size - len(found))):
        found += piece
    return bytes(found)


def encode_value(value: Any) -> bytes:
    """What a job gave."""
    return json.dumps({"value": value}).encode()


def encode_error(exit_code: int, message: str) -> bytes:
    """The ColdforgeError that a job raised."""
    return json.dumps({"error": exit_code, "message": message}).encode()
