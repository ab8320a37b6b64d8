"""Texts for a model with a tokenizer: each becomes token ids, and these the tensors of the text's feeds."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..deadline import seconds_left
from ..errors import WrongFieldError, WrongTypeError
from ..request import File, Request, check_text, check_texts, decode_text, require_same_run
from ..text import choose_text_size, make_text_feeds
from ..typed import TYPE_CHECKING, Any
from . import InputKind

if TYPE_CHECKING:
    from ..budget import RequestLimits
    from ..description import Description
    from ..server import Invocation, Server


class TextKind(InputKind):
    """Texts as ``{"text": …}`` and ``{"texts": […]}``; in other protocols strings and BYTES in place of the ids."""

    example = '{"text": "…"}'

    def list_keys(self, description: Description) -> tuple[str, ...]:
        return ("text", "texts")

    def make_schema(self, limits: RequestLimits) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": limits.characters}

    def list_media_types(self, description: Description) -> tuple[str, ...]:
        return ("text/plain",)

    def stands_alone(self, description: Description) -> bool:
        return description.text_alone

    def read_files(self, files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
        return {"texts": (read_text_file(files, description, limits),)}

    def list_inputs(self, description: Description) -> tuple[str, ...]:
        return description.text.feeds if description.text else ()

    def read_event(self, event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        return {"texts": require_same_run(read_texts(event, limits), '"texts"', description)}

    def element_input(self, description: Description) -> str:
        return description.text.ids if description.text else ""

    def is_element(self, value: object) -> bool:
        return isinstance(value, str)

    def read_elements(self, values: Sequence[Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        where = f'"{self.element_input(description)}"'
        texts = [
            decode_text(value, f"{where}[{index}]", limits) if isinstance(value, bytes) else value
            for index, value in enumerate(values)
        ]
        return {"texts": require_same_run(check_texts(texts, where, limits), where, description)}

    def prepare_request(self, request: Request, server: Server, call: Invocation) -> Request:
        """Compute the token ids of the texts, and the places of the tokens if an output is about these."""
        if not request.texts or request.ids:
            return request
        began = time.perf_counter()
        description = server.describe_request(request)
        encoders = server.find_model(request.model).texts
        arguments = request.texts, server.limits, lambda: seconds_left(call.remaining_ms())
        tagged = any(output.kind == "tokens" for output in description.outputs)
        ids, located = encoders.locate_texts(*arguments) if tagged else (encoders.encode_texts(*arguments), ())
        # Each run has the shortest size for its texts, unless answers of different sizes could not be joined.
        size = request.size if description.has_fixed_outputs else choose_text_size(ids, description)
        seconds = {"decode": time.perf_counter() - began}
        return request._replace(ids=ids, located=located, size=size, seconds=seconds)

    def measure_lengths(self, request: Request, server: Server) -> list[int]:
        return list(map(len, request.ids))

    def fill_inputs(self, part: Request, server: Server, call: Invocation) -> Request:
        """Put the ids among the inputs, in the size that they need."""
        if not part.ids:
            return part
        description = server.describe_request(part)
        size = choose_text_size(part.ids, description) if description.has_fixed_outputs else part.size
        feeds = make_text_feeds(part.ids, server.find_model(part.model).texts.pad, description.select_size(size))
        return part._replace(inputs=part.inputs | feeds, size=size)


def read_text_file(files: Sequence[File], description: Description, limits: RequestLimits) -> str:
    """Return the text in the first of ``files``. Raises HandlerError."""
    if not description.text_alone:
        raise WrongFieldError("this model takes tensors beside the text; send JSON with both")
    return decode_text(files[0].data, files[0].where, limits)


def read_texts(event: dict[str, Any], limits: RequestLimits) -> tuple[str, ...]:
    """Return the text or texts of an event that has either. Raises HandlerError."""
    if "text" in event:
        return (check_text(event["text"], '"text"', limits),)
    values = event["texts"]
    if not isinstance(values, list):
        raise WrongTypeError('"texts" must be a list of strings; a single text goes into "text"')
    return check_texts(values, '"texts"', limits)


KIND = TextKind()
