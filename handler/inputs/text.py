"""Texts for a model with a tokenizer: each becomes token ids, and these the tensors of the text's feeds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ..budget import RequestLimits
from ..description import Description
from ..errors import WrongFieldError, WrongTypeError
from ..request import File, Request, check_text, check_texts, decode_text, require_same_run
from ..text.rows import choose_row_size, fill_feeds, list_size_ports, pack_tokens
from ..typed import Any
from . import InputKind, RunContext

TEXTS = InputKind(
    example='{"text": "…"}',
    keys=("text", "texts"),
    media_types=("text/plain",),
    make_schema=lambda limits: {"type": "string", "minLength": 1, "maxLength": limits.characters},
)
"""The forms of any model that takes texts."""


def make_kind(description: Description) -> InputKind:
    """Return the kind of ``{"text": …}`` and ``{"texts": […]}``; in other protocols strings and BYTES for the ids.

    Pairs have a second text in ``text_pair`` or ``text_pairs``, and other protocols have none.
    """
    assert description.text is not None
    kind = TEXTS._replace(
        replaces=description.text.feeds,
        element_input=description.text.ids,
        stands_alone=description.text_alone,
        is_element=lambda value: isinstance(value, str),
        read_event=_read_event,
        read_files=lambda files, description, limits: {"texts": (read_text_file(files, description, limits),)},
        read_elements=_read_elements,
        prepare_request=_prepare_request,
        measure_lengths=lambda request, _: measure_rows(request),
        fill_inputs=_fill_inputs,
    )
    if not description.text.pairs:
        return kind
    return kind._replace(
        companions={"text": ("text_pair", "text_pairs"), "texts": ("text_pairs",)},
        media_types=(),
        element_input="",
        read_event=_read_pairs,
    )


def read_text_file(files: Sequence[File], description: Description, limits: RequestLimits) -> str:
    """Return the text in the first of ``files``. Raises HandlerError."""
    if not description.text_alone:
        raise WrongFieldError("this model takes tensors beside the text; send JSON with both")
    return decode_text(files[0].data, files[0].where, limits)


def read_texts(event: dict[str, Any], limits: RequestLimits) -> tuple[str, ...]:
    """Return the text or texts of an event that has either. Raises HandlerError."""
    if "text" in event:
        return (check_text(event["text"], '"text"', limits),)
    return _read_list(event, "texts", "text", limits)


def _read_list(event: dict[str, Any], key: str, alone: str, limits: RequestLimits) -> tuple[str, ...]:
    values = event[key]
    if not isinstance(values, list):
        raise WrongTypeError(f'"{key}" must be a list of strings; a single text goes into "{alone}"')
    return check_texts(values, f'"{key}"', limits)


def _read_event(event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    return {"texts": require_same_run(read_texts(event, limits), '"texts"', description)}


def _read_pairs(event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    """Read pairs of texts; a single text is the first of all of them."""
    first = "texts" if "texts" in event else "text"
    if ("text_pair" in event) == ("text_pairs" in event):
        raise WrongFieldError(f'this model takes pairs of texts; send "text_pair" or "text_pairs" beside "{first}"')
    texts = read_texts(event, limits)
    if "text_pair" in event:
        pairs: tuple[str, ...] = (check_text(event["text_pair"], '"text_pair"', limits),)
    else:
        pairs = _read_list(event, "text_pairs", "text_pair", limits)
    texts *= len(pairs) if first == "text" else 1
    if len(texts) != len(pairs):
        raise WrongFieldError(f'"texts" has {len(texts)} and "text_pairs" has {len(pairs)}; send as many of both')
    return {"texts": texts, "pairs": require_same_run(pairs, '"text_pairs"', description)}


def _read_elements(values: Sequence[Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    assert description.text is not None
    where = f'"{description.text.ids}"'
    texts = [
        decode_text(value, f"{where}[{index}]", limits) if isinstance(value, bytes) else value
        for index, value in enumerate(values)
    ]
    return {"texts": require_same_run(check_texts(texts, where, limits), where, description)}


def _prepare_request(request: Request, context: RunContext) -> Request:
    """Compute the token ids of the texts, and the places of the tokens if an output is about these."""
    if not request.texts or request.rows:
        return request
    began = time.perf_counter()
    description, encoders = context.describe_request(request), context.model.texts
    assert description.text is not None
    chosen = request.options.prompt
    prompt = description.text.opening if chosen is None else description.text.prompts[chosen]
    texts = tuple(prompt + text for text in request.texts) if prompt else request.texts
    items = tuple(zip(texts, request.pairs, strict=True)) if request.pairs else tuple((text,) for text in texts)
    arguments = items, context.limits, context.count_seconds_left
    tagged = any(output.kind == "tokens" for output in description.outputs)
    found, located = encoders.locate_texts(*arguments) if tagged else (encoders.encode_texts(*arguments), ())
    # Each run has the shortest size for its texts, unless answers of different sizes could not be joined.
    rows, size = pack_tokens([one.ids for one in found], description, [one.types for one in found]), request.size
    if not description.has_fixed_outputs:
        size = choose_row_size(rows, list_size_ports(description))
    return request._replace(rows=rows, located=located, size=size, seconds={"decode": time.perf_counter() - began})


def _fill_inputs(part: Request, context: RunContext) -> Request:
    text = context.describe_request(part).text
    assert text is not None
    return fill_rows(part, dict.fromkeys(text.feeds, 0) | {text.ids: context.model.texts.pad}, context)


def measure_rows(request: Request) -> list[int]:
    """Return the bytes of each item's row."""
    return [sum(map(len, row.values())) for row in request.rows]


def fill_rows(part: Request, pads: Mapping[str, float], context: RunContext) -> Request:
    """Put the rows among the inputs, in the size that they need. ``pads``: see ``fill_feeds``."""
    if not part.rows:
        return part
    description, size = context.describe_request(part), part.size
    sizes = list_size_ports(description)
    if pads and description.has_fixed_outputs:
        size = choose_row_size(part.rows, sizes)
    return part._replace(inputs=part.inputs | fill_feeds(part.rows, pads, sizes[size]), size=size)
