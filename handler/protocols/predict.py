"""Our own protocol, as JSON.

    {"image": "<base64, or a data: URL>"}      one picture
    {"image": {"s3": "s3://bucket/key"}}       one that is elsewhere, where the function may read it
    {"image": {"url": "https://…"}}
    {"images": ["<base64>", …]}                several; answered in the same order
    {"inputs": {"<feed>": [[…], …]}}           tensors, for models that take no picture; nested or flat
    {"inputs": {"<feed>": {"b64": "…"}}}       the same as raw little-endian bytes

and with any of them ``"model": "<name>"``, one of a bundle of several; the first when left out. It answers

    {"model": {"name": …, "version": …},
     "predictions": [{"<output>": [{"label": …, "probability": …}, …] or numbers}, …],
     "cold_start": true, "timings_ms": {"decode": …, "infer": …, "total": …}}

or ``{"error": {"code": …, "message": …}}``.
"""

from __future__ import annotations

import json
from typing import Any

from ..answer import predictions
from ..description import Description, Port
from ..errors import Refusal, TooManyImagesError, WrongFieldError, WrongTypeError
from ..http import HttpRequest, HttpResponse
from ..image import Limits
from ..request import Picture, Reference, Request, source
from ..server import Call, Server
from ..tensors import tensor


def answer(event: object, server: Server, call: Call) -> dict[str, Any]:
    """The answer to ``event``, as above. Raises HandlerError."""
    result = server.infer(parse(event, server.description(_model(event)), server.limits), call)
    return {
        "model": {"name": result.description.name, "version": result.description.version},
        "predictions": [
            item for fetches, count in result.batches for item in predictions(result.description, fetches, count)
        ],
        "cold_start": call.cold_start,
        "timings_ms": result.timings_ms,
    }


def error(refusal: Refusal) -> dict[str, Any]:
    """The answer to a request that was refused."""
    return {"error": {"code": refusal.code, "message": refusal.message}}


def handle(request: HttpRequest, server: Server, call: Call) -> HttpResponse:
    """``POST /predict``. Raises HandlerError."""
    try:
        event = json.loads(request.body)
    except (ValueError, RecursionError):  # not UTF-8, or not JSON
        raise WrongTypeError('the body must be JSON like {"image": "<base64>"}') from None
    return HttpResponse.of_json(answer(event, server, call))


def refuse(refusal: Refusal) -> HttpResponse:
    return HttpResponse.of_json(error(refusal), refusal.status)


def parse(event: object, description: Description, limits: Limits) -> Request:
    """``{"image": …}``, ``{"images": […]}`` or ``{"inputs": {…}}``. Raises HandlerError."""
    if not isinstance(event, dict):
        raise WrongTypeError('the request must be an object like {"image": "<base64>"}')
    image = description.image
    known = ("image", "images", "inputs") if image else ("inputs",)
    unknown = [key for key in event if key not in known and key != "model"]
    if unknown or not any(key in event for key in known):
        expected = 'send "image" or "images"' if image else 'this model takes no image; send "inputs"'
        found = f"{_shortened(unknown)} not known here; " if unknown else "the request is empty; "
        raise WrongFieldError(found + expected)
    if "image" in event and "images" in event:
        raise WrongFieldError('"image" and "images" exclude each other; send one of them')
    pictures: tuple[Picture | Reference, ...] = ()
    if image and ("image" in event or "images" in event):
        pictures = tuple(source(value, where, limits) for where, value in _pictures(event, description, limits))
    wanted = [port for port in description.feeds if not (pictures and image and port.name == image.feed)]
    return Request(pictures, _inputs(event.get("inputs", {}), wanted), _model(event))


def _model(event: object) -> str | None:
    name = event.get("model") if isinstance(event, dict) else None
    if name is not None and not isinstance(name, str):
        raise WrongTypeError('"model" must be the name of one of the bundle\'s models')
    return name


def _pictures(event: dict[str, object], description: Description, limits: Limits) -> list[tuple[str, object]]:
    if "image" in event:
        return [('"image"', event["image"])]
    images = event["images"]
    if not isinstance(images, list):
        raise WrongTypeError('"images" must be a list of base64 strings; a single picture goes into "image"')
    if not images:
        raise WrongFieldError('"images" is empty')
    if len(images) > limits.images:
        raise TooManyImagesError(f'"images" has {len(images)}; at most {limits.images} are taken at a time')
    if len(description.feeds) > 1 and len(images) > description.batch:
        raise TooManyImagesError(
            f'"images" has {len(images)}; with "inputs" beside them at most {description.batch} are taken'
        )
    return [(f'"images"[{index}]', value) for index, value in enumerate(images)]


def _inputs(value: object, wanted: list[Port]) -> dict[str, bytes]:
    if not isinstance(value, dict):
        raise WrongTypeError('"inputs" must be an object of tensors by name')
    names = {port.name for port in wanted}
    unknown = [name for name in value if name not in names]
    missing = [port.name for port in wanted if port.name not in value]
    if unknown or missing:
        need = ", ".join(f'"{port.name}" ({port.dtype} {list(port.shape)})' for port in wanted) or "nothing"
        found = f"{_shortened(unknown)} not known" if unknown else f'"{missing[0]}" is missing'
        raise WrongFieldError(f'{found} in "inputs"; needed: {need}')
    return {port.name: tensor(value[port.name], port) for port in wanted}


def _shortened(names: list[str]) -> str:
    shown = ", ".join(f'"{name[:40]}"' for name in names[:3])
    return f"{shown}{', …' if len(names) > 3 else ''} {'is' if len(names) == 1 else 'are'}"
