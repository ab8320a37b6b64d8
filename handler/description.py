"""The description that the compiled model gives of itself (``cf_describe``), as named tuples."""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType

from .errors import StartupError, WrongFieldError
from .named_tuples import NamedTuple
from .typed import Any

FORMATS: dict[str, Any] = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
"""The format character of ``memoryview`` and ``array`` for every dtype a feed or fetch may have."""


class Port(NamedTuple):
    """A feed or fetch: dense, row-major, ``size`` bytes.

    The data decides the size of the dimensions in ``dynamic``: ``shape`` has the largest size of each, and the fetch
    ``shape_fetch`` holds the actual ones.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    dynamic: tuple[int, ...] = ()
    shape_fetch: str = ""
    nan: bool = False  # whether a request's tensor may hold NaN and infinities

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def least(self) -> tuple[int, ...]:
        """The shape where each dynamic dimension is empty."""
        return tuple(0 if at in self.dynamic else size for at, size in enumerate(self.shape))

    def begins_with_batch(self, batch: int) -> bool:
        """Return whether the first dimension is a batch of ``batch`` items."""
        return self.shape[:1] == (batch,) and 0 not in self.dynamic

    @property
    def format(self) -> Any:  # one of the literals that memoryview.cast is typed for
        """The format character of ``dtype``."""
        return FORMATS[self.dtype]


class ImageInput(NamedTuple):
    """The feed that takes images: uint8 [batch, height, width, 1 for grey or 3 for rgb]."""

    feed: str
    width: int
    height: int
    mode: str  # grey | rgb
    fit: str  # stretch | cover | contain | square | short | short_rounded | ...: see ``crop``
    resize: str  # nearest | bilinear | bicubic | area | lanczos
    antialias: bool = True
    padding: tuple[int, ...] = (0,)  # one value, or R, G, B
    background: tuple[int, ...] = (255,)
    decode: str = "fast"  # fast | exact
    crop: float = 1.0  # the part of each side that the model sees, around the centre
    grid: str = "half_pixel"  # half_pixel | asymmetric | align_corners: see ``resize``

    @property
    def size(self) -> int:
        """The number of bytes of one image."""
        return self.width * self.height * (1 if self.mode == "grey" else 3)


class AudioInput(NamedTuple):
    """The feed that takes sound: float32 [batch, length], one channel, values from -1 to 1."""

    feed: str
    rate: int  # Hz
    length: int  # samples of a window
    hop: int  # samples from the start of one window to the next one's


class TextInput(NamedTuple):
    """The feeds that take text, each [batch, length]: token ids, a mask that is 1 for each token, and segment types.

    ``mask`` and ``types`` are empty where the model has no such feed. ``prompts``: the strings of which a request may
    name one to be put in front of its texts; ``opening``: the one for a request that names none. ``pairs``: whether it
    takes pairs of texts.
    """

    ids: str
    mask: str = ""
    types: str = ""
    prompts: Mapping[str, str] = MappingProxyType({})
    opening: str = ""
    pairs: bool = False

    @property
    def feeds(self) -> tuple[str, ...]:
        """The feeds that the model has."""
        return tuple(filter(None, self[:3]))

    @property
    def implied(self) -> tuple[str, ...]:
        """The feeds that a text fills besides the one for its ids."""
        return self.feeds[1:]


class Detection(NamedTuple):
    """The settings that turn the boxes of an output's fetch into objects; the name of an absent fetch is empty."""

    scores: str  # [batch, n], or [batch, n, classes] without ``classes``
    classes: str
    counts: str  # [batch]: the number of objects
    box_format: str  # xyxy | yxyx | xywh | cxcywh
    box_units: str  # relative | pixels
    threshold: float


class StringInput(NamedTuple):
    """Strings that the function turns into ``feeds``.

    ``shape``: the shape of one batch. ``tokens``: the feed with a number for each word, for answers about words.
    """

    name: str
    shape: tuple[int, ...]
    feeds: tuple[str, ...]
    tokens: str = ""

    @property
    def each(self) -> int:
        """The number of strings of an item."""
        return prod(self.shape[1:])


class ExampleFeature(NamedTuple):
    """A feature of a tf.Example for the input ``name``; ``default``, raw bytes or strings, where it may be missing."""

    key: str
    name: str
    default: bytes | tuple[bytes, ...] | None = None


class ExampleInput(NamedTuple):
    """Serialized tf.Examples, which may take the place of all other inputs. ``name``: the model's name for them."""

    name: str
    features: tuple[ExampleFeature, ...]


class TableInput(NamedTuple):
    """A table, whose rows callers give by the names of its columns: ``feed`` [batch, columns].

    ``feed`` is empty where each column is an input of its own, with one element for each item. ``categories``: for a
    column whose values have names, the number of each. ``unknown``: for such a column what other names are, None for a
    missing value; a column without it refuses them. ``required``: columns without missing values.
    """

    feed: str
    columns: tuple[str, ...]
    categories: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    unknown: Mapping[str, float | None] = MappingProxyType({})
    required: tuple[str, ...] = ()

    def refuses_unknown(self, column: str, nan: bool) -> bool:
        """Return whether other names than those of categories are mistakes. ``nan``: whether its input takes NaN."""
        return column not in self.unknown or (self.unknown[column] is None and not nan)

    def list_categories(self, column: str) -> list[str]:
        """Return one name of each category of ``column``, in the order of their numbers; empty where they have none."""
        names: dict[int, str] = {}
        for name, number in self.categories.get(column, {}).items():
            names.setdefault(number, name)
        return [*names.values()]


class Output(NamedTuple):
    """The settings that turn a fetch into an answer."""

    name: str
    fetch: str
    kind: str  # classification | regression | embedding | detection | segmentation | tokens | label | raw
    labels: tuple[str, ...]
    top_k: int | None
    format: str = ""  # for an embedding: float32 | float16 | int8 | base64; for a segmentation: png | rle
    normalise: bool = False  # whether an embedding is scaled to length 1
    dimensions: int | None = None  # the number of an embedding's values to answer, where a request asks for fewer
    detection: Detection | None = None
    join: bool = False  # for tokens: whether the words of one entity are one answer
    ignore: tuple[str, ...] = ()  # for tokens: labels that are not answered

    def get_label(self, number: int) -> str:
        """Return the label of the class ``number``, or the number itself if it has none."""
        return self.labels[number] if 0 <= number < len(self.labels) else str(number)

    @property
    def fetches(self) -> tuple[str, ...]:
        """Every fetch that the output reads."""
        parts = self.detection[:3] if self.detection else ()
        return (self.fetch, *filter(None, parts))


class Size(NamedTuple):
    """The feeds and fetches of a model in one of its sizes."""

    feeds: tuple[Port, ...]
    fetches: tuple[Port, ...]


class Description(NamedTuple):
    """Everything a caller needs to know about a model, in one of its sizes and signatures."""

    name: str
    version: str
    batch: int
    feeds: tuple[Port, ...]
    fetches: tuple[Port, ...]
    image: ImageInput | None
    outputs: tuple[Output, ...]
    builder: str = ""  # the version of coldforge that compiled it
    stateful: bool = False  # whether it keeps variables from one run to the next
    batches: tuple[int, ...] = ()  # all supported batches, ascending; the ports have the first, which is ``batch``
    in_parts: bool = False  # a larger batch takes as long as its items would one by one
    weights: str = ""  # the layout that weights outside the library must have; empty: they are inside it
    sizes: tuple[Size, ...] = ()  # all sizes, where there are several
    size: int = 0  # the index into ``sizes`` of ``feeds`` and ``fetches``
    pad: Mapping[str, float] = MappingProxyType({})  # by feed, the value that fills up a smaller input
    signature: str = ""  # the signature's name, where there are several
    audio: AudioInput | None = None
    text: TextInput | None = None
    strings: tuple[StringInput, ...] = ()
    examples: ExampleInput | None = None
    table: TableInput | None = None
    others: tuple[Any, ...] = ()  # in the first signature: a Description for each of the others

    @property
    def batched(self) -> bool:
        """True if every feed and fetch begins with the batch, so that the model takes any number of items."""
        sizes = self.sizes or (Size(self.feeds, self.fetches),)
        ports = (port for size in sizes for port in (*size.feeds, *size.fetches))
        return all(port.size and not port.dynamic and port.begins_with_batch(self.batch) for port in ports)

    @property
    def text_alone(self) -> bool:
        """True if the model takes a text and nothing else."""
        return self.texts_alone and not (self.text and self.text.pairs)

    @property
    def texts_alone(self) -> bool:
        """True if the model takes a text or a pair of texts, and nothing else."""
        return bool(self.text_input) or (self.text is not None and len(self.text.feeds) == len(self.feeds))

    @property
    def has_fixed_outputs(self) -> bool:
        """True if the outputs have one shape in all of the model's sizes."""
        return all(size.fetches == self.fetches for size in self.sizes)

    @property
    def answers(self) -> tuple[Port, ...]:
        """The fetches without those that only give the size of another."""
        shapes = {port.shape_fetch for port in self.fetches}
        return tuple(port for port in self.fetches if port.name not in shapes)

    @property
    def string_feeds(self) -> frozenset[str]:
        """The feeds that the function computes from strings."""
        return frozenset(feed for strings in self.strings for feed in strings.feeds)

    @property
    def tensor_inputs(self) -> tuple[Port, ...]:
        """The feeds that callers give as tensors, unless they give an image, a recording or a text."""
        return tuple(port for port in self.feeds if port.name not in self.string_feeds) if self.strings else self.feeds

    @property
    def caller_inputs(self) -> tuple[Port, ...]:
        """All inputs of a caller without image, recording or text: ``tensor_inputs``, and strings with size 0."""
        return (*self.tensor_inputs, *(Port(strings.name, "string", strings.shape, 0) for strings in self.strings))

    @property
    def text_input(self) -> str:
        """The input of strings that takes a text on its own; empty where there is none, or another input."""
        alone = len(self.strings) == 1 and not self.tensor_inputs and self.strings[0].each == 1
        return self.strings[0].name if alone else ""

    @property
    def one_size(self) -> bool:
        """True if all inputs have a single shape, apart from the batch."""
        return not self.sizes and not self.pad

    def find_open_shape(self, port: Port) -> list[int]:
        """Return the shape of ``port``, with -1 where it varies with the batch, the model's size or the data."""
        ports = [p for size in self.sizes for p in (*size.feeds, *size.fetches) if p.name == port.name]
        fixed = [len({p.shape[at] for p in ports}) < 2 and at not in port.dynamic for at in range(len(port.shape))]
        if self.batched:
            fixed[0] = False
        return [size if known else -1 for size, known in zip(port.shape, fixed, strict=True)]

    def select_signature(self, name: str) -> Description:
        """Return the description of the signature ``name``, or of the first if it is empty. Raises WrongFieldError."""
        signatures: tuple[Description, ...] = (self, *self.others)
        for sig in signatures:
            if name in ("", sig.signature):
                return sig
        names = ", ".join(f'"{sig.signature}"' for sig in signatures if sig.signature) or "only one, without a name"
        raise WrongFieldError(f'there is no signature "{name[:64]}"; choose from {names}')

    def select_size(self, number: int) -> Description:
        """Return the description in the size ``number``, an index into ``sizes``; 0 for a model of one size."""
        if number == self.size:
            return self
        feeds, fetches = self.sizes[number]
        return self._replace(feeds=feeds, fetches=fetches, size=number)

    @property
    def size_variants(self) -> list[Description]:
        """The description in each of its sizes, in order; only itself for a model of one size."""
        return [self.select_size(number) for number in range(len(self.sizes) or 1)]


def split_runs(count: int, batches: tuple[int, ...], in_parts: bool = False) -> Iterator[int]:
    """Yield the number of items that each run takes of ``count`` items.

    A run takes the largest of ``batches`` that the items fill; or all that are left, if they are three quarters of the
    next larger batch, or fewer than the smallest. ``in_parts``: padding takes as long as items would, so a batch is
    filled up only if there is no smaller one.
    """
    while count > 0:
        full = max((b for b in batches if b <= count), default=0)
        next_larger = min((b for b in batches if b > count), default=0)
        fills = next_larger and 4 * count >= 3 * next_larger and not in_parts
        size = count if not full or fills else full
        yield size
        count -= size


def parse_description(text: str) -> Description:
    """Parse the JSON of ``cf_describe``. Raises StartupError if this handler does not understand it."""
    try:
        data = json.loads(text)
        others = [_parse_signature(data, own) for own in data.get("signatures", [])]
        description = _parse_signature(data, data)._replace(others=tuple(others))
        for signature in (description, *others):
            _require_consistent(signature)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StartupError(
            f"the model's description cannot be used ({type(error).__name__}: {error}); "
            "build the bundle and the function with the same version of coldforge."
        ) from error
    return description


def _parse_signature(data: dict[str, Any], own: dict[str, Any]) -> Description:
    """Return the model of ``data`` with the inputs and outputs of the signature ``own``."""
    image, nan = own["image"], own.get("nan", ())
    size = _parse_size(own, nan)
    return Description(
        name=data["model"]["name"],
        version=data["model"]["version"],
        batch=data["batch"],
        feeds=size.feeds,
        fetches=size.fetches,
        image=image and _make_record(ImageInput, image),
        outputs=tuple(map(_parse_output, own["outputs"])),
        builder=str(data.get("coldforge", "")),
        stateful=bool(own.get("states")),
        batches=tuple(data.get("batches") or [data["batch"]]),
        in_parts=data.get("in_parts", False) is True,
        weights=data["weights"]["layout"] if data.get("weights") else "",
        sizes=tuple(_parse_size(s, nan) for s in own.get("shapes", [])),
        pad={name: float(value) for name, value in own.get("pad", {}).items()},
        signature=str(own.get("signature", "")),
        audio=_make_record(AudioInput, own["audio"]) if own.get("audio") else None,
        strings=tuple(_make_record(StringInput, strings) for strings in own.get("strings", [])),
        text=_make_record(TextInput, own["text"]) if own.get("text") else None,
        examples=_parse_examples(own["examples"]) if own.get("examples") else None,
        table=_parse_table(own["table"]) if own.get("table") else None,
    )


def _make_record(cls: Any, data: dict[str, Any], **more: Any) -> Any:
    """Make a NamedTuple of the keys that it knows: others belong to a later version. Lists become tuples."""
    fields = {name: data[name] for name in cls._fields if name in data and name not in more}
    tuples = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return cls(**fields | tuples | more)


def _parse_size(data: dict[str, Any], nan: Sequence[str]) -> Size:
    """Parse one size of the model. ``nan``: the feeds that take NaN."""
    feeds = tuple(_parse_port(p)._replace(nan=p["name"] in nan) for p in data["feeds"])
    return Size(feeds, tuple(_parse_port(p) for p in data["fetches"]))


def _parse_port(data: dict[str, Any]) -> Port:
    port: Port = _make_record(Port, data, size=data["bytes"])
    if memoryview(b"").cast(port.format).itemsize * port.elements != port.size:
        raise ValueError(f"{port.name} has {port.size} bytes, which is not {port.dtype} {list(port.shape)}")
    return port


def _parse_output(data: dict[str, Any]) -> Output:
    detection = _make_record(Detection, data) if data["kind"] == "detection" else None
    output: Output = _make_record(Output, data, detection=detection)
    return output


def _parse_examples(data: dict[str, Any]) -> ExampleInput:
    def default(value: Any) -> bytes | tuple[bytes, ...] | None:
        if isinstance(value, list):
            return tuple(text.encode() for text in value)
        return None if value is None else binascii.a2b_base64(value)

    features = [ExampleFeature(item["key"], item["name"], default(item["default"])) for item in data["features"]]
    return ExampleInput(data["name"], tuple(features))


def _parse_table(data: dict[str, Any]) -> TableInput:
    categories = {column: _number_names(names) for column, names in data.get("categories", {}).items()}
    required = tuple(data.get("required", ()))
    return TableInput(data.get("feed", ""), tuple(data["columns"]), categories, data.get("unknown", {}), required)


def _number_names(names: Sequence[str]) -> dict[str, int]:
    """Return the number of each of ``names``, which are also known as other programs write them: 1 as 1.0, or True."""
    numbers = {name: number for number, name in enumerate(names)}
    for name in names:
        written = name.removesuffix(".0")
        others = (written, f"{written}.0") if written.lstrip("-").isdecimal() else ()
        others = (name.lower(), name.lower().capitalize()) if name.lower() in ("true", "false") else others
        for other in others:
            numbers.setdefault(other, numbers[name])
    return numbers


def _require_consistent(description: Description) -> None:
    batch, fetches = description.batch, {port.name for port in description.answers}
    for output in description.outputs:
        if absent := [fetch for fetch in output.fetches if fetch not in fetches]:
            raise ValueError(f"output {output.name} is of {absent[0]}, which the model does not have")
        if output.kind in ("detection", "segmentation") and description.image is None:
            raise ValueError(f"output {output.name} is of places in images, which the model does not take")
    fetched = {port.name: (port.dtype, port.shape) for port in description.fetches}
    for port in description.fetches:
        if port.dynamic and fetched.get(port.shape_fetch) != ("int32", (len(port.shape),)):
            raise ValueError(f"nothing says how large {port.name} is")
    if description.batches[0] != batch or (len(description.batches) > 1 and not description.batched):
        raise ValueError(f"batches {description.batches} of a model whose batch is {batch}")
    first = Size(description.feeds, description.fetches)
    if description.sizes and description.sizes[0] != first:
        raise ValueError("shapes that do not begin with the model's own")
    names = [[(port.name, port.dtype) for port in (*s.feeds, *s.fetches)] for s in (first, *description.sizes)]
    if any(other != names[0] for other in names) or not description.pad.keys() <= {port.name for port in first.feeds}:
        raise ValueError("shapes or pad of other inputs than the model's own")
    sizes = {port.name: port.size for port in description.feeds}
    audio = description.audio
    if audio and (sizes.get(audio.feed) != 4 * audio.length * batch or not 0 < audio.hop <= audio.length):
        raise ValueError(f"feed {audio.feed} does not hold {batch} windows of {audio.length} samples")
    if text := description.text:
        for size in (first, *description.sizes):
            shapes = [port.shape for port in size.feeds if port.name in text.feeds]
            if len(shapes) != len(text.feeds) or len(shapes[0]) != 2 or set(shapes) != {(batch, shapes[0][1])}:
                raise ValueError(f"feeds {', '.join(text.feeds)} do not hold {batch} texts")
    if any(output.kind == "tokens" for output in description.outputs):
        _require_tokens(description)
    if any(not item.shape or item.shape[0] != batch for item in description.strings):
        raise ValueError(f"strings that do not begin with the batch, {batch}")
    if not description.string_feeds <= sizes.keys():
        raise ValueError("strings that become no feeds")
    if table := description.table:
        ports = [port for port in description.caller_inputs if table.feed in ("", port.name)]
        own = (table.feed,) if table.feed else table.columns
        if {port.name for port in ports} != set(own) or len(set(table.columns)) != len(table.columns):
            raise ValueError("a table of other columns than the model's inputs")
        if any(port.elements != batch * (len(table.columns) if table.feed else 1) for port in ports):
            raise ValueError(f"a table whose columns do not hold {batch} rows")
    if description.examples and {f.name for f in description.examples.features} != {
        p.name for p in description.caller_inputs
    }:
        raise ValueError("tf.Examples that do not have all that the model takes")
    image = description.image
    if image and sizes.get(image.feed) != image.size * batch:
        raise ValueError(f"feed {image.feed} does not hold {batch} images of {image.size} bytes")


def _require_tokens(description: Description) -> None:
    """Raise ValueError unless each output of tokens is [batch, length, labels], with the length of its text."""
    names = {output.fetch for output in description.outputs if output.kind == "tokens"}
    feeds = {item.tokens for item in description.strings} | ({description.text.ids} if description.text else set())
    for size in description.sizes or (Size(description.feeds, description.fetches),):
        shapes = [port.shape[:2] for port in size.feeds if port.name in feeds]
        for port in size.fetches:
            if port.name in names and (port.dynamic or len(port.shape) != 3 or [port.shape[:2]] != shapes):
                raise ValueError(f"fetch {port.name} has no scores for each token of a text")
