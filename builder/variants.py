"""What the variants of one library must have in common, and how they must differ."""

from __future__ import annotations

from collections.abc import Sequence

from builder.errors import ImportModelError
from builder.importers.graph import FrozenGraph
from builder.spec import ModelSpec


def require_variants(spec: ModelSpec, graphs: Sequence[FrozenGraph]) -> None:
    """Raise ImportModelError unless ``graphs``, one for each of ``spec.variants``, can be in one library.

    Nothing keeps state; all that goes in and out of one size is in proportion to its batches; and no two are of the
    same sizes in bytes, by which a run chooses.
    """
    _require_pads(spec, graphs[0])
    variants = spec.variants
    if len(variants) > 1 and graphs[0].states:
        kept = ", ".join(repr(state.spec.name) for state in graphs[0].states)
        raise ImportModelError(
            f"The model keeps {kept} from call to call, of one batch and size. Give [model] one batch, and each of "
            "[[feeds]] one shape."
        )
    batches = len(spec.buckets)
    for start in range(0, len(variants), batches):
        _require_scaling(spec.buckets, graphs[start : start + batches])
    found: dict[tuple[int, ...], str] = {}
    for variant, graph in zip(variants, graphs, strict=True):
        sizes = tuple(port.spec.size for port in (*graph.feeds, *graph.fetches))
        says = variant.says or "of the first batch and size"
        if (other := found.setdefault(sizes, says)) != says:
            raise ImportModelError(
                f"A run {says} takes and gives as many bytes as one {other}, and by nothing else does the library "
                "choose. Leave one of them out."
            )


def _require_scaling(batches: tuple[int, ...], graphs: Sequence[FrozenGraph]) -> None:
    for port in (*graphs[0].feeds, *graphs[0].fetches):
        shape = port.spec.shape
        for batch, graph in zip(batches[1:], graphs[1:], strict=True):
            other = next(p.spec.shape for p in (*graph.feeds, *graph.fetches) if p.spec.name == port.spec.name)
            if shape[:1] != batches[:1] or other != (batch, *shape[1:]):
                raise ImportModelError(
                    f"{port.spec.name!r} is {list(shape)} where the batch is {batches[0]}, and {list(other)} where it "
                    f"is {batch}: with several batches, every input and output must begin with the batch. "
                    "Give [model] one batch."
                )


def _require_pads(spec: ModelSpec, graph: FrozenGraph) -> None:
    for feed in spec.feeds:
        port = next((p.spec for p in graph.feeds if p.spec.name == feed.name), None)
        if feed.pad is None or port is None or port.dtype.startswith("float"):
            continue
        low, high = (0, 1) if port.dtype == "bool" else _range(port.dtype)
        if not feed.pad.is_integer() or not low <= feed.pad <= high:
            raise ImportModelError(f"[[feeds]] pads {feed.name!r} with {feed.pad:g}, which {port.dtype} cannot hold.")


def _range(dtype: str) -> tuple[int, int]:
    bits, signed = int(dtype.lstrip("uint")), not dtype.startswith("u")
    low = -(2 ** (bits - 1)) if signed else 0
    return low, low + 2**bits - 1
