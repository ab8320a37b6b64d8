"""HTTP requests and responses as the protocols see them, whichever AWS service carried them."""

from __future__ import annotations

import gc
import json

from .answer import ANSWER_LIMIT
from .budget import JSON_VALUE, RequestLimits
from .errors import NotJsonError, WrongTypeError
from .named_tuples import NamedTuple
from .typed import Any

_TEXT = ("application/json", "text/", "image/svg")


class HttpRequest(NamedTuple):
    """A request. ``path`` is decoded and without a stage; header names are in lower case, repeated ones joined by ", ".

    ``answer_limit``: the bytes of an event's answer, which holds the response as JSON.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    answer_limit: int = ANSWER_LIMIT

    def parse_json(self, like: str, limits: RequestLimits) -> Any:
        """Parse the body as JSON. ``like``: an example for the message. Raises NotJsonError, OverBudgetError."""
        values = sum(map(self.body.count, (b",", b"[", b"{")))  # an upper bound, as texts may hold these, too
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

    def parse_object(self, like: str, limits: RequestLimits) -> dict[str, Any]:
        """Parse the body as a JSON object. Raises WrongTypeError for other JSON, and as ``parse_json`` does."""
        event = self.parse_json(like, limits)
        if not isinstance(event, dict):
            raise WrongTypeError(f"the body must be an object like {like}")
        return event


def _load_json(text: bytes) -> Any:
    """Parse ``text`` without garbage collection, as JSON holds no cycles. Raises ValueError, RecursionError.

    For 2,000,000 lists a collection would take a second, which is five times as long as parsing.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return json.loads(text)
    finally:
        if collecting:
            gc.enable()


class HttpResponse(NamedTuple):
    """A response, whose header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def is_text(self) -> bool:
        """True if an event's answer carries the body as it is, and not as base64."""
        return not self.body or self.headers.get("content-type", "").startswith(_TEXT)

    @property
    def carried(self) -> int:
        """The number of bytes of the body in an event's answer, where it is a JSON string."""
        if self.is_text:
            return len(self.body) + sum(map(self.body.count, (b'"', b"\\", b"\n")))
        return (len(self.body) + 2) // 3 * 4

    @classmethod
    def from_json(cls, answer: object, status: int = 200) -> HttpResponse:
        """Return a response with ``answer`` as JSON."""
        headers = {"content-type": "application/json", "x-content-type-options": "nosniff"}
        return cls(status, headers, json.dumps(answer).encode())
