"""The parser of ``multipart/form-data`` (RFC 7578), which HTML forms and ``curl -F`` send."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import WrongFieldError, WrongTypeError

MAX_PARTS = 256
MAX_HEAD = 8_192  # bytes of a part's headers
_PARAMETER = re.compile(r""";[ \t]*([^\s=;"]+)[ \t]*=[ \t]*("[^"]*"|[^\s;"]*)""")  # browsers write a quote as %22


@dataclass(frozen=True)
class FormPart:
    """A field of the form, which may be a file."""

    name: str
    data: bytes


def parse_form(content_type: str, body: bytes) -> list[FormPart]:
    """Return the parts in order. Raises WrongTypeError for a malformed body, WrongFieldError for too large a one."""
    boundary = _parse_parameters(content_type).get("boundary", "")
    if not 1 <= len(boundary) <= 70 or not boundary.isascii():
        raise WrongTypeError("the content type must be multipart/form-data with a boundary of 1 to 70 characters")
    # The line break before a delimiter belongs to it. No part contains a line that begins with the delimiter: the
    # sender has to choose it so (RFC 2046, 5.1.1).
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(), MAX_PARTS + 2)
    parts: list[FormPart] = []
    for piece in pieces[1:]:  # the piece before the first delimiter is a preamble
        if piece.startswith(b"--"):
            return parts
        if len(parts) == MAX_PARTS:
            raise WrongFieldError(f"the form has more than {MAX_PARTS} parts")
        parts.append(_parse_part(piece, len(parts) + 1))
    raise WrongTypeError("the multipart body has no end; it may have been cut off")


def _parse_part(piece: bytes, number: int) -> FormPart:
    padding, line_end, rest = piece.partition(b"\r\n")
    # A part needs headers for its name, and an empty line ends them.
    head, blank, data = rest.partition(b"\r\n\r\n")
    if len(head) > MAX_HEAD:
        raise WrongFieldError(f"part {number} of the multipart body has more than {MAX_HEAD:,} bytes of headers")
    headers = dict(_parse_header(line) for line in head.decode("utf-8", "replace").split("\r\n"))
    disposition = headers.get("content-disposition", "")
    parameters = _parse_parameters(disposition)
    if not line_end or padding.strip(b" \t") or not blank or disposition[:9].lower() != "form-data":
        raise WrongTypeError(f"part {number} of the multipart body is not a form's field")
    if "name" not in parameters:
        raise WrongTypeError(f"part {number} of the multipart body has no name")
    if headers.get("content-transfer-encoding", "binary").lower() not in ("binary", "8bit", "7bit"):
        raise WrongTypeError(f"part {number} of the multipart body is encoded; send it as it is")
    return FormPart(parameters["name"], data)


def _parse_header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def _parse_parameters(value: str) -> dict[str, str]:
    return {name.lower(): text.strip('"') for name, text in _PARAMETER.findall(value)}
