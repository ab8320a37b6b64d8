"""The kinds of inputs that a request may hold besides tensors, one module each, as ``answers`` has for outputs.

A module is imported if a model takes its kind. Its ``KIND`` knows the kind's form in a request, whatever the protocol,
and its conversion to tensors before the model runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from ..errors import WrongFieldError
from ..typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..budget import RequestLimits
    from ..description import Description
    from ..request import File, Request
    from ..server import Invocation, Server

_MODULES = {"image": "image", "audio": "recording", "text": "text", "strings": "strings", "examples": "example"}
"""The module of each kind, by the field of a Description that is set if a model takes it."""


class InputKind:
    """A kind of input, for a model that takes it. The methods here are the defaults."""

    example = ""
    """A request that holds this kind, for messages."""

    def list_keys(self, description: Description) -> tuple[str, ...]:
        """Return the fields of a request to ``/predict`` that hold this kind."""
        return ()

    def make_schema(self, limits: RequestLimits) -> dict[str, Any]:
        """Return the JSON schema of one element as requests hold it."""
        return {"type": "string", "contentEncoding": "base64"}

    def list_inputs(self, description: Description) -> tuple[str, ...]:
        """Return the inputs of the model that this kind replaces: a request that holds it holds no tensors of these."""
        return ()

    def read_event(self, event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        """Return the fields of the Request for an ``event`` that has one of the keys. Raises HandlerError."""
        return {}

    def list_media_types(self, description: Description) -> tuple[str, ...]:
        """Return the content types of a body that is a file of this kind; one that ends with a slash is a prefix."""
        return ()

    def recognises_file(self, data: bytes) -> bool:
        """Return whether ``data`` begins like a file of this kind."""
        return False

    def stands_alone(self, description: Description) -> bool:
        """Return whether a file of this kind is all that the model takes."""
        return len(description.feeds) == 1

    def read_files(self, files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
        """Return the fields of the Request for ``files`` alone. Raises HandlerError."""
        return {}

    def element_input(self, description: Description) -> str:
        """Return the input that other protocols replace by a list of this kind's elements, or "" if there is none."""
        return ""

    def most_elements(self, limits: RequestLimits) -> int:
        """Return the number of elements that a request may hold."""
        return limits.items

    def is_element(self, value: object) -> bool:
        """Return whether ``value``, from TensorFlow Serving's JSON, is an element and not a number."""
        return False

    def read_elements(self, values: Sequence[Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        """Return the fields of the Request for elements, each bytes or a JSON value. Raises HandlerError."""
        return {}

    def prepare_request(self, request: Request, server: Server, call: Invocation) -> Request:
        """Return ``request`` converted as far as that is done for all items together. Raises HandlerError."""
        return request

    def measure_lengths(self, request: Request, server: Server) -> list[int]:
        """Return a length for each item, to run items of a similar size together; empty if lengths do not matter."""
        return []

    def fill_inputs(self, part: Request, server: Server, call: Invocation) -> Request:
        """Return ``part``, the request of one run, with the tensors of its items. Raises HandlerError."""
        return part


def load_kinds(description: Description) -> list[InputKind]:
    """Return the kinds that the model takes, importing their modules."""
    return [
        import_module(f".{module}", __name__).KIND for field, module in _MODULES.items() if getattr(description, field)
    ]


def find_file_kind(description: Description) -> InputKind | None:
    """Return the kind whose files the model takes as a request, or None."""
    return next((kind for kind in load_kinds(description) if kind.list_media_types(description)), None)


def find_element_kind(description: Description) -> tuple[InputKind | None, str]:
    """Return the kind whose elements other protocols take, and the input that these replace."""
    return next(
        ((kind, name) for kind in load_kinds(description) if (name := kind.element_input(description))), (None, "")
    )


def require_files(files: Sequence[File], what: str) -> None:
    """Raise WrongFieldError if there is no file, or an empty one. ``what``: the file's kind, for the message."""
    if not files:
        raise WrongFieldError("the form has no file")
    if empty := [file for file in files if not file.data]:
        raise WrongFieldError(f"{empty[0].where} is empty; a {what} is needed")
