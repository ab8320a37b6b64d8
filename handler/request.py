"""The form that every request takes inside the function, whatever event or protocol it came by."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from .budget import TEXTS_TOGETHER, RequestLimits
from .description import Description, split_runs
from .errors import (
    NotBase64Error,
    NotTextError,
    TooLargeError,
    TooManyImagesError,
    WrongFieldError,
    WrongTypeError,
)
from .named_tuples import NamedTuple
from .options import AnswerOptions
from .typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .text import LocatedText


_ADDRESSES = ("https://", "http://", "s3://")


class File(NamedTuple):
    """An encoded file of an image or a recording, or CSV. ``where`` names it in messages, such as ``"images"[2]``."""

    data: bytes
    where: str
    media: str = ""  # its type with parameters, where it is known


class Reference(NamedTuple):
    """A file stored elsewhere. ``kind``: "s3" or "url"; ``address`` is unchecked, and may be a secret."""

    kind: str
    address: str
    where: str


class Request(NamedTuple):
    """A request: images, a recording or texts for their feeds, and raw little-endian bytes for other feeds.

    ``inputs``, by feed, hold the compiled batch, or, for a model that is ``batched``, the same number of items each.
    ``model`` names one of the bundle's models; None is the first. ``partial``: whether an answer for the first items
    only is welcome when there is no time for all. ``size``: the index of the model's size that ``inputs`` have.
    ``signature``: the name of its signature; empty is the first. ``spans``: the start and end in seconds of each
    window of a recording that ``inputs`` now hold; ``seconds``: the time of each step so far; ``image_sizes``: the
    upright sizes of the images that ``inputs`` now hold. ``options``: the wanted form of the answer. ``strings``:
    the strings of each input, UTF-8, row-major; they or ``texts`` become ``rows``: the raw bytes of the feeds for each
    item, which may still need padding. ``pairs``: the second text of each pair whose first is one of ``texts``.
    ``located``: the places of each text's tokens, if an output is about them.
    """

    images: tuple[File | Reference, ...]
    inputs: dict[str, bytes]
    model: str | None = None
    partial: bool = False
    size: int = 0
    signature: str = ""
    recording: File | Reference | None = None
    texts: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    located: tuple[LocatedText, ...] = ()
    strings: Mapping[str, tuple[bytes, ...]] = MappingProxyType({})
    rows: tuple[Mapping[str, bytes], ...] = ()
    spans: tuple[tuple[float, float], ...] = ()
    seconds: Mapping[str, float] = MappingProxyType({})
    image_sizes: tuple[tuple[int, int], ...] = ()
    options: AnswerOptions = AnswerOptions()


def encoded_file(value: object, where: str, most: int) -> File:
    """Return the file in ``value``, base64 text or a ``data:`` URL of at most ``most`` bytes. Raises HandlerError."""
    if not isinstance(value, str):
        raise WrongTypeError(f"{where} must be a string of base64, not {name_json_type(value)}")
    if value[:8].lower().startswith(_ADDRESSES):
        raise NotBase64Error(
            f"{where} is an address, not a file in base64; send the file itself, or to /predict in the address's place "
            'an object with it, {"url": "https://example.com/a.jpg"} or {"s3": "s3://bucket/key"}, which the function '
            "fetches where it may"
        )
    if value[:5].lower() == "data:":
        head, comma, value = value.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise NotBase64Error(f'{where} is a data: URL without ";base64,"')
    # The check precedes decoding; whitespace (base64 tools wrap lines) may make it refuse a little early.
    if len(value) > most * 3 // 2:
        raise TooLargeError(f"{where} is larger than {most:,} bytes")
    try:
        # One line is the usual case; joining copies only when there are more.
        data = binascii.a2b_base64("".join(value.split()), strict_mode=True)
    except ValueError:  # binascii.Error, or letters outside ASCII
        raise NotBase64Error(f"{where} is not base64") from None
    if not data:
        raise WrongFieldError(f"{where} is empty; a file in base64 is needed")
    return File(data, where)


def read_source(value: object, where: str, most: int) -> File | Reference:
    """Return the file in ``value`` as ``encoded_file`` takes it, or its location: {"s3": …} or {"url": …}.

    Raises HandlerError.
    """
    if not isinstance(value, dict):
        return encoded_file(value, where, most)
    kind, address = next(iter(value.items())) if len(value) == 1 else (None, None)
    if kind not in ("s3", "url") or not isinstance(address, str):
        raise WrongTypeError(f'{where} must be base64, {{"s3": "s3://bucket/key"}} or {{"url": "https://…"}}')
    return Reference(str(kind), address, where)


def check_text(value: object, where: str, limits: RequestLimits) -> str:
    """Return the text ``value``. Raises WrongTypeError, WrongFieldError, TooLargeError, NotTextError."""
    if not isinstance(value, str):
        raise WrongTypeError(f"{where} must be a string, not {name_json_type(value)}")
    if not value:
        raise WrongFieldError(f"{where} is empty; a text is needed")
    if len(value) > limits.characters:
        raise TooLargeError(f"{where} has {len(value):,} characters; at most {limits.characters:,} are allowed")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotTextError(f"{where} has half of a surrogate pair, which is no character") from None
    return value


def decode_text(data: bytes | memoryview, where: str, limits: RequestLimits) -> str:
    """Decode ``data``, UTF-8 with or without a byte order mark. Raises as ``check_text`` does."""
    try:
        return check_text(str(data, "utf-8").removeprefix("\ufeff"), where, limits)
    except UnicodeDecodeError:
        raise NotTextError(f"{where} is not UTF-8") from None


def check_texts(values: list[Any], where: str, limits: RequestLimits) -> tuple[str, ...]:
    """Return the texts ``values``, together called ``where``. Raises as ``check_text`` does, and for too many."""
    if not values:
        raise WrongFieldError(f"{where} is empty")
    if len(values) > limits.items:
        raise TooManyImagesError(f"{where} has {len(values)}; at most {limits.items} are allowed at a time")
    texts = tuple(check_text(value, f"{where}[{index}]", limits) for index, value in enumerate(values))
    if (total := sum(map(len, texts))) > limits.characters * TEXTS_TOGETHER:
        most = limits.characters * TEXTS_TOGETHER
        raise TooLargeError(f"{where} has {total:,} characters; at most {most:,} are allowed at a time")
    return texts


def require_same_run(found: tuple[str, ...], where: str, description: Description) -> tuple[str, ...]:
    """Return ``found`` if one run holds so many texts, or if the model takes texts alone, in batches.

    Raises TooManyImagesError.
    """
    if len(found) > description.batch and not (description.texts_alone and description.batched):
        raise TooManyImagesError(f"{where} has {len(found)}; this model takes at most {description.batch} at a time")
    return found


def count_items(request: Request, description: Description) -> int:
    """Count the answers that the request asks for."""
    if texts := request.rows or request.texts:
        return len(texts)
    first = next((port for port in description.feeds if port.size and port.name in request.inputs), None)
    if request.images or first is None:
        return len(request.images) or description.batch
    return len(request.inputs[first.name]) * description.batch // first.size


def join_requests(requests: Sequence[Request]) -> Request:
    """Return one request for the items of all ``requests``: tensors and strings for the same inputs of one model."""
    first = requests[0]
    inputs = {name: b"".join([request.inputs[name] for request in requests]) for name in first.inputs}
    strings = {name: tuple([text for one in requests for text in one.strings[name]]) for name in first.strings}
    return first._replace(inputs=inputs, strings=strings)


def split_request(request: Request, description: Description) -> Iterator[Request]:
    """Split the request into runs, in order, each of at most one of the model's batches."""
    count, batch = count_items(request, description), description.batch
    if count <= batch:
        yield request
        return
    sizes = {port.name: port.size for port in description.feeds}

    def cut(name: str, start: int, end: int) -> bytes:
        data, each = request.inputs[name], sizes[name] // batch
        return data if len(data) == sizes[name] else data[start * each : end * each]

    start = 0
    for length in split_runs(count, description.batches, description.in_parts):
        end = start + length
        inputs = {name: cut(name, start, end) for name in request.inputs}
        yield request._replace(
            images=request.images[start:end],
            rows=request.rows[start:end],
            inputs=inputs,
        )
        start = end


def make_feeds(inputs: Mapping[str, bytes], description: Description) -> list[bytes]:
    """Return the feeds of one run from ``inputs``, with zeros for the items missing from a batch."""
    feeds = [inputs[port.name] for port in description.feeds]
    batch = description.batch
    wanted = batch
    if len(description.batches) > 1:
        most = max(-(-len(data) * batch // port.size) for data, port in zip(feeds, description.feeds, strict=True))
        wanted = min((b for b in description.batches if b >= most), default=batch)
    return [data.ljust(port.size * wanted // batch, b"\0") for data, port in zip(feeds, description.feeds, strict=True)]


def name_json_type(value: object) -> str:
    """Return the kind of a JSON value, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
