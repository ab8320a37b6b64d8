"""Fetching of the files that a request names: from S3 with the function's role, or over https.

Neither the caller nor a server of the caller's choice is trusted: only listed hosts and public addresses (or listed
networks) are allowed, looked up once and then connected to, without redirects, and with bounds on bytes and time.
Messages name no address, because a presigned one is a secret.
"""

from __future__ import annotations

import functools
import http.client
import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from .budget import RequestLimits
from .errors import (
    HandlerError,
    ObjectNotFoundError,
    SourceNotAllowedError,
    SourceUnavailableError,
    StorageUnavailableError,
    TooLargeError,
    WrongTypeError,
)
from .request import File, Reference, Request
from .sources import Sources
from .storage import S3Object, open_object

AT_ONCE = 8
MOST_TOGETHER = 4  # the bytes of all files of a request, in multiples of ``RequestLimits.encoded``
RESERVE_MS = 500  # kept for the inference and the answer
LONGEST_SECONDS = 20.0
CHUNK = 65_536
LONGEST_URL = 4096
TOO_LONG = "names a file that takes too long to fetch"


@dataclass
class _FetchBudget:
    """The time and bytes left for the whole request, shared by its threads."""

    ends: float
    each: int
    together: int

    def require_seconds(self) -> float:
        """Return the seconds left, which are more than 0. Raises SourceUnavailableError if none are left."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise SourceUnavailableError(TOO_LONG)
        return left

    def read_chunks(self, chunks: Iterator[bytes]) -> bytes:
        data = bytearray()
        for chunk in chunks:
            data += chunk
            self.together -= len(chunk)  # two threads at once may let one chunk too many through
            if len(data) > self.each or self.together < 0:
                raise TooLargeError(
                    f"names a file of more than {self.each:,} bytes"
                    if len(data) > self.each
                    else "and the files before it have too many bytes together"
                )
            self.require_seconds()
        self.require_seconds()  # a connection that the timer ended looks like the end of the data
        return bytes(data)


def fetch_files(request: Request, sources: Sources, limits: RequestLimits, remaining_ms: int) -> Request:
    """Return ``request`` with a File for each Reference. Raises HandlerError, which names the file."""
    seconds = min(LONGEST_SECONDS, (remaining_ms - RESERVE_MS) / 1000)
    each = limits.recording if request.recording else limits.encoded
    budget = _FetchBudget(time.monotonic() + seconds, each, each * MOST_TOGETHER)

    def resolved(file: File | Reference) -> File:
        if isinstance(file, File):
            return file
        fetch = {"s3": _fetch_object, "url": _fetch_url}[file.kind]
        try:
            return File(fetch(file.address, sources, budget), file.where)
        except HandlerError as error:
            raise type(error)(f"{file.where} {error.message}") from error.__cause__

    if request.recording:
        return request._replace(recording=resolved(request.recording))

    if len(request.images) == 1:
        return request._replace(images=(resolved(request.images[0]),))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            return request._replace(images=tuple(pool.map(resolved, request.images)))
        except HandlerError:
            budget.ends = 0  # stops the other downloads
            raise


def _fetch_object(address: str, sources: Sources, budget: _FetchBudget) -> bytes:
    """Return the bytes of an object given as ``s3://bucket/key``."""
    scheme, _, rest = address.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise WrongTypeError('must name an object like "s3://bucket/key"')
    if not sources.allow_object(bucket, key):
        raise SourceNotAllowedError("names an object that this function may not read")
    try:
        with open_object(S3Object(bucket, key), budget.require_seconds()) as answer:
            return budget.read_chunks(iter(lambda: answer["Body"].read(CHUNK), b""))
    except ObjectNotFoundError as error:
        raise SourceUnavailableError("names an object that does not exist or may not be read") from error
    except StorageUnavailableError as error:
        raise StorageUnavailableError("names an object that S3 did not deliver; try again") from error


def _fetch_url(address: str, sources: Sources, budget: _FetchBudget) -> bytes:
    """Return the bytes at an https URL."""
    host, port, path = _split_url(address)
    if not sources.allow_host(host, port):
        raise SourceNotAllowedError("names a host that this function may not read from")
    try:
        connection = _PinnedConnection(
            host, port, _choose_address(_look_up_addresses(host, port, budget), sources), budget.require_seconds()
        )
        with _connect_with_limit(connection, budget.require_seconds()):
            connection.request("GET", path, headers={"Accept": "image/*, audio/*", "User-Agent": "coldforge"})
            response = connection.getresponse()
            if response.status != 200:
                raise SourceUnavailableError(f"names a file, but its host answered with status {response.status}")
            data = budget.read_chunks(iter(lambda: response.read1(CHUNK), b""))
            if response.length:  # bytes that were announced and did not arrive
                raise SourceUnavailableError("names a file whose download broke off")
            return data
    except HandlerError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        budget.require_seconds()  # raises if the time was the reason
        raise SourceUnavailableError("names a file that cannot be fetched") from error


def _split_url(address: str) -> tuple[str, int, str]:
    """Return host, port and path of an https URL. Raises WrongTypeError."""
    try:
        if len(address) > LONGEST_URL or not address.isascii() or not address.isprintable() or " " in address:
            raise ValueError
        url = urlsplit(address)
        host, port = url.hostname, url.port or 443
        if url.scheme != "https" or not host or "@" in url.netloc or "\\" in address:
            raise ValueError
    except ValueError:
        raise WrongTypeError('must be a URL like "https://host/file"') from None
    return host, port, (url.path or "/") + (f"?{url.query}" if url.query else "")


def _look_up_addresses(host: str, port: int, budget: _FetchBudget) -> set[str]:
    """Return a host's IPv4 addresses. Raises SourceUnavailableError when the time is up, OSError where there are none.

    The C library's look-up takes no time limit, so a thread does it and ends when the resolver gives up.
    """
    answers: queue.SimpleQueue[set[str] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            rows = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
            answers.put({str(row[4][0]) for row in rows})
        except Exception as error:
            answers.put(error)

    threading.Thread(target=look_up, daemon=True).start()
    try:
        answer = answers.get(timeout=budget.require_seconds())
    except queue.Empty:
        raise SourceUnavailableError(TOO_LONG) from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _choose_address(found: set[str], sources: Sources) -> str:
    """Return the one of a host's IPv4 addresses to connect to. Raises SourceNotAllowedError unless all are allowed."""
    networks = [ipaddress.IPv4Network(network) for network in sources.networks]
    for text in found:
        address = ipaddress.IPv4Address(text)
        if not (is_public(address) or any(address in network for network in networks)):
            raise SourceNotAllowedError("names a host that this function may not read from")
    return min(found)


def is_public(address: ipaddress.IPv4Address) -> bool:
    """Return whether the address is on the public internet: not local, private, the cloud's metadata or multicast."""
    return address.is_global and not address.is_multicast


class _PinnedConnection(http.client.HTTPSConnection):
    """A connection to the address that was checked: a second look-up might return another."""

    def __init__(self, host: str, port: int, address: str, seconds: float) -> None:
        super().__init__(host, port, timeout=seconds, context=_make_ssl_context())
        self._address = address

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        # The handshake is a separate step, so that the timer can end it.
        self.sock = _make_ssl_context().wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock.do_handshake()


def forget_state() -> None:
    """Have the trusted certificates read again when they are next needed."""
    _make_ssl_context.cache_clear()


@functools.cache
def _make_ssl_context() -> ssl.SSLContext:
    return ssl.create_default_context()


@contextmanager
def _connect_with_limit(connection: _PinnedConnection, seconds: float) -> Iterator[None]:
    """Connect for the length of the block, for ``seconds`` at most: bytes may arrive one by one for ever."""

    def end() -> None:
        with suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    clock = threading.Timer(seconds, end)
    clock.daemon = True
    clock.start()
    try:
        connection.connect()
        yield
    finally:
        clock.cancel()
        connection.close()
