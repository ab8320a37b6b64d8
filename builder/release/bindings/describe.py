"""The description that a binding is generated from: model.json with names that are valid in programming languages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from builder.base.commands import bundle_command
from builder.base.errors import UsageError
from builder.base.records import parse_json
from builder.compiler.abi import ABI_VERSION
from builder.config.tensor import TensorSpec


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _split_words(
    # C, C++, and macros that their headers may define
    """
    alignas alignof and asm auto bitand bitor bool break case catch char class const constexpr continue default delete
    do double else enum errno export extern false float for friend goto i386 if inline int linux long mutable namespace
    new not nullptr operator or private protected public register restrict return short signed sizeof static
    static_assert stderr stdin stdout struct switch template this throw true try typedef typename typeof union unix
    unsigned using virtual void volatile while xor
    """
) | _split_words(
    # Rust, Python and Go, and names that the generated code uses itself
    """
    abstract as async await become box crate dyn final fn gen impl in let loop macro match mod move mut override priv
    pub ref self super trait type unsafe unsized use where yield
    assert def del elif except from global import is lambda none nonlocal pass raise with
    chan defer fallthrough func go interface map package range select var
    feeds fetches item
    """
)
"""Words that are not valid identifiers in some language."""

TAKEN = _split_words(
    # Names in a package beside the model's own, crates of Rust's, and the packages that generated Go imports
    """
    cf main model native predict run wasm
    alloc core proc_macro std test
    binary bytes context errors exec fmt regexp sort strings sync
    """
)
"""Names of packages that would hide a module of the package, or of a language's library."""


@dataclass(frozen=True)
class BindingTensor:
    """A feed or fetch; ``identifier``: its snake_case name, unique among the feeds or the fetches."""

    spec: TensorSpec
    identifier: str

    sized_by: str = ""  # This is the identifier of the fetch that has this one's size, where the data decides it.

    @property
    def shape(self) -> str:
        """The type and shape, as in ``uint8 [1, 28, 28, 1]``."""
        return f"{self.spec.dtype} {self.spec.describe_shape()}"


@dataclass(frozen=True)
class OutputHead:
    """Meaning of a fetch: ``items`` rows of ``length`` numbers, in a classification each with a label."""

    name: str
    identifier: str
    fetch: BindingTensor
    kind: str  # classification | regression | raw
    labels: tuple[str, ...]  # one for each number of a classification; without labels its index
    labelled: bool  # whether the model has labels
    top: int  # number of classes, the likeliest first
    items: int
    length: int


@dataclass(frozen=True)
class BindingImage:
    """The feed that takes images: uint8 [batch, height, width, channels]."""

    feed: str
    width: int
    height: int
    mode: str  # grey | rgb
    fit: str
    resize: str

    @property
    def channels(self) -> int:
        """Number of bytes of a pixel."""
        return 1 if self.mode == "grey" else 3

    @property
    def sentence(self) -> str:
        """The feed's content, for a person."""
        colours = "one byte of brightness" if self.mode == "grey" else "red, green, blue"
        return f"{self.width}×{self.height} pixels of {colours}, 0..255, row by row; any scaling is in the model"


@dataclass(frozen=True)
class BindingDescription:
    """A model as a binding describes it. ``package``: its name as an identifier in every language."""

    name: str
    package: str
    version: str
    arch: str
    batch: int
    feeds: tuple[BindingTensor, ...]
    fetches: tuple[BindingTensor, ...]
    heads: tuple[OutputHead, ...]
    image: BindingImage | None

    @property
    def dynamic(self) -> tuple[BindingTensor, ...]:
        """Fetches whose size the data decides."""
        return tuple(fetch for fetch in self.fetches if fetch.sized_by)

    @property
    def title(self) -> str:
        """The name and the version."""
        return f"{self.name} {self.version}"

    @property
    def classifications(self) -> tuple[OutputHead, ...]:
        """Classifications of a fixed size; the number of rows of the others is known after a run."""
        return tuple(h for h in self.heads if h.kind == "classification" and not h.fetch.sized_by)

    def takes_image(self, feed: BindingTensor) -> bool:
        """Return whether ``feed`` is the one that takes images."""
        return self.image is not None and self.image.feed == feed.spec.name


def parse_description(text: str) -> BindingDescription:
    """Parse ``text``, the content of model.json.

    Raises UsageError for one of another version, and for a model without inputs or outputs.
    """
    try:
        data = parse_json(text)
        if data["abi"] != ABI_VERSION:
            raise UsageError(
                f"the bundle has ABI {data['abi']}, not {ABI_VERSION}: make it again with `{bundle_command()}`."
            )
        feeds, fetches = (_parse_tensors(data[kind]) for kind in ("feeds", "fetches"))
        by_name = {fetch.spec.name: fetch for fetch in fetches}
        image, name = data["image"], data["model"]["name"]
        description = BindingDescription(
            name,
            package_name(name),
            data["model"]["version"],
            arch=data["target"]["arch"],
            batch=data["batch"],
            feeds=feeds,
            fetches=fetches,
            heads=_parse_heads(data["outputs"], by_name, data["batch"]),
            image=image and BindingImage(**{key: image[key] for key in BindingImage.__dataclass_fields__}),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"model.json cannot be used ({type(error).__name__}: {error}): make the bundle again."
        ) from error
    if not feeds or not fetches:
        raise UsageError(f"{name} has no feeds or no fetches, and a binding needs both. Call it with cf_run.")
    return description


def package_name(name: str) -> str:
    """Return ``name`` as an identifier that no language reserves and no standard library module has."""
    word = _to_snake_case(name)
    # A script's own folder comes before Python's library.
    is_taken = word in RESERVED | TAKEN or word in sys.stdlib_module_names
    return f"{word}_model" if is_taken else word


def _to_snake_case(name: str) -> str:
    """Convert ``name`` to snake_case ASCII: ``StatefulCall:1`` is ``stateful_call_1``, ``0`` is ``x0``."""
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    word = re.sub(r"[\W_]+", "_", word, flags=re.ASCII).strip("_").lower()
    return word if word[:1].isalpha() else f"x{word}"


def make_identifiers(names: Iterable[str]) -> list[str]:
    """Return a different identifier for each name; later ones of the same name get a number."""
    identifiers: list[str] = []
    used_names: set[str] = set()
    for word in map(_to_snake_case, names):
        unique = word = f"{word}_" if word in RESERVED else word
        number = 2
        # Languages that write words together, as Go does, must be able to tell them apart, too.
        while to_camel_case(unique) in used_names:
            unique, number = f"{word}_v{number}", number + 1
        used_names.add(to_camel_case(unique))
        identifiers.append(unique)
    return identifiers


def to_camel_case(identifier: str) -> str:
    """Convert ``input_1`` to ``Input1``."""
    return "".join(part[:1].upper() + part[1:] for part in identifier.split("_"))


def _parse_tensors(rows: list[dict[str, Any]]) -> tuple[BindingTensor, ...]:
    specs = [TensorSpec.from_dict(row) for row in rows]
    words = make_identifiers(spec.name for spec in specs)
    by_name = dict(zip((spec.name for spec in specs), words, strict=True))
    sized_by = (by_name[row["shape_fetch"]] if row.get("dynamic") else "" for row in rows)
    return tuple(map(BindingTensor, specs, words, sized_by))


def _parse_heads(
    rows: list[dict[str, Any]], fetches: Mapping[str, BindingTensor], batch: int
) -> tuple[OutputHead, ...]:
    heads = []
    for row, identifier in zip(rows, make_identifiers(row["name"] for row in rows), strict=True):
        fetch = fetches[row["fetch"]]
        shape = fetch.spec.shape
        batched = shape[:1] == (batch,)
        length = prod(shape[1:] if batched else shape)
        labels: tuple[str, ...] = ()
        if row["kind"] == "classification":
            length = shape[-1] if fetch.sized_by else length
            labels = (*row["labels"], *map(str, range(len(row["labels"]), length)))[:length]
        heads.append(
            OutputHead(
                row["name"],
                identifier,
                fetch,
                kind=row["kind"],
                labels=labels,
                labelled=bool(row["labels"]),
                top=min(row["top_k"] or length, length),
                items=batch if batched else 1,
                length=length,
            )
        )
    return tuple(heads)
