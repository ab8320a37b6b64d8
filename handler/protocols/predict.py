"""Our own protocol, in which ``POST /predict`` takes JSON.

    {"image": "<base64, or a data: URL>"}      an image
    {"image": {"s3": "s3://bucket/key"}}       an image elsewhere, where the function may read it
    {"image": {"url": "https://…"}}
    {"images": ["<base64>", …]}                several; answered in the same order
    {"audio": "<base64>"}                      a recording, in the same forms; answered window by window
    {"text": "…"}                              a text
    {"texts": ["…", …]}                        several; answered in the same order
    {"text": "…", "text_pair": "…"}            a pair of texts, for a model of these
    {"text": "…", "text_pairs": ["…", …]}      one text with each of several
    {"texts": ["…", …], "text_pairs": […]}     several pairs
    {"row": {"<column>": 3, …}}                a row of a table, for a model of one
    {"rows": [{…}, […], …]}                    several, also in the order of the columns
    {"inputs": {"<feed>": [[…], …]}}           tensors, for models that take no image; nested, with any number of
                                               items, or flat
    {"inputs": {"<feed>": {"b64": "…"}}}       the same as raw little-endian bytes
    {"inputs": {"<column>": "3", …}}           a row of a table whose numbers may be text, as a list of inputs has them

Any of them may have ``"model": "<name>"``, for a bundle of several models, and ``"signature": "<name>"``, for a model
of several signatures; the default is the first. A single input may be called ``input``, whatever its name. The body may
also be the file itself, a text (``text/plain``), a table (``text/csv``), or a form with images
(``multipart/form-data``). If the content type is missing or curl's default, the first bytes tell a file from JSON. The
query may name the ``model``, too. ``top_k``, in the query or in the JSON, is the number of classes that are listed;
``options`` has more such keys. The answer is

    {"model": {"name": …, "version": …},
     "predictions": [{"<output>": [{"label": …, "probability": …}, …] or numbers}, …],
     "cold_start": true, "timings_ms": {"decode": …, "infer": …, "total": …}}

or ``{"error": {"code": …, "message": …}}``, which also takes the place of a prediction for which the time ran out
(``out_of_time``). A recording's predictions begin with the ``"start"`` and ``"end"`` of their window, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable

from ..answer import ANSWER_LIMIT, compute_min_predictions_length, make_predictions, require_possible
from ..budget import RequestLimits
from ..deadline import no_deadline
from ..description import Description, Port
from ..errors import (
    MethodNotAllowedError,
    NotFoundError,
    OutOfTimeError,
    Refusal,
    WrongFieldError,
    WrongMediaTypeError,
    WrongTypeError,
)
from ..http import HttpRequest, HttpResponse
from ..inputs import InputKind, find_file_kind, load_kinds
from ..options import NAMES, AnswerOptions, apply_options, parse_options
from ..request import File, Request, count_items
from ..server import Invocation, Result, Server
from ..tensors import ALIAS, choose_description, input_bytes, item_count, name_single, set_item_counts
from ..typed import Any

FORM = "application/x-www-form-urlencoded"
"""The content type that curl sends by default."""


def answer_event(
    event: object, server: Server, call: Invocation, *, partial: bool = True, limit: int | None = ANSWER_LIMIT
) -> dict[str, Any]:
    """Answer ``event``, the JSON above; ``partial``: whether items may be left out if the time runs out.

    ``limit``: the most bytes of an answer; None if nobody waits for it. Raises HandlerError.
    """
    description = server.find_description(_read_model_name(event))
    request = parse_event(event, description, server.limits, call.count_seconds_left)
    return answer_request(request._replace(partial=partial), server, call, limit)


def answer_request(request: Request, server: Server, call: Invocation, limit: int | None) -> dict[str, Any]:
    """Answer ``request``. ``limit``: see ``answer_event``. Raises HandlerError."""
    apply_options(server.describe_request(request), request.options)  # before a recording is decoded
    request = server.prepare_request(request, call)
    _require_possible(request, server, limit)
    return format_result(server.run_inference(request, call), call, request.options)


def _require_possible(request: Request, server: Server, limit: int | None) -> None:
    """Raise AnswerTooLargeError or OverBudgetError if the least possible answer is too large, before inference."""
    description = apply_options(server.describe_request(request), request.options)
    require_possible(
        compute_min_predictions_length(description, count_items(request, description)), limit, server.limits
    )


def format_result(result: Result, call: Invocation, options: AnswerOptions) -> dict[str, Any]:
    """Format ``result`` as an answer, with errors in the places of items for which the time ran out."""
    description = apply_options(result.description, options)
    done: list[Any] = []
    for fetches, count in result.batches:
        own = slice(len(done), len(done) + count)
        done += make_predictions(description, fetches, count, result.sizes[own], result.texts[own])
    if result.left:
        done += [
            format_error(call.refuse(OutOfTimeError("the function ran out of time; send the request again")))
        ] * result.left
    if result.spans:
        done = [{"start": start, "end": end} | item for (start, end), item in zip(result.spans, done, strict=True)]
    return {
        "model": {"name": description.name, "version": description.version},
        "predictions": done,
        "cold_start": call.cold_start,
        "timings_ms": result.timings_ms,
    }


def format_error(refusal: Refusal) -> dict[str, Any]:
    """Format the answer to a refused request."""
    return {"error": {"code": refusal.code, "message": refusal.message}}


def handle_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    """Answer ``POST /predict``, the same at ``/``, and ``GET /health``. Raises HandlerError."""
    if request.path not in ("/", "/predict", "/health"):
        raise NotFoundError(request.path, server.models)
    method = "GET" if request.path == "/health" else "POST"
    if request.method != method:
        raise MethodNotAllowedError(request.method, request.path, method)
    if method == "GET":  # the model was opened when the function started
        return HttpResponse.from_json({"status": "healthy"})
    wanted = parse_options(request.query)
    parsed = _parse_body(request, server, call.count_seconds_left)._replace(partial=True)
    parsed = parsed._replace(options=wanted.with_defaults(parsed.options))
    return HttpResponse.from_json(answer_request(parsed, server, call, request.answer_limit))


def format_refusal(refusal: Refusal) -> HttpResponse:
    """Answer with an error in our own form."""
    return HttpResponse.from_json(format_error(refusal), refusal.status)


def _parse_body(request: HttpRequest, server: Server, left: Callable[[], float]) -> Request:
    """Parse the body by its content type. Raises HandlerError."""
    name = request.query.get("model")
    description, limits = server.find_description(name), server.limits
    content_type = request.headers.get("content-type", "")
    media = content_type.partition(";")[0].strip().lower()
    kind = find_file_kind(description)
    if media in ("", FORM):
        media = _recognise_media(request.body, kind) or media
    if media in ("", "application/json"):
        event = request.parse_json(kind.example if kind else '{"inputs": {}}', limits)
        name = _read_model_name(event) or name
        return parse_event(event, server.find_description(name), limits, left)._replace(model=name)
    accepted = kind.media_types if kind else ()
    if not any(media == mime or (mime.endswith("/") and media.startswith(mime)) for mime in accepted):
        listed = ", ".join(["application/json", *(f"{mime}*" if mime.endswith("/") else mime for mime in accepted)])
        raise WrongMediaTypeError(
            f"the content type must be one of {listed}; curl takes it as -H 'content-type: TYPE'"
            if kind
            else "this model takes application/json only"
        )
    files = [File(request.body, "the body", content_type)]
    if media == "multipart/form-data":
        from .multipart import parse_form

        form = enumerate(parse_form(content_type, request.body), 1)
        files = [File(part.data, f'file {n} ("{part.name[:40]}")') for n, part in form]
    return make_file_request(files, description, limits)._replace(model=name)


def _recognise_media(body: bytes, kind: InputKind | None) -> str:
    """Tell the media type of ``body`` by its first bytes; empty where they are neither a file's nor those of JSON."""
    if kind and kind.is_file(body):
        return "application/octet-stream"
    return "application/json" if body[:64].lstrip()[:1] in (b"{", b"[") else ""


def make_file_request(files: list[File], description: Description, limits: RequestLimits) -> Request:
    """Make a request of ``files``, of the kind that the model takes. Raises HandlerError."""
    kind = find_file_kind(description)
    assert kind is not None
    return Request(**{"images": (), "inputs": {}, **kind.read_files(files, description, limits)})


def parse_event(
    event: object, description: Description, limits: RequestLimits, left: Callable[[], float] = no_deadline
) -> Request:
    """Parse ``{"image": …}``, ``{"images": […]}``, ``{"audio": …}``, ``{"examples": […]}`` or ``{"inputs": {…}}``.

    ``left``: see ``Invocation.count_seconds_left``. Raises HandlerError.
    """
    if not isinstance(event, dict):
        raise WrongTypeError('the request must be an object like {"image": "<base64>"}')
    description = description.select_signature(_read_name(event, "signature") or "")
    taken_kinds = load_kinds(description)
    keys = tuple(dict.fromkeys(key for kind in taken_kinds for key in kind.keys))
    beside = [name for kind in taken_kinds for key, names in kind.companions.items() if key in event for name in names]
    unknown = [key for key in event if key not in (*keys, *beside, "inputs", "model", "signature", *NAMES)]
    if unknown or event.keys().isdisjoint((*keys, "inputs")):
        listed = " or ".join(f'"{key}"' for key in keys)
        expected = f"send {listed}" if keys else 'this model takes no image; send "inputs"'
        problem = f"{_list_unknown(unknown)} not known here; " if unknown else "the request is empty; "
        raise WrongFieldError(problem + expected)
    for kind in taken_kinds:
        if len(both := [f'"{key}"' for key in kind.keys if key in event]) > 1:
            raise WrongFieldError(f"{' and '.join(both)} exclude each other; send one of them")
    fields: dict[str, Any] = {}
    taken: tuple[str, ...] = ()
    for kind in reversed(taken_kinds):  # tf.Examples come first, since they exclude everything else
        if not event.keys().isdisjoint(kind.keys):
            fields |= kind.read_event(event, description, limits)
            taken += kind.replaces
    named = event.get("inputs", {})
    if description.table and not taken and _is_row(named):
        from ..inputs.table_csv import read_cells

        fields |= read_cells(named, description, limits)
        named, taken = {}, tuple(port.name for port in description.caller_inputs)
    values = _match_inputs(named, [port for port in description.caller_inputs if port.name not in taken])
    counts: dict[str, int] = {}
    if description.strings and "strings" not in fields:
        from ..inputs.strings import read_strings

        fields["strings"], counts = read_strings(values, description, limits)
    if not taken:
        description = choose_description(
            {port.name: values[port.name] for port in description.tensor_inputs}, description
        )
    ports = [port for port in description.tensor_inputs if port.name in values]
    if description.batched and not taken:
        counts |= {port.name: item_count(values[port.name], port) for port in ports}
        ports = set_item_counts(ports, counts, description, limits)
    inputs = {port.name: input_bytes(values[port.name], port, description, left) for port in ports}
    return Request(
        **{"images": (), **fields, "inputs": inputs | fields.get("inputs", {})},
        model=_read_model_name(event),
        size=description.size,
        signature=description.signature,
        options=parse_options(event),
    )


def _read_model_name(event: object) -> str | None:
    return _read_name(event, "model")


def _read_name(event: object, key: str) -> str | None:
    """Read the name of a model of the bundle, or of a signature of a model. Raises WrongTypeError."""
    name = event.get(key) if isinstance(event, dict) else None
    if name is not None and not isinstance(name, str):
        whose = "bundle's models" if key == "model" else "model's signatures"
        raise WrongTypeError(f'"{key}" must be the name of one of the {whose}')
    return name


def _match_inputs(value: Any, wanted: list[Port]) -> dict[str, object]:
    if not isinstance(value, dict):
        raise WrongTypeError('"inputs" must be an object of tensors by name')
    names = [port.name for port in wanted]
    value = name_single(value, names)
    unknown = [name for name in value if name not in names]
    missing = [port.name for port in wanted if port.name not in value]
    if unknown or missing:
        need = ", ".join(f'"{port.name}" ({port.dtype} {list(port.shape)})' for port in wanted) or "nothing"
        need += f', which may be called "{ALIAS}"' if len(names) == 1 else ""
        problem = f"{_list_unknown(unknown)} not known" if unknown else f'"{missing[0]}" is missing'
        raise WrongFieldError(f'{problem} in "inputs"; needed: {need}')
    return dict(value)


def _is_row(inputs: object) -> bool:
    """Return whether ``inputs`` has a single value under each name, as a row of a table does."""
    return isinstance(inputs, dict) and bool(inputs) and not any(isinstance(v, list | dict) for v in inputs.values())


def _list_unknown(names: list[str]) -> str:
    shown = ", ".join(f'"{name[:40]}"' for name in names[:3])
    return f"{shown}{', …' if len(names) > 3 else ''} {'is' if len(names) == 1 else 'are'}"
