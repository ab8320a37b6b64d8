"""What is fuzzed: each target takes any bytes, and may only answer or raise HandlerError. Anything else is a finding.

The seeds in ``corpus/<target>/`` are replayed by tests/handler/test_fuzz_corpus.py; what a fuzzer finds joins them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handler import events, protocols
from handler.budget import Limits
from handler.description import Description, ImageInput, Port, parse
from handler.errors import HandlerError, InferenceError, Refusal, SourceNotAllowedError, WrongTypeError, refusal
from handler.http import HttpRequest
from handler.image import pixels
from handler.model import Model
from handler.protocols import predict
from handler.remote import fetched
from handler.request import Reference, Request, source
from handler.server import Call, Server
from handler.sources import NOWHERE
from handler.tensors import tensor
from tests.support import abi_library

CORPUS = Path(__file__).parent / "corpus"
BUILD = Path(__file__).parents[2] / "build" / "fuzz"
LIMITS = Limits(encoded=100_000, pixels=200_000, images=4)


def image(data: bytes) -> None:
    """An image file, after one byte that chooses how it is resized."""
    if not data:
        return
    resize, fit = data[0] % 8, data[0] // 8 % 4
    target = ImageInput(
        "image",
        16,
        12,
        mode="grey" if data[0] & 32 else "rgb",
        fit=("stretch", "cover", "contain", "contain")[fit],
        resize=("nearest", "bilinear", "bicubic", "area", "lanczos", "bilinear", "bicubic", "lanczos")[resize],
        antialias=resize < 5,
        padding=(1, 2, 3) if fit == 3 and not data[0] & 32 else (7,),
    )
    try:
        assert len(pixels(data[1:], "it", target, LIMITS)) == target.size
    except HandlerError:
        return


def base64(data: bytes) -> None:
    """A picture's text, or what stands there instead of it."""
    text = data.decode("utf-8", "surrogateescape")
    for value in (text, parsed(data)):
        try:
            source(value, "it", LIMITS)
        except HandlerError:
            continue


def body(data: bytes) -> None:
    """The JSON of our own protocol, for a model of pictures and for one of tensors."""
    event = parsed(data)
    for description in descriptions():
        try:
            predict.parse(event, description, LIMITS)
        except HandlerError:
            continue


def tensors(data: bytes) -> None:
    """A tensor of each dtype, as JSON."""
    if not data:
        return
    value = parsed(data[1:])
    dtypes = (("float32", 4), ("float64", 8), ("int64", 8), ("uint8", 1), ("bool", 1), ("int8", 1), ("uint64", 8))
    dtype, size = dtypes[data[0] % len(dtypes)]
    shape = ((), (4,), (2, 2), (1, 2, 0))[data[0] // len(dtypes) % 4]
    elements = {(): 1, (1, 2, 0): 0}.get(shape, 4)
    try:
        assert len(tensor(value, Port("x", dtype, shape, elements * size))) == elements * size
    except HandlerError:
        return


def address(data: bytes) -> None:
    """Where a picture is said to be: nothing is allowed here, so nothing may be fetched."""
    text = data.decode("utf-8", "replace")
    for kind in ("s3", "url"):
        try:
            fetched(Request((Reference(kind, text, "it"),), {}), NOWHERE, LIMITS, 1000)
            raise AssertionError("something was fetched")
        except (SourceNotAllowedError, WrongTypeError) as error:
            told = error.message
        if len(text) > 40:  # a shorter one may be part of what the message says is right
            assert text not in told


def event(data: bytes) -> None:
    """Any JSON as an event, through the whole function."""
    value = parsed(data)
    for server in servers():
        json.dumps(events.answer(value, server, call()), allow_nan=False)


def http(data: bytes) -> None:
    """A request of any protocol: ``METHOD path?query``, header lines, an empty line and the body."""
    head, _, content = data.partition(b"\n\n")
    first, *lines = head.decode("utf-8", "replace").split("\n")
    method, _, target = first.partition(" ")
    path, _, query = target.partition("?")
    pairs = [item.partition("=") for item in query.split("&") if item]
    named = [line.partition(":") for line in lines]
    headers = {name.strip().lower(): value.strip() for name, _, value in named if name.strip()}
    request = HttpRequest(method, path, {name: value for name, _, value in pairs}, headers, content)
    for server in servers():
        response = protocols.respond(request, server, call())
        assert 200 <= response.status < 600  # 500 is the poisoned pixel: any other failure has been raised
        assert all(c.isprintable() for name, value in response.headers.items() for c in name + value)


def parsed(data: bytes) -> object:
    """The JSON in ``data``; None if it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (image, base64, body, tensors, address, event, http)
}


def call() -> Call:
    """One that lets what is not the caller's fault through, to be found."""

    def refuse(error: Exception) -> Refusal:
        poisoned = isinstance(error, InferenceError) and "the kernel fell over" in str(error)
        if not isinstance(error, HandlerError) and not poisoned:
            raise error
        return refusal(error, "request-1")

    return Call("request-1", False, lambda: 10_000, lambda _: None, refuse)


@functools.cache
def descriptions() -> list[Description]:
    texts: list[dict[str, Any]] = [abi_library.picture_description(batch=2), abi_library.tensor_description()]
    return [parse(json.dumps(text)) for text in texts]


@functools.cache
def servers() -> list[Server]:
    """Around real libraries, one for pictures and one for tensors."""
    pictures = abi_library.build(BUILD / "pictures", abi_library.picture_description(batch=2))
    numbers = abi_library.build(BUILD / "tensors", abi_library.tensor_description())
    models = [Model(str(pictures)), Model(str(numbers))]
    return [Server({model.description.name: model}, LIMITS) for model in models]
