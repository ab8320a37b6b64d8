"""The conditions for several variants of a model in one library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builder.base.errors import ImportModelError
from builder.config import ModelSpec, Variant
from builder.config.tensor import integer_limits
from builder.importers.graph import FrozenGraph


def require_variants(spec: ModelSpec, graphs: Sequence[FrozenGraph]) -> None:
    """Raise ImportModelError unless ``graphs``, one for each of ``spec.variants``, can be in one library.

    None may keep state, the function must treat strings alike for all, inputs and outputs of one size must be in
    proportion to their batches, and no two may have the same sizes in bytes, by which a run chooses.
    """
    variants = spec.variants
    if len(variants) > 1 and (states := [state for graph in graphs for state in graph.states]):
        kept = ", ".join(dict.fromkeys(repr(state.spec.name) for state in states))
        raise ImportModelError(
            f"The model keeps {kept} from call to call, so it can have only one batch and size. Give [model] one "
            "batch and signature, and each of [[feeds]] one shape."
        )
    words: dict[int, bytes] = {}
    for variant, graph in zip(variants, graphs, strict=True):
        own = graph.words_path.read_bytes() if graph.strings else b""
        if words.setdefault(variant.signature, own) != own:
            raise ImportModelError(
                "What the model does with strings is not the same in every batch and size. Give [model] one batch."
            )
    runs: dict[tuple[int, ...], str] = {}
    for (variant, graph), first in zip(
        zip(variants, graphs, strict=True), _find_smallest(variants, graphs), strict=True
    ):
        _require_numbers(spec.of_variant(variant), graph)
        require_scaling((first[0].batch, first[1]), (variant.batch, graph))
        sizes = (variant.signature, *(port.spec.size for port in (*graph.feeds, *graph.fetches)))
        says = variant.says or "of the first batch and size"
        if (other := runs.setdefault(sizes, says)) != says:
            raise ImportModelError(
                f"A run {says} takes and gives the same numbers of bytes as one {other}. The library chooses by these "
                "numbers alone, so leave one of them out."
            )


def _find_smallest(variants: Sequence[Variant], graphs: Sequence[FrozenGraph]) -> Iterator[tuple[Variant, FrozenGraph]]:
    """Yield for each variant the variant of the same size with the smallest batch, and its graph."""
    smallest: dict[tuple[int, int], tuple[Variant, FrozenGraph]] = {}
    for variant, graph in zip(variants, graphs, strict=True):
        yield smallest.setdefault((variant.signature, variant.size), (variant, graph))


def require_scaling(first: tuple[int, FrozenGraph], second: tuple[int, FrozenGraph]) -> None:
    """Raise ImportModelError unless the ports of a model's two graphs are proportional in size to their batches."""
    (batch, base), (other_batch, graph) = first, second
    if base is graph:
        return
    others = {port.spec.name: port.spec.shape for port in (*graph.feeds, *graph.fetches)}
    for port in (*base.feeds, *base.fetches):
        shape, other = port.spec.shape, others[port.spec.name]
        if port.spec.dynamic:
            raise ImportModelError(
                f"The data decides the size of {port.spec.name!r}, so nothing tells one item's from another's: give "
                "[model] one batch."
            )
        if shape[:1] != (batch,) or other != (other_batch, *shape[1:]):
            raise ImportModelError(
                f"{port.spec.name!r} is {list(shape)} where the batch is {batch}, and {list(other)} where it is "
                f"{other_batch}: with several batches, every input and output must begin with the batch. "
                "Give [model] one batch."
            )


def _require_numbers(spec: ModelSpec, graph: FrozenGraph) -> None:
    """Raise ImportModelError where a feed's type cannot hold all values that the spec allows."""
    for feed in spec.feeds:
        port = next((p.spec for p in graph.feeds if p.spec.name == feed.name), None)
        if port is None or port.dtype.startswith("float"):
            continue
        if feed.nan:
            raise ImportModelError(f"[[feeds]] lets {feed.name!r} be NaN, which {port.dtype} cannot hold: delete nan.")
        if feed.pad is None:
            continue
        low, high = (0, 1) if port.dtype == "bool" else integer_limits(port.dtype)
        if not feed.pad.is_integer() or not low <= feed.pad <= high:
            raise ImportModelError(f"[[feeds]] pads {feed.name!r} with {feed.pad:g}, which {port.dtype} cannot hold.")
