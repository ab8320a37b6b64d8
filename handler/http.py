"""HTTP as the protocols see it, whichever AWS service carried it."""

from __future__ import annotations

import gc
import json

from .answer import ANSWER_LIMIT
from .budget import JSON_VALUE, RequestLimits
from .errors import NotJsonError
from .tuples import NamedTuple
from .typed import Any

_TEXT = ("application/json", "text/", "image/svg")


class HttpRequest(NamedTuple):
    """``path`` is decoded and without a stage; header names are in lower case, repeated ones joined by ", ".

    ``answer_limit``: bytes of an event's answer, with the response as JSON in it.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    answer_limit: int = ANSWER_LIMIT

    def parse_json(self, like: str, limits: RequestLimits) -> Any:
        """The body. ``like``: what is wanted, for the message. Raises NotJsonError, OverBudgetError."""
        values = sum(map(self.body.count, (b",", b"[", b"{")))  # of these and texts, at most so many
        limits.require_memory(len(self.body) + values * JSON_VALUE)
        try:
            return _load_json(self.body)
        except json.JSONDecodeError as error:
            reason = f"{error.msg}, line {error.lineno}, column {error.colno}"
        except RecursionError:
            reason = "it is nested too deep"
        except ValueError:
            reason = "it is not UTF-8, or a number is too long"
        raise NotJsonError(f"the body is not JSON ({reason}); send JSON like {like}")


def _load_json(text: bytes) -> Any:
    """``text`` as JSON. What is made of it holds no circles, so nobody looks for any: of 2,000,000 lists that would
    take a second, and five times as long as parsing. Raises ValueError, RecursionError.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return json.loads(text)
    finally:
        if collecting:
            gc.enable()


class HttpResponse(NamedTuple):
    """Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def is_text(self) -> bool:
        """Whether an event's answer carries the body as it is, and not as base64."""
        return not self.body or self.headers.get("content-type", "").startswith(_TEXT)

    @property
    def carried(self) -> int:
        """Bytes of the body in an event's answer, in whose JSON it is a string."""
        if self.is_text:
            return len(self.body) + sum(map(self.body.count, (b'"', b"\\", b"\n")))
        return (len(self.body) + 2) // 3 * 4

    @classmethod
    def from_json(cls, answer: object, status: int = 200) -> HttpResponse:
        headers = {"content-type": "application/json", "x-content-type-options": "nosniff"}
        return cls(status, headers, json.dumps(answer).encode())
