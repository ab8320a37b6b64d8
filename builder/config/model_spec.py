"""Content of ``model.toml`` as frozen dataclasses: the input of every stage of a build."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from builder.base.targets import Target, target_named
from builder.config.schema import (
    LAMBDA_UNZIPPED,
    Activations,
    AudioSpec,
    FeedSpec,
    FetchSpec,
    ImageSpec,
    LayerSpec,
    OutputSpec,
    Source,
    TextSpec,
    Tolerance,
    Weights,
    WeightType,
)
from builder.config.tensor import c_identifier

Packaging = Literal["zip", "image"]


def sound_shapes(batch: int, length: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes that a model's input of sound may have, the usual one first."""
    return ((batch, length), (batch, length, 1), (batch, 1, length), *([(length,)] if batch == 1 else []))


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
    tolerance: Tolerance = field(default_factory=Tolerance)
    weights: Weights = field(default_factory=Weights)
    activations: Activations = field(default_factory=Activations)
    layers: tuple[LayerSpec, ...] = ()  # if several match a layer, the last wins
    samples: Path | None = None  # the user's own inputs, absolute path; for the first signature and the first sizes
    targets: tuple[str, ...] = Source.targets
    winograd: bool = Source.winograd
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
    def tuning_path(self) -> Path:
        """``tuning.json`` next to model.toml; next to any other ``x.toml``, ``x.tuning.json``."""
        name = "tuning.json" if self.path.name == "model.toml" else f"{self.path.stem}.tuning.json"
        return self.path.with_name(name)

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
                first = 2 if image.is_channels_first(shape) else 1
                image = replace(image, height=shape[first], width=shape[first + 1])
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
