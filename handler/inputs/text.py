"""Texts for a model with a tokenizer: each becomes ids of tokens, and these the tensors of the text's feeds."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..deadline import seconds_left
from ..errors import WrongFieldError, WrongTypeError
from ..request import File, Request, require_together, text, text_of, texts
from ..text import size_for, tensors
from ..typed import TYPE_CHECKING, Any
from . import Kind

if TYPE_CHECKING:
    from ..budget import Limits
    from ..description import Description
    from ..server import Call, Server


class TextKind(Kind):
    """``{"text": …}`` and ``{"texts": […]}``; elsewhere strings and BYTES in the place of the ids."""

    example = '{"text": "…"}'

    def keys(self, description: Description) -> tuple[str, ...]:
        return ("text", "texts")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": limits.characters}

    def media(self, description: Description) -> tuple[str, ...]:
        return ("text/plain",)

    def stands_alone(self, description: Description) -> bool:
        return description.text_alone

    def read_files(self, files: Sequence[File], description: Description, limits: Limits) -> dict[str, Any]:
        return {"texts": (read_text_file(files, description, limits),)}

    def names(self, description: Description) -> tuple[str, ...]:
        return description.text.feeds if description.text else ()

    def read(self, event: dict[str, Any], description: Description, limits: Limits) -> dict[str, Any]:
        return {"texts": require_together(read_texts(event, limits), '"texts"', description)}

    def element_input(self, description: Description) -> str:
        return description.text.ids if description.text else ""

    def is_element(self, value: object) -> bool:
        return isinstance(value, str)

    def read_elements(self, values: Sequence[Any], description: Description, limits: Limits) -> dict[str, Any]:
        where = f'"{self.element_input(description)}"'
        found = [
            text_of(value, f"{where}[{index}]", limits) if isinstance(value, bytes) else value
            for index, value in enumerate(values)
        ]
        return {"texts": require_together(texts(found, where, limits), where, description)}

    def prepare(self, request: Request, server: Server, call: Call) -> Request:
        """Find the ids of the texts, and where their tokens stand, if an output is of these."""
        if not request.texts or request.ids:
            return request
        began = time.perf_counter()
        description = server.described(request)
        encoders = server.model(request.model).texts
        asked = request.texts, server.limits, lambda: seconds_left(call.remaining_ms())
        tagged = any(output.kind == "tokens" for output in description.outputs)
        ids, located = encoders.located(*asked) if tagged else (encoders.encoded(*asked), ())
        # Each run has the shortest size for its texts, unless answers of different sizes could not stand together.
        size = request.size if description.alike else size_for(ids, description)
        seconds = {"decode": time.perf_counter() - began}
        return request._replace(ids=ids, located=located, size=size, seconds=seconds)

    def lengths(self, request: Request, server: Server) -> list[int]:
        return list(map(len, request.ids))

    def fill(self, part: Request, server: Server, call: Call) -> Request:
        """Put the ids among the inputs, in the size that they need."""
        if not part.ids:
            return part
        description = server.described(part)
        size = size_for(part.ids, description) if description.alike else part.size
        found = tensors(part.ids, server.model(part.model).texts.pad, description.of_size(size))
        return part._replace(inputs=part.inputs | found, size=size)


def read_text_file(files: Sequence[File], description: Description, limits: Limits) -> str:
    """Return the text in the one file. Raises HandlerError."""
    if not description.text_alone:
        raise WrongFieldError("this model takes tensors beside the text; send JSON with both")
    return text_of(files[0].data, files[0].where, limits)


def read_texts(event: dict[str, Any], limits: Limits) -> tuple[str, ...]:
    """Return the text or the texts of an event that has one of both. Raises HandlerError."""
    if "text" in event:
        return (text(event["text"], '"text"', limits),)
    values = event["texts"]
    if not isinstance(values, list):
        raise WrongTypeError('"texts" must be a list of strings; a single text goes into "text"')
    return texts(values, '"texts"', limits)


KIND = TextKind()
