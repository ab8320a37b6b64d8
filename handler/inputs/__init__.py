"""The kinds of inputs that a request may hold besides tensors, a module each; ``answers`` is the same for outputs.

A module is imported where a model takes its kind. Its ``KIND`` knows what the kind looks like in a request, whatever
the protocol, and what it becomes before the model runs.
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
"""By the field of a Description that says how a model takes the kind."""


class InputKind:
    """A kind of input, of a model that takes it. Whatever a kind does not do is as here."""

    example = ""
    """A request that holds it, for messages."""

    def list_keys(self, description: Description) -> tuple[str, ...]:
        """Return the fields of a request to ``/predict`` that hold it."""
        return ()

    def make_schema(self, limits: RequestLimits) -> dict[str, Any]:
        """Return the JSON schema of one, as requests hold it."""
        return {"type": "string", "contentEncoding": "base64"}

    def list_inputs(self, description: Description) -> tuple[str, ...]:
        """Return the inputs of the model that it stands for: a request that holds it holds no tensors of these."""
        return ()

    def read_event(self, event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        """Return the fields of the Request for an ``event`` that has one of the keys. Raises HandlerError."""
        return {}

    def list_media_types(self, description: Description) -> tuple[str, ...]:
        """Return the content types of a body that is a file of this kind; one that ends with a slash is any such."""
        return ()

    def recognises_file(self, data: bytes) -> bool:
        """Tell a file of this kind by its first bytes."""
        return False

    def stands_alone(self, description: Description) -> bool:
        """Tell whether a file of this kind is all that the model takes."""
        return len(description.feeds) == 1

    def read_files(self, files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
        """Return the fields of the Request for ``files`` alone. Raises HandlerError."""
        return {}

    def element_input(self, description: Description) -> str:
        """Return the input in whose place other protocols take a list of its elements; empty where they take none."""
        return ""

    def most_elements(self, limits: RequestLimits) -> int:
        """Return how many elements a request may hold."""
        return limits.items

    def is_element(self, value: object) -> bool:
        """Tell an element, as TensorFlow Serving's JSON has it, from numbers."""
        return False

    def read_elements(self, values: Sequence[Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        """Return the fields of the Request for elements: bytes, or as JSON has them. Raises HandlerError."""
        return {}

    def prepare_request(self, request: Request, server: Server, call: Invocation) -> Request:
        """Return ``request`` with what the kind becomes, as far as that is done for all items. Raises HandlerError."""
        return request

    def measure_lengths(self, request: Request, server: Server) -> list[int]:
        """Return what tells which items are shorter, so that those of a run need the same size; empty for none."""
        return []

    def fill_inputs(self, part: Request, server: Server, call: Invocation) -> Request:
        """Return ``part``, which is one run's, with the tensors of its items. Raises HandlerError."""
        return part


def load_kinds(description: Description) -> list[InputKind]:
    """Return the kinds that the model takes. Imports their modules."""
    return [
        import_module(f".{module}", __name__).KIND for field, module in _MODULES.items() if getattr(description, field)
    ]


def find_file_kind(description: Description) -> InputKind | None:
    """Return the kind whose files the model takes as a request, if there is one."""
    return next((kind for kind in load_kinds(description) if kind.list_media_types(description)), None)


def find_element_kind(description: Description) -> tuple[InputKind | None, str]:
    """Return the kind whose elements other protocols take, and in the place of which input."""
    return next(
        ((kind, name) for kind in load_kinds(description) if (name := kind.element_input(description))), (None, "")
    )


def require_files(files: Sequence[File], what: str) -> None:
    """Raises WrongFieldError where there is no file, or an empty one. ``what``: is needed instead."""
    if not files:
        raise WrongFieldError("the form has no file")
    if empty := [file for file in files if not file.data]:
        raise WrongFieldError(f"{empty[0].where} is empty; a {what} is needed")
