"""Serialized tf.Examples, in base64, which replace all inputs of a model."""

from __future__ import annotations

from ..errors import WrongFieldError, WrongTypeError
from ..examples import make_request
from ..typed import TYPE_CHECKING, Any
from . import InputKind

if TYPE_CHECKING:
    from ..budget import RequestLimits
    from ..description import Description


class ExampleKind(InputKind):
    """Serialized tf.Examples as ``{"examples": […]}``."""

    def list_keys(self, description: Description) -> tuple[str, ...]:
        return ("examples",)

    def list_inputs(self, description: Description) -> tuple[str, ...]:
        return tuple(port.name for port in description.caller_inputs)

    def read_event(self, event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        if others := [f'"{key}"' for key in ("inputs", "text", "texts") if key in event]:
            raise WrongFieldError(f'"examples" and {others[0]} exclude each other; send one of them')
        if not isinstance(event["examples"], list):
            raise WrongTypeError('"examples" must be a list of base64 strings')
        request = make_request(event["examples"], description, limits)
        return {"inputs": request.inputs, "strings": request.strings}


KIND = ExampleKind()
