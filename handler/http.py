"""HTTP as the protocols see it, whichever AWS service carried it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from .errors import WrongTypeError


class HttpRequest(NamedTuple):
    """``path`` is decoded and without a stage; header names are in lower case, repeated ones joined by ", "."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self, like: str) -> Any:
        """The body. ``like``: what is wanted, for the message. Raises WrongTypeError."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):  # not UTF-8, or not JSON
            raise WrongTypeError(f"the body must be JSON like {like}") from None


class HttpResponse(NamedTuple):
    """Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @classmethod
    def of_json(cls, answer: object, status: int = 200) -> HttpResponse:
        headers = {"content-type": "application/json", "x-content-type-options": "nosniff"}
        return cls(status, headers, json.dumps(answer).encode())
