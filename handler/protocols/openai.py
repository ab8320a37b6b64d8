"""OpenAI's embeddings API: ``POST /v1/embeddings``.

https://platform.openai.com/docs/api-reference/embeddings. ``input`` is a text, a list of texts, or the token ids of one
text or of several, which are used as they are. ``prompt``, which OpenAI has not, is as for ``/predict``. Errors have
OpenAI's form.
"""

from __future__ import annotations

from ..answer import compute_min_predictions_length, make_predictions, require_possible
from ..description import Description
from ..errors import (
    MethodNotAllowedError,
    Refusal,
    TextTooLongError,
    TooManyImagesError,
    WrongFieldError,
    WrongTypeError,
)
from ..http import HttpRequest, HttpResponse
from ..options import AnswerOptions, apply_options, parse_options
from ..request import Request, check_text, check_texts, count_items, require_same_run
from ..server import Invocation, Result, Server
from ..typed import Any

PATH = "/v1/embeddings"
EXAMPLE = '{"model": "…", "input": "…"}'
FORMATS = {"float": "float32", "base64": "base64"}
KNOWN = ("input", "model", "dimensions", "encoding_format", "user", "prompt")


def handle_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    """Answer ``POST /v1/embeddings``. Raises HandlerError."""
    if request.method != "POST":
        raise MethodNotAllowedError(request.method, request.path, "POST")
    event = request.parse_object(EXAMPLE, server.limits)
    inference = server.prepare_request(_parse_request(event, server), call)
    described = _select_embedding(server.describe_request(inference), inference.options)
    least = compute_min_predictions_length(described, count_items(inference, described))
    require_possible(least, request.answer_limit, server.limits)
    return HttpResponse.from_json(_format_result(server.run_inference(inference, call), inference.options))


def format_refusal(refusal: Refusal) -> HttpResponse:
    """Answer with an error in OpenAI's form."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    code = "model_not_found" if refusal.code == "unknown_model" else refusal.code
    error = {"message": refusal.message, "type": kind, "param": None, "code": code}
    return HttpResponse.from_json({"error": error}, refusal.status)


def _parse_request(event: dict[str, Any], server: Server) -> Request:
    if unknown := [key for key in event if key not in KNOWN]:
        raise WrongFieldError(f'"{unknown[0][:40]}" is not known here')
    if "input" not in event:
        raise WrongFieldError(f"the request must be like {EXAMPLE}")
    name = event.get("model")
    if not isinstance(name, str | None):
        raise WrongTypeError('"model" must be a string')
    encoding = event.get("encoding_format", "float")
    if not isinstance(encoding, str) or encoding not in FORMATS:
        raise WrongFieldError(f'"encoding_format" must be one of {", ".join(FORMATS)}')
    wanted = parse_options({name: event[name] for name in ("dimensions", "prompt") if event.get(name) is not None})
    wanted = wanted._replace(format=FORMATS[encoding])
    description = server.find_description(name)
    if not is_embedding_model(description):
        raise WrongFieldError("this model is none of embeddings of texts alone")
    _select_embedding(description, wanted)
    parsed = Request((), {}, name, options=wanted)
    value = event["input"]
    if not isinstance(value, str | list):
        raise WrongTypeError('"input" must be a string, or a list of strings or of tokens')
    if description.text and isinstance(value, list) and value and not isinstance(value[0], str):
        return _add_token_ids(parsed, value, description, server)
    if isinstance(value, str):
        texts: tuple[str, ...] = (check_text(value, '"input"', server.limits),)
    else:
        texts = require_same_run(check_texts(value, '"input"', server.limits), '"input"', description)
    if text_input := description.text_input:
        return parsed._replace(strings={text_input: tuple(text.encode() for text in texts)})
    return parsed._replace(texts=texts)


def _add_token_ids(parsed: Request, value: list[Any], description: Description, server: Server) -> Request:
    """Add the token ids ``value``, one list or several, to ``parsed``. Raises HandlerError."""
    from ..text import find_max_length
    from ..text.rows import choose_row_size, list_size_ports, pack_tokens

    rows = value if isinstance(value[0], list) else [value]
    allowed = server.limits.items if description.batched else description.batch
    if len(rows) > allowed:
        raise TooManyImagesError(f'"input" has {len(rows)}; at most {allowed} are allowed at a time')
    assert description.text is not None
    port = next(port for port in description.feeds if port.name == description.text.ids)
    largest = 2 ** (8 * port.size // port.elements - port.dtype.startswith("int")) - 1
    most = find_max_length(description)
    id_rows: list[list[int]] = []
    for row in rows:
        if not isinstance(row, list) or not row or not all(_is_whole(token) and 0 <= token <= largest for token in row):
            raise WrongTypeError(f'"input" must be a list of tokens, 0 to {largest}, or a list of such lists')
        if len(row) > most:
            raise TextTooLongError(f"a text has {len(row)} tokens; the model takes at most {most:,}")
        id_rows.append([int(token) for token in row])
    packed = pack_tokens(id_rows, description)
    size = 0 if description.has_fixed_outputs else choose_row_size(packed, list_size_ports(description))
    return parsed._replace(rows=packed, size=size)


def _is_whole(value: object) -> bool:
    """Return whether ``value`` is an integer as JSON Schema defines it, which 3.0 is, too."""
    return type(value) is int or (isinstance(value, float) and value.is_integer())


def is_embedding_model(description: Description) -> bool:
    """Return whether the model takes texts alone and gives an embedding."""
    return description.text_alone and any(output.kind == "embedding" for output in description.outputs)


def _select_embedding(description: Description, wanted: AnswerOptions) -> Description:
    """Return ``description`` with its first embedding alone, and the options ``wanted``. Raises WrongFieldError."""
    first = next(output for output in description.outputs if output.kind == "embedding")
    return apply_options(description._replace(outputs=(first,)), wanted)


def _format_result(result: Result, wanted: AnswerOptions) -> dict[str, Any]:
    description = _select_embedding(result.description, wanted)
    (output,) = description.outputs
    rows = [item[output.name] for data, count in result.batches for item in make_predictions(description, data, count)]
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(rows)],
        "model": description.name,
        "usage": {"prompt_tokens": result.tokens, "total_tokens": result.tokens},
    }
