"""Requests that the local server refuses: of other callers, and where the end (RFC 9112, section 6) is ambiguous.

If two servers in a row disagree on where a body ends, the second takes the end of one request for another request.
Python's own parser is lenient: it takes the first of two lengths, and drops all headers after an invalid line.

Pages of other sites are refused, whatever name they gave to this machine: a browser sends the name of this machine in
``Host``, even if a site's own name leads to 127.0.0.1 (DNS rebinding), and the requesting page's site in ``Origin``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import BufferedIOBase
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

MOST_LINES = 100
LONGEST_HEAD = 65_536
"""Limit in bytes of all header lines together."""

_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\r\n\0]*)\r?\n")  # no spaces before the colon, no folding
_LENGTH = re.compile(rb"[0-9]{1,15}")


class RequestHead(NamedTuple):
    """Head of a request. ``lines``: its lines as they came, with the blank one; ``length``: the body's, in bytes.

    ``values``: the values of each header, by its name in lower case.
    """

    lines: list[bytes]
    length: int
    values: dict[bytes, list[bytes]]


class RequestRefusal(NamedTuple):
    """A refusal: the HTTP status, and the reason."""

    status: int
    message: str


def read_head(stream: BufferedIOBase, longest_body: int) -> RequestHead | RequestRefusal:
    """Read a request's header lines to the blank line after them, and return the length of the body with them."""
    lines: list[bytes] = []
    left = LONGEST_HEAD
    while not lines or lines[-1].rstrip(b"\r\n"):
        lines.append(stream.readline(left + 1))
        left -= len(lines[-1])
        if left < 0 or len(lines) > MOST_LINES + 1:
            return RequestRefusal(431, f"send at most {MOST_LINES} headers, of {LONGEST_HEAD:,} bytes together")
    values: dict[bytes, list[bytes]] = {}
    for line in lines[:-1]:
        parts = _LINE.fullmatch(line)
        if parts is None:
            return RequestRefusal(400, "a line of the headers is not a valid header")
        values.setdefault(parts[1].lower(), []).append(parts[2].strip(b" \t"))
    if lines[-1] not in (b"\r\n", b"\n"):
        return RequestRefusal(400, "the headers break off")
    lengths = values.get(b"content-length", [])
    if b"transfer-encoding" in values:
        if lengths:
            return RequestRefusal(400, "send Content-Length or Transfer-Encoding, not both")
        return RequestRefusal(411, "send the body with its Content-Length")
    if not lengths:
        return RequestHead(lines, 0, values)
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        return RequestRefusal(400, "Content-Length must be one number, and stand there once")
    if int(lengths[0]) > longest_body:
        return RequestRefusal(413, f"Lambda takes bodies of at most {longest_body:,} bytes")
    return RequestHead(lines, int(lengths[0]), values)


class AllowedOrigins(NamedTuple):
    """Allowed ``hosts``, names of this machine besides loopback, and ``origins`` of pages elsewhere; ``*`` is any."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def check_request(self, hosts: Iterable[bytes], origins: Iterable[bytes]) -> RequestRefusal | None:
        """Refuse a request by the values of its ``Host`` and ``Origin``, unless all of them are allowed."""
        for host in hosts:
            if not self._is_local("//" + host.decode("latin-1")):
                return RequestRefusal(
                    403, "this server answers to localhost only; for another name, serve with --allow-host NAME"
                )
        for origin in (value.decode("latin-1") for value in origins):
            if "*" not in self.origins and origin not in self.origins and not self._is_local(origin):
                return RequestRefusal(403, "pages of this origin may not call the server; serve with --cors ORIGIN")
        return None

    def _is_local(self, address: str) -> bool:
        try:
            name = (urlsplit(address).hostname or "").rstrip(".")
            return name == "localhost" or name in self.hosts or ip_address(name).is_loopback
        except ValueError:  # It is neither a known name nor an address.
            return False


LOOPBACK = AllowedOrigins()
