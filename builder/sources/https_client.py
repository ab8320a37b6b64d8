"""Requests over https with checked certificates, without redirects to http, and without secrets in messages.

URLs and the messages of servers and libraries are not quoted, as they may hold a token. Requests is not used: it reads
a redirect's body to its end, gives a netrc file's default to any host, and is no part of Python.
"""

from __future__ import annotations

import base64
import http.client
import json
import netrc
import os
import re
import ssl
import string
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from builder import __version__
from builder.base.errors import ColdforgeError, EnvironmentSetupError, ImportModelError
from builder.sources.transfer import USUAL, Bounds, BrokenOffError, Open, Piece, explain_break

_LONGEST_ANSWER = 16 << 20
"""Limit in bytes of an API's answer."""

_NUMBER = "[0-9]{1,18}"
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_MOST_REDIRECTS = 10
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


Explain = Callable[[int, Message], ColdforgeError | None]
"""Function of the status and headers of a refusal; it returns an error, or None where the status says enough."""


@dataclass(frozen=True)
class Access:
    """The access to a server. ``headers`` go to its own host alone; ``hint``: the next step where it refuses."""

    what: str  # the download's name, for messages
    hint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    explain: Explain = lambda status, headers: None
    plain_loopback: bool = False  # whether http:// to this very machine is allowed
    bounds: Bounds = USUAL


def make_file_opener(url: str, access: Access) -> Open:
    """Return a function that opens the file at ``url``. It raises ImportModelError, EnvironmentSetupError as well."""

    @contextmanager
    def open_at(start: int, mark: str) -> Iterator[Piece]:
        headers = {"Range": f"bytes={start}-", "If-Range": mark} if start else {}
        with _send_request(url, access, headers) as response:
            if start and response.status == 416 and response.headers.get("Content-Range") == f"bytes */{start}":
                yield Piece(lambda count: b"", start, start, mark)  # The whole file is here already.
            else:
                _require_success(response, access)
                yield _make_piece(response, start, mark)

    return open_at


def _make_piece(response: Any, start: int, mark: str) -> Piece:
    headers: Message = response.headers
    tag = headers.get("ETag", "")
    etag = tag if tag.startswith('"') else headers.get("Last-Modified", "")

    def read(count: int) -> bytes:
        with _translate_errors():
            data: bytes = response.read1(count)
            return data

    if response.status != 206:
        length = headers.get("Content-Length", "")
        return Piece(read, 0, int(length) if re.fullmatch(_NUMBER, length) else None, etag)
    span = re.fullmatch(rf"bytes ({_NUMBER})-{_NUMBER}/({_NUMBER}|\*)", headers.get("Content-Range", ""))
    if span is None or int(span[1]) != start or (tag and mark.startswith('"') and tag != mark):
        raise ImportModelError("the server answers another part of the file than was asked for; tell its owner.")
    return Piece(read, start, int(span[2]) if span[2] != "*" else None, mark)


def fetch_json(url: str, access: Access) -> Any:
    """Fetch the JSON at ``url``. Raises EnvironmentSetupError, also for invalid JSON, and ImportModelError."""
    with explain_break(access.what), _send_request(url, access) as response, _translate_errors():
        _require_success(response, access)
        data = response.read(_LONGEST_ANSWER + 1)
    try:
        if len(data) > _LONGEST_ANSWER:
            raise ValueError
        return json.loads(data)
    except (ValueError, RecursionError):
        raise EnvironmentSetupError(
            f"{_parse_host(url)} gives no answer about {access.what} that can be read."
        ) from None


def fetch_headers(url: str, access: Access) -> Message:
    """Fetch the headers of the first answer for ``url`` that is not a redirect within its host.

    Raises as ``fetch_json``.
    """
    with explain_break(access.what), _send_request(url, access, method="HEAD", abroad=False) as response:
        if not 300 <= response.status < 400:
            _require_success(response, access)
        headers: Message = response.headers
        return headers


@contextmanager
def _send_request(
    url: str, access: Access, extra: Mapping[str, str] | None = None, *, method: str = "GET", abroad: bool = True
) -> Iterator[Any]:
    """Yield the server's ``http.client.HTTPResponse``. ``abroad``: whether to follow redirects to other hosts.

    Raises BrokenOffError for faults that may pass, and EnvironmentSetupError where it can't be reached safely.
    """
    _require_safe(url, access)
    headers = {"User-Agent": f"coldforge/{__version__}", "Accept-Encoding": "identity", **(extra or {})}
    sent_headers = dict(access.headers)
    for _ in range(_MOST_REDIRECTS):
        with _translate_errors(_parse_host(url)):
            sent = urllib.request.Request(url, headers=headers | sent_headers, method=method)
            response = _make_opener(url).open(sent, timeout=access.bounds.silence)
        with response:
            target = _find_redirect(response, url, access)
            home = target is None or _parse_origin(target) == _parse_origin(url)
            if target is None or not (home or abroad):
                if response.status in _PASSING:
                    raise BrokenOffError(f"{_parse_host(url)} answers with status {response.status}")
                yield response
                return
        url, sent_headers = target, sent_headers if home else {}
    _require_success(response, access)


def make_basic_auth(user: str, password: str) -> dict[str, str]:
    """Return the header of basic authentication, by name and password."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def read_netrc(url: str) -> dict[str, str]:
    """Return the header for ``url``'s host where ~/.netrc (or the file in NETRC) has credentials for it.

    Raises EnvironmentSetupError for an invalid file.
    """
    path = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    try:
        entry = netrc.netrc(path).hosts.get(urlsplit(url).hostname or "")
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        return {}
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError) as error:
        line = f":{error.lineno}" if isinstance(error, netrc.NetrcParseError) else ""
        raise EnvironmentSetupError(f"{path}{line} cannot be read as a .netrc file; correct it.") from None
    return make_basic_auth(entry[0], entry[2]) if entry else {}


def _find_redirect(response: Any, url: str, access: Access) -> str | None:
    """Return the URL that ``response`` redirects to, if any. Raises EnvironmentSetupError for plain http."""
    location = response.headers.get("Location")
    if response.status not in (301, 302, 303, 307, 308) or not location:
        return None
    with _translate_errors(_parse_host(url)):
        target = urljoin(url, quote(location, encoding="iso-8859-1", safe=string.punctuation))
        home = _parse_origin(target) == _parse_origin(url)
    if urlsplit(target).scheme != "https" and not (home and access.plain_loopback):
        raise EnvironmentSetupError(
            f"{_parse_host(url)} redirects to an address that is not encrypted (https). Nothing was fetched from there."
        )
    return target


def _make_opener(url: str) -> urllib.request.OpenerDirector:
    """Return an opener that ignores statuses and redirects. Unencrypted requests use no proxy."""
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.ProxyHandler({} if urlsplit(url).scheme == "http" else None))
    opener.add_handler(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    opener.add_handler(urllib.request.HTTPHandler())
    return opener


@contextmanager
def _translate_errors(host: str = "the server") -> Iterator[None]:
    """Turn the errors of a connection into an error that quotes nothing."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError, OverflowError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise EnvironmentSetupError(
                f"The certificate of {host} is not trusted here ({reason.verify_message}). If its authority is your "
                "own, name the file with that authority's certificate in SSL_CERT_FILE."
            ) from None
        raise BrokenOffError(_explain_failure(reason, host)) from None


def _explain_failure(reason: object, host: str) -> str:
    if isinstance(reason, TimeoutError):
        return f"{host} did not answer in time"
    if isinstance(reason, OSError) and reason.strerror:
        return f"{host}: {reason.strerror}"
    return f"the connection to {host} broke off"


def _require_success(response: Any, access: Access) -> None:
    """Raise the error that explains the server's refusal, if it refuses."""
    status, host, what = response.status, _parse_host(response.url), access.what
    if 200 <= status < 300:
        return
    if explained := access.explain(status, response.headers):
        raise explained
    if status in (401, 403, 407):
        raise EnvironmentSetupError(f"{host} does not give {what} (status {status}). {access.hint}")
    if status in (404, 410):
        why = f"{what} is not there (status {status}). Look at the address in model.toml, and at its host."
    elif 300 <= status < 400:
        why = f"{host} redirects for {what} to no place that can be followed (status {status})."
    else:
        why = f"{host} answers with status {status} for {what}."
    raise ImportModelError(why)


def _require_safe(url: str, access: Access) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise EnvironmentSetupError(
            f"{access.what} is at no address: look at the server's in the environment."
        ) from None
    local = access.plain_loopback and parts.scheme == "http" and parts.hostname in _LOOPBACK
    if parts.scheme != "https" and not local:
        raise EnvironmentSetupError(
            f"{_parse_host(url)} would be asked without encryption; give its address with https://."
        )


def _parse_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _parse_host(url: str) -> str:
    """Return the host for messages: without user, password and query."""
    return urlsplit(url).hostname or "the server"
