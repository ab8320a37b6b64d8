"""What is fuzzed: each target takes any bytes, and may only answer or raise HandlerError. Anything else is a finding,
and so is what takes more time or memory than its budget says (``oracle``). Each gives what was spent.

The seeds in ``corpus/<target>/`` are replayed by tests/handler/test_fuzz_corpus.py; what a fuzzer finds joins them.
"""

from __future__ import annotations

import functools
import io
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

from botocore.exceptions import ClientError

from builder.config import TextSpec
from builder.importers.text import prepare_tokenizer
from handler import events, protocols, storage
from handler.answer import ANSWER_LIMIT
from handler.answers.tokens import find_words as words_in
from handler.audio import read_windows
from handler.budget import RequestLimits
from handler.description import AudioInput, Description, ImageInput, Port, parse_description
from handler.errors import (
    HandlerError,
    InferenceError,
    Refusal,
    RetryLater,
    SourceNotAllowedError,
    WrongTypeError,
    make_refusal,
)
from handler.http import HttpRequest
from handler.image import read_pixels
from handler.inputs.example import Feature
from handler.inputs.example import parse_example as parsed_example
from handler.model import Model
from handler.protocols import predict
from handler.remote import fetch_files
from handler.request import Reference, Request, decode_text, read_source
from handler.server import Invocation, Server
from handler.sources import NOWHERE
from handler.tensors import read_tensor
from handler.text import TextTokenizer, load_tokenizer
from handler.text.words import StringProgram, parse_program
from tests.fuzz import answers, recipes
from tests.fuzz.oracle import BODY_BYTE, FLOOR, AskedLimits, Spent, held
from tests.support import abi_library, vocabulary
from tests.support.words import sized

CORPUS = Path(__file__).parent / "corpus"
FACE = (Path(__file__).parents[1] / "data" / "face.jpg").read_bytes()
BATCH: dict[str, Any] = {
    "Batch": 1,
    "BatchInput": {"Results": "s3://results/run/parts/0/", "Together": 2},
    "Attempt": 2,
}
"""A batch of a list, but for its items."""
BUILD = Path(__file__).parents[2] / "build" / "fuzz"
MEMORY_MB = (128, 512, 1769, 10_240)
LIMITS = AskedLimits.of(RequestLimits.for_memory(1769))
NOTHING = Spent(0, 0)
COSTLY_FLOOR = Spent(FLOOR.seconds, FLOOR.bytes + (128 << 20))
"""And a run of one item, which is in no budget: 22 MB of pixels as a picture, as a feed and as a fetch."""
BUILDER_FLOOR = Spent(20.0, 1 << 30)
"""What is built once, before the first input, is in it: a library, TensorFlow's import."""
TENSORS = abi_library.tensor_description()
WORDS = {
    "characters": ("int64", 5),
    "code_points": ("int32", 8),
    "columns": ("int64", 1),
    "numbers": ("float32", 1),
    "vectorized": ("int64", 6),
    "tagged": ("int64", 6),
}
"""What the builder wrote of six models (tests/fuzz/words): the type and number of what a string becomes in each, or
that of the shortest length."""
FEATURES = (
    Feature("level", "float32", 2),
    Feature("days", "int64", 3, bytes(24)),
    Feature("tags", "string", 2, (b"", b"")),
)


def image(data: bytes) -> Spent:
    """An image file, after one byte that chooses how it is resized, and by how large a function."""
    if not data:
        return NOTHING
    resize, fit, memory = data[0] % 8, data[0] // 8 % 4, MEMORY_MB[data[0] // 64]
    target = ImageInput(
        "image",
        16,
        12,
        mode="grey" if data[0] & 32 else "rgb",
        fit=("stretch", "cover", "contain", "short")[fit],
        resize=("nearest", "bilinear", "bicubic", "area", "lanczos", "bilinear", "bicubic", "lanczos")[resize],
        antialias=resize < 5,
        grid=("half_pixel", "asymmetric", "align_corners", "half_pixel")[fit] if resize in (0, 5) else "half_pixel",
        padding=(1, 2, 3) if fit == 2 and not data[0] & 32 else (7,),
    )
    return resized(data[1:], target, memory)


def costly_image(data: bytes) -> Spent:
    """A picture that asks for much, of a recipe."""
    return resized(*recipes.picture(data))


def resized(file: bytes, target: ImageInput, memory: int) -> Spent:
    limits = AskedLimits.of(RequestLimits.for_memory(memory))

    def decode() -> None:
        with suppress(HandlerError):
            assert len(read_pixels(file, "it", target, limits)) == target.size

    return held(decode, limits, len(file))


def audio(data: bytes) -> Spent:
    """A recording's file, after one byte that chooses the model's rate, and how large a function it is."""
    if not data:
        return NOTHING
    target = AudioInput("sound", (8_000, 16_000, 22_050, 44_100)[data[0] % 4], 800, 400)
    limits, decoders = AskedLimits.of(RequestLimits.for_memory(MEMORY_MB[data[0] // 64])), sound_decoders()

    def decode() -> None:
        with suppress(HandlerError):
            samples, spans = read_windows(data[1:], "it", target, limits, decoders)
            assert len(samples) == 4 * target.length * len(spans) > 0

    return held(decode, limits, len(data))


def text(data: bytes) -> Spent:
    """A text's UTF-8, after one byte that chooses whether it is cut off, and how large a function it is."""
    if not data:
        return NOTHING
    limits, encoder = (
        AskedLimits.of(RequestLimits.for_memory(MEMORY_MB[data[0] // 64])),
        texts_of(truncate=bool(data[0] & 1)),
    )

    def encode() -> None:
        with suppress(HandlerError):
            items = [(decode_text(data[1:], "it", limits),)]
            (found,) = encoder.encode_texts(items, limits, lambda: 10.0)
            assert 2 <= len(found.ids) <= encoder.longest
            again, (located,) = encoder.locate_texts(items, limits, lambda: 10.0)
            assert (again, len(located.places)) == ((found,), len(found.ids))
            end = 0
            for word in words_in(located):
                assert end <= word.start < word.end <= len(located.text)
                end = word.end

    return held(encode, limits, len(data), byte_seconds=BODY_BYTE * 10)


def words(data: bytes) -> Spent:
    """A string's UTF-8, through the steps of a model that takes such, after one byte that chooses the model, and how
    large a function it is.
    """
    if not data:
        return NOTHING
    limits = AskedLimits.of(RequestLimits.for_memory(MEMORY_MB[data[0] // 64]))
    name = [*WORDS][data[0] % len(WORDS)]
    steps, (dtype, size) = words_of(name), WORDS[name]
    lengths = (size, 10 * size, 100 * size) if steps.pads else (size,)
    sizes = [{f: Port(f, dtype, (1, n), n * int(dtype[-2:]) // 8) for f in steps.outputs} for n in lengths]

    def number() -> None:
        with suppress(HandlerError):
            string = decode_text(data[1:], "it", limits).encode()
            given = {name: [string] * prod(shape) for name, shape in steps.inputs.items()}
            chosen, made = sized(steps, given, sizes, limits=limits)
            if steps.tokens is not None:
                (located,) = steps.tokens.locate_words([string], size, limits, lambda: 10.0)
                end = 0
                for word in words_in(located):
                    assert end <= word.start < word.end <= len(located.text)
                    end = word.end
            assert {feed: len(row) for feed, row in made.items()} == {f: p.size for f, p in sizes[chosen].items()}

    return held(number, limits, len(data), byte_seconds=BODY_BYTE * 100)


def example(data: bytes) -> Spent:
    """A serialized tf.Example, for a model of every kind of feature."""

    def read() -> None:
        with suppress(HandlerError):
            level, days, tags = parsed_example(data, FEATURES)
            assert (len(level), len(days), len(tags)) == (8, 24, 2)

    return held(read, LIMITS, len(data), byte_seconds=BODY_BYTE)


def base64(data: bytes) -> Spent:
    """A picture's text, or what stands there instead of it."""
    values = (data.decode("utf-8", "surrogateescape"), parsed(data))

    def read() -> None:
        for value in values:
            with suppress(HandlerError):
                read_source(value, "it", LIMITS.encoded)

    return held(read, LIMITS, len(data))


def body(data: bytes) -> Spent:
    """The JSON of our own protocol, for a model of pictures and for one of tensors."""
    event = parsed(data)

    def parse_all() -> None:
        for description in descriptions():
            with suppress(HandlerError):
                predict.parse_event(event, description, LIMITS)

    return held(parse_all, LIMITS, len(data))


def costly_body(data: bytes) -> Spent:
    """A request for many small items, of a recipe."""
    path, content, headers = recipes.request(data)
    return answered([costly_server()], HttpRequest("POST", path, {}, headers, content), COSTLY_FLOOR)


def tensors(data: bytes) -> Spent:
    """A tensor of each dtype, as JSON."""
    if not data:
        return NOTHING
    value = parsed(data[1:])
    dtypes = (("float32", 4), ("float64", 8), ("int64", 8), ("uint8", 1), ("bool", 1), ("int8", 1), ("uint64", 8))
    dtype, size = dtypes[data[0] % len(dtypes)]
    shape = ((), (4,), (2, 2), (1, 2, 0))[data[0] // len(dtypes) % 4]
    elements = {(): 1, (1, 2, 0): 0}.get(shape, 4)

    def read() -> None:
        with suppress(HandlerError):
            assert len(read_tensor(value, Port("x", dtype, shape, elements * size))) == elements * size

    return held(read, LIMITS, len(data))


def address(data: bytes) -> Spent:
    """Where a picture is said to be: nothing is allowed here, so nothing may be fetched."""
    text = data.decode("utf-8", "replace")

    def fetch() -> None:
        for kind in ("s3", "url"):
            try:
                fetch_files(Request((Reference(kind, text, "it"),), {}), NOWHERE, LIMITS, 1000)
                raise AssertionError("something was fetched")
            except (SourceNotAllowedError, WrongTypeError) as error:
                told = error.message
            if len(text) > 40:  # a shorter one may be part of what the message says is right
                assert text not in told

    return held(fetch, LIMITS, len(data))


def event(data: bytes) -> Spent:
    """Any JSON as an event, through the whole function."""
    value = parsed(data)

    def answer_all() -> None:
        for server in servers():
            with suppress(RetryLater):
                json.dumps(events.answer_event(value, server, call()), allow_nan=False)

    return held(answer_all, LIMITS, len(data), byte_seconds=BODY_BYTE)


def items(data: bytes) -> Spent:
    """The items of a list's batch: every answer becomes a line, and no object of S3 but one is there."""
    value = parsed(data)

    def answer() -> None:
        for server in servers():
            with suppress(RetryLater):
                json.dumps(events.answer_event({**BATCH, "Items": value}, server, call()), allow_nan=False)

    clients = dict.fromkeys((1, 2, 4, 8), Objects())
    with patch.dict(os.environ, COLDFORGE_RESULTS="s3://results/"), patch.dict(storage._clients, clients):
        return held(answer, LIMITS, len(data), byte_seconds=BODY_BYTE)


class Objects:
    """Says what S3 says, where there is one picture. What is stored is dropped."""

    def get_object(self, *, Key: str, **_: object) -> dict[str, Any]:
        if Key != "face.jpg":
            raise ClientError({"ResponseMetadata": {"HTTPStatusCode": 404}}, "GetObject")
        return {"ContentLength": len(FACE), "Body": io.BytesIO(FACE), "ETag": '"1"'}

    def put_object(self, *, Body: bytes, **_: object) -> None:
        for line in Body.splitlines():
            json.loads(line)


def http(data: bytes) -> Spent:
    """A request of any protocol, to functions of pictures and of tensors."""
    return answered(servers(), written_request(data))


def http_text(data: bytes) -> Spent:
    """A request of any protocol, to functions whose models take texts."""
    return answered(text_servers(), written_request(data), byte_seconds=BODY_BYTE * 100)


def written_request(data: bytes) -> HttpRequest:
    """``METHOD path?query``, header lines, an empty line and the body."""
    head, _, content = data.partition(b"\n\n")
    first, *lines = head.decode("utf-8", "replace").split("\n")
    method, _, target = first.partition(" ")
    path, _, query = target.partition("?")
    pairs = [item.partition("=") for item in query.split("&") if item]
    named = [line.partition(":") for line in lines]
    headers = {name.strip().lower(): value.strip() for name, _, value in named if name.strip()}
    return HttpRequest(method, path, {name: value for name, _, value in pairs}, headers, content)


def answered(there: list[Server], request: HttpRequest, floor: Spent = FLOOR, byte_seconds: float = BODY_BYTE) -> Spent:
    def respond() -> int:
        size = 0
        for server in there:
            response = protocols.respond_to_request(request, server, call())
            size += written(response.body)
            assert 200 <= response.status < 600  # 500 is the poisoned pixel: any other failure has been raised
            assert all(c.isprintable() for name, value in response.headers.items() for c in name + value)
        return size

    return held(respond, LIMITS, len(request.body), floor, byte_seconds)


def written(body: bytes) -> int:
    """Bytes that were written as an answer: how long numbers are shows only then, and what is too long is refused."""
    refused = re.search(rb"the answer has ([0-9,]+) bytes", body)
    return min(int(refused[1].replace(b",", b"")), ANSWER_LIMIT) if refused else len(body)


def answer(data: bytes) -> Spent:
    """What a model gives, of any bytes, as each kind of output answers it."""
    if len(data) < answers.HEAD:
        return NOTHING

    def tell() -> int:
        with suppress(HandlerError):
            return answers.look(data, texts_of(truncate=True), LIMITS)
        return 0

    return held(tell, LIMITS, len(data), byte_seconds=BODY_BYTE * 10)


def weights(data: bytes) -> Spent:
    """A weights file, by the library that maps it and by the function that fetches it."""
    from tests.fuzz import weights_file

    return held(lambda: weights_file.look(data), LIMITS, len(data), BUILDER_FLOOR)


def model(data: bytes) -> Spent:
    """A frozen graph. TensorFlow is imported with the first."""
    from tests.fuzz import model_file

    return held(lambda: model_file.look(data, BUILD / "model"), LIMITS, len(data), BUILDER_FLOOR)


def parsed(data: bytes) -> object:
    """The JSON in ``data``; None if it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


TARGETS: dict[str, Callable[[bytes], Spent]] = {
    target.__name__: target
    for target in (
        image,
        costly_image,
        audio,
        text,
        words,
        example,
        base64,
        address,
        body,
        http,
        http_text,
        answer,
        costly_body,
        event,
        items,
        tensors,
        weights,
        model,
    )
}


def call() -> Invocation:
    """One that lets what is not the caller's fault through, to be found."""

    def refuse(error: Exception) -> Refusal:
        poisoned = isinstance(error, InferenceError) and "the kernel fell over" in str(error)
        if not isinstance(error, HandlerError) and not poisoned:
            raise error
        return make_refusal(error, "request-1")

    return Invocation("request-1", False, lambda: 10_000, lambda _: None, refuse)


@functools.cache
def descriptions() -> list[Description]:
    texts: list[dict[str, Any]] = [
        abi_library.picture_description(batch=2),
        TENSORS,
        abi_library.example_description(),
    ]
    return [parse_description(json.dumps(text)) for text in texts]


@functools.cache
def servers() -> list[Server]:
    """Around real libraries, one for pictures and one for tensors."""
    models = [opened("pictures", abi_library.picture_description(batch=2)), opened("tensors", TENSORS)]
    return [Server({model.description.name: model}, LIMITS) for model in models]


@functools.cache
def text_servers() -> list[Server]:
    """Around real libraries: of embeddings, of labels of words, and of one that takes words without a tokenizer."""
    sentences = abi_library.sentence_description(normalise=True, formats=("float16",))
    models: list[Model] = []
    for name, description in (("sentences", sentences), ("tagged", abi_library.tagged_description())):
        (BUILD / name).mkdir(parents=True, exist_ok=True)
        vocabulary.write_prepared(BUILD / name, truncate=name == "tagged")
        models.append(opened(name, description))
    models.append(Model(str(vocabulary.write_counter(BUILD / "counter"))))
    return [Server({model.description.name: model}, LIMITS) for model in models]


@functools.cache
def texts_of(*, truncate: bool) -> TextTokenizer:
    content = prepare_tokenizer(TextSpec(None, vocabulary.write(BUILD), truncate=truncate))
    options, data = content.split(b"\n", 1)
    return load_tokenizer(json.loads(options), data, 64, "")


@functools.cache
def words_of(name: str) -> StringProgram:
    return parse_program((Path(__file__).parent / "words" / f"{name}.words").read_bytes())


@functools.cache
def sound_decoders() -> Any:
    return opened("sound", abi_library.sound_description()).decoders


@functools.cache
def costly_server() -> Server:
    """Models whose answers are large, and whose inputs are filled up."""
    large = abi_library.picture_description(width=2_700, height=2_700, mode="rgb")
    kinds = {"large": large, "padded": abi_library.padded_description(), "sized": abi_library.sized_description()}
    models = [opened(name, description) for name, description in kinds.items()]
    return Server({model.description.name: model for model in models}, LIMITS)


def opened(name: str, description: dict[str, Any]) -> Model:
    return Model(str(abi_library.build(BUILD / name, description)))
