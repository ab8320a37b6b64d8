"""The inputs and outputs of a trained model, as read from its file: the basis of a spec's defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from builder.base.errors import ImportModelError
from builder.base.records import NOT_A_RECORD, read_part
from builder.config.schema import Activation, AudioSpec, ImageSpec, OutputKind
from builder.importers.input_scaling import InputScaling

ASSUMED_SIDE = 224
"""The side in pixels of an image whose size the model leaves open, as in most published networks."""

SIDES = ((ASSUMED_SIDE, ASSUMED_SIDE), (640, 640), (48, 320), (32, 128), (64, 64))
"""Heights and widths to try, where an image's are open: of networks for objects, faces and lines of text."""

SMALLEST_SIDE = 16
"""The least side of images by which they are told from other tensors."""

ASSUMED_DIM = 128
"""The default of any other dimension that the model leaves open."""

LENGTHS = (ASSUMED_DIM, 32, 512, 16_000, 8)
"""Sizes to try for open dimensions, in this order."""


OpenShape = tuple[int | None, ...]
"""A shape with None for every open dimension."""


def read_shape(shape: Any) -> OpenShape | None:
    """Return the shape that a TensorShapeProto has, or None if not even the rank is known."""
    return None if shape.unknown_rank else tuple(None if d.size < 0 else int(d.size) for d in shape.dim)


def read_image_size(shape: OpenShape | None) -> tuple[int | None, int | None, int] | None:
    """Return height, width and channels if ``shape`` may be that of images, with channels last or first, else None."""
    if shape is None or len(shape) != 4:
        return None
    _, first, second, last = shape
    if last in (1, 3):
        return first, second, last
    if first in (1, 3) and all(side is None or side >= SMALLEST_SIDE for side in (second, last)):
        return second, last, first
    return None


def format_shape(shape: OpenShape | None, names: Sequence[str] = ()) -> str:
    """Format a shape for a message, with "?" or their ``names`` for open dimensions."""
    if shape is None:
        return "of unknown rank"
    named = zip(shape, names or [""] * len(shape), strict=True)
    return f"[{', '.join((name or '?') if size is None else str(size) for size, name in named)}]"


@dataclass(frozen=True)
class PortInfo:
    """One input or output as the model declares it.

    ``name`` is the model's own name, ``dtype`` NumPy's (TensorFlow's where NumPy has none, such as
    ``string``), ``shape`` has None for every dynamic dimension and is None when not even the rank is known.
    """

    name: str
    dtype: str
    shape: OpenShape | None
    value: bool | int | float | None = None
    """For an input that seems only to choose a branch: for inference, if it tells that from training."""
    rows: int | None = None
    """The rows of the table in which every element of the input is looked up; the framework raises on others."""

    dimensions: tuple[str, ...] = ()
    """The names of its open dimensions, "" for those without one, or for a size."""
    quantised: tuple[float, int] | None = None
    """Scale and zero point of integers that stand for the numbers ``(value - zero) * scale``."""
    columns: tuple[str, ...] = ()
    """The names of the columns of an input [batch, columns] that is a table."""
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of a column's categories, in the order of the numbers that stand for them, by column."""
    unknown: Mapping[str, float | None] = field(default_factory=dict)
    """The number of any other name in a column of categories, None for a missing value; without it, one is refused."""
    required: tuple[str, ...] = ()
    """The columns in which no value may be missing, of an input in which others may."""

    def describe_shape(self) -> str:
        """Format the shape for a message."""
        return format_shape(self.shape, self.dimensions)

    @property
    def has_open_length(self) -> bool:
        """True if a dimension is open that is neither the batch nor an image's side."""
        return self.shape is not None and None in self.shape[1:] and not read_image_size(self.shape)


@dataclass(frozen=True)
class AnswerFacts:
    """What a model's files say of an output: a ``kind`` of OutputSpec, and the activation that belongs to it.

    ``scores``: of a detection's boxes, the output with their scores.
    """

    kind: OutputKind
    activation: Activation = "none"
    scores: str = ""


@dataclass(frozen=True)
class ImageFacts:
    """What a model's files say of its images, as a section ``image`` whose ``feed`` is the input's name.

    By that section, pixels of photographs differ from the published ones by ``mean`` levels of 0 to 255, at one place
    by ``most``.
    """

    image: ImageSpec
    mean: float
    most: float


@dataclass(frozen=True)
class GraphFacts:
    """Facts read from a graph: its first steps for each image input that could be followed, and others.

    ``endings``: the op that makes each output, where known. ``family``: the name of its ImageFamily, or "".
    ``shapes``: if the model leaves sizes open, shapes of all inputs at which it runs. ``missing``: the inputs in which
    it looks for NaN. ``answers``: what the model's files say of outputs. ``lengths``: of texts in tokens, for each of
    which the library should hold the model; the last is the longest that it takes. ``parameters``: the number of its
    weights, 0 where it was not asked for. ``audio``: the [audio] that the model's files ask for. ``image``: what they
    say of images. ``padding``: the id that fills up texts. ``prompts``: strings to be put in front of texts, by name;
    ``default_prompt``: the name of the usual one. ``pairs``: whether it takes pairs of texts.
    """

    scalings: tuple[InputScaling, ...]
    endings: Mapping[str, str] = field(default_factory=dict)
    family: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    answers: Mapping[str, AnswerFacts] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    parameters: int = 0
    audio: AudioSpec | None = None
    image: ImageFacts | None = None
    padding: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    pairs: bool = False


@dataclass(frozen=True)
class ModelPorts:
    """The inputs and outputs of a model, in its own order."""

    feeds: tuple[PortInfo, ...]
    fetches: tuple[PortInfo, ...]
    signature: str | None = None
    """The one that is described."""
    signatures: tuple[str, ...] = ()
    """The signatures of a SavedModel or .tflite file, or the towers of transformers."""
    facts: GraphFacts | None = None
    """None where they were not asked for, or the graph could not be frozen."""
    warnings: tuple[str, ...] = ()
    """Surprises for a caller, such as a name that had to be changed, in words."""
    labels: tuple[str, ...] = ()
    """The names of classes that the file has, in their order."""
    origin: str = ""  # The programs that wrote it, such as "written by Keras 2.15.0, read by ...".

    @property
    def batch_names(self) -> frozenset[str]:
        """The names of the first dimensions of inputs."""
        return frozenset(feed.dimensions[0] for feed in self.feeds if feed.dimensions) - {""}

    def fix_batch(self, port: PortInfo, batch: int) -> PortInfo:
        """Return ``port`` with the size ``batch`` where a dimension has the name of any input's first dimension."""
        names = self.batch_names
        if port.shape is None or names.isdisjoint(port.dimensions):
            return port
        named = zip(port.shape, port.dimensions, strict=True)
        return replace(port, shape=tuple(batch if d is None and name in names else d for d, name in named))

    @property
    def have_strings(self) -> bool:
        """True if any feed or fetch has strings."""
        return any(port.dtype == "string" for port in (*self.feeds, *self.fetches))

    @classmethod
    def from_json(cls, row: Any) -> ModelPorts:
        """Read the result of ``dataclasses.asdict`` after a pass through JSON, or raise ImportModelError."""
        try:
            return read_part(cls, row)
        except NOT_A_RECORD as error:
            raise ImportModelError("The process that read the model did not report its inputs and outputs.") from error
