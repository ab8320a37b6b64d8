"""Serialized tf.Examples, in base64, in the place of all that a model takes."""

from __future__ import annotations

from ..errors import WrongFieldError, WrongTypeError
from ..examples import request_of
from ..typed import TYPE_CHECKING, Any
from . import Kind

if TYPE_CHECKING:
    from ..budget import Limits
    from ..description import Description


class ExampleKind(Kind):
    """``{"examples": […]}``."""

    def keys(self, description: Description) -> tuple[str, ...]:
        return ("examples",)

    def names(self, description: Description) -> tuple[str, ...]:
        return tuple(port.name for port in description.taken)

    def read(self, event: dict[str, Any], description: Description, limits: Limits) -> dict[str, Any]:
        if others := [f'"{key}"' for key in ("inputs", "text", "texts") if key in event]:
            raise WrongFieldError(f'"examples" and {others[0]} exclude each other; send one of them')
        if not isinstance(event["examples"], list):
            raise WrongTypeError('"examples" must be a list of base64 strings')
        found = request_of(event["examples"], description, limits)
        return {"inputs": found.inputs, "strings": found.strings}


KIND = ExampleKind()
