"""Messages between the builder and the fork server. Only a request contains a pickle."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.base.sandbox.confinement import KernelFeatures, ProcessLimits

_HEAD = struct.Struct("<Qd")
_STATUS = struct.Struct("<i?")


@dataclass(frozen=True)
class Job:
    """A call ``function(*arguments)`` in the folder ``writes``, which it may write; it may read ``reads`` besides.

    The function returns None, or a value that JSON can represent.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    writes: Path
    reads: tuple[Path, ...]
    limits: ProcessLimits
    kernel: KernelFeatures


@dataclass(frozen=True)
class JobRequest:
    """A job as it is sent. ``pickled``: unpickled in the child alone, so that the server does not change."""

    seconds: float
    pickled: bytes
    log: int
    answer: int


@dataclass(frozen=True)
class JobStatus:
    """A child's exit code, negative for a signal's number, and whether it took too long."""

    code: int
    too_long: bool


def send_job(server: socket.socket, job: Job, log: int, answer: int) -> None:
    """Send a job; ``log`` and ``answer``: descriptors of files for its output and its result."""
    pickled = pickle.dumps(job)
    socket.send_fds(server, [_HEAD.pack(len(pickled), job.limits.seconds)], [log, answer])
    server.sendall(pickled)


def receive_request(client: socket.socket) -> JobRequest | None:
    """Return the next request, or None at the end."""
    head, descriptors, _, _ = socket.recv_fds(client, _HEAD.size, 2)
    if len(head) < _HEAD.size or len(descriptors) != 2:
        return None
    size, seconds = _HEAD.unpack(head)
    pickled = _receive_exactly(client, size)
    return JobRequest(seconds, pickled, *descriptors) if len(pickled) == size else None


def send_status(client: socket.socket, status: JobStatus) -> None:
    """Send how a child ended."""
    client.sendall(_STATUS.pack(status.code, status.too_long))


def receive_status(server: socket.socket) -> JobStatus | None:
    """Return the next status, or None if the server has ended."""
    data = _receive_exactly(server, _STATUS.size)
    return JobStatus(*_STATUS.unpack(data)) if len(data) == _STATUS.size else None


def _receive_exactly(stream: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (piece := stream.recv(size - len(data))):
        data += piece
    return bytes(data)
