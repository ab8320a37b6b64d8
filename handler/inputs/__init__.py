"""The kinds of inputs that a request may hold besides tensors, one module each, as ``answers`` has for outputs.

A module is imported if a model takes its kind. Its ``make_kind`` returns the kind's form in a request, whatever the
protocol, and its conversion to tensors before the model runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from ..budget import RequestLimits
from ..deadline import seconds_left
from ..description import Description
from ..errors import WrongFieldError
from ..named_tuples import NamedTuple
from ..request import File, Request
from ..sources import Sources
from ..typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model import Model

_MODULES = {
    "image": "image", "audio": "recording", "text": "text", "strings": "strings", "examples": "example",
    "table": "table",
}  # fmt: skip
"""The module of each kind, by the field of a Description that is set if a model takes it."""


class RunContext(NamedTuple):
    """The model that a request is for, and the limits within which its inputs become tensors."""

    model: Model
    limits: RequestLimits
    sources: Sources
    remaining_ms: Callable[[], int]

    def describe_request(self, request: Request) -> Description:
        """Return the model's description in the signature and the size of ``request``. Raises WrongFieldError."""
        return self.model.description.select_signature(request.signature).select_size(request.size)

    def count_seconds_left(self) -> float:
        """Return the seconds left for the request."""
        return seconds_left(self.remaining_ms())


def _make_base64_schema(limits: RequestLimits) -> dict[str, Any]:
    return {"type": "string", "contentEncoding": "base64"}


def _read_nothing(value: Any, description: Description, limits: RequestLimits) -> dict[str, Any]:
    return {}


class InputKind(NamedTuple):
    """A kind of input of one model: its forms in a request, and its conversion to tensors.

    The functions ``read_*`` return fields of the Request; they and the last three raise HandlerError.
    """

    example: str = ""  # a request that holds this kind, for messages
    keys: tuple[str, ...] = ()  # the fields of a request to /predict that hold this kind
    companions: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # fields, of which one must stand beside a key
    replaces: tuple[str, ...] = ()  # the inputs of which a request with this kind holds no tensors
    element_input: str = ""  # the input that other protocols replace by a list of this kind's elements
    media_types: tuple[str, ...] = ()  # of a body that is a file of this kind; one that ends with a slash is a prefix
    stands_alone: bool = False  # whether a file of this kind is all that the model takes
    make_schema: Callable[[RequestLimits], dict[str, Any]] = _make_base64_schema  # the JSON schema of one element
    most_elements: Callable[[RequestLimits], int] = lambda limits: limits.items  # of a request
    is_file: Callable[[bytes], bool] = lambda data: False  # whether bytes begin like a file of this kind
    is_element: Callable[[object], bool] = lambda value: False  # whether TensorFlow Serving's JSON is an element
    read_event: Callable[[dict[str, Any], Description, RequestLimits], dict[str, Any]] = _read_nothing
    read_files: Callable[[Sequence[File], Description, RequestLimits], dict[str, Any]] = _read_nothing
    read_elements: Callable[[Sequence[Any], Description, RequestLimits], dict[str, Any]] = _read_nothing
    prepare_request: Callable[[Request, RunContext], Request] = lambda request, context: request  # before it is split
    measure_lengths: Callable[[Request, RunContext], list[int]] = lambda request, context: []
    """Returns a length for each item, to run items of a similar size together; nothing if lengths do not matter."""
    fill_inputs: Callable[[Request, RunContext], Request] = lambda part, context: part  # in the request of one run


def load_kinds(description: Description) -> list[InputKind]:
    """Return the kinds that the model takes, importing their modules."""
    modules = [name for field, name in _MODULES.items() if getattr(description, field)]
    return [import_module(f".{name}", __name__).make_kind(description) for name in modules]


def find_file_kind(description: Description) -> InputKind | None:
    """Return the kind whose files the model takes as a request, or None."""
    return next((kind for kind in load_kinds(description) if kind.media_types), None)


def find_element_kind(description: Description) -> InputKind | None:
    """Return the kind whose elements other protocols take in place of its ``element_input``, or None."""
    return next((kind for kind in load_kinds(description) if kind.element_input), None)


def require_files(files: Sequence[File], description: Description, what: str) -> None:
    """Raise WrongFieldError unless ``files`` are there, and all that the model takes. ``what``: a file's kind."""
    if not files:
        raise WrongFieldError("the form has no file")
    if empty := [file for file in files if not file.data]:
        raise WrongFieldError(f"{empty[0].where} is empty; a {what} is needed")
    if len(description.feeds) > 1:
        raise WrongFieldError(f"this model takes tensors beside the {what}; send JSON with both")
