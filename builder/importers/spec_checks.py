"""Checks of a spec against its model's frozen graphs: of its [[outputs]], and of several variants in one library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from builder.base.errors import ImportModelError
from builder.config import ModelSpec, OutputSpec, Variant
from builder.config.tensor import TensorSpec, integer_limits
from builder.importers.graph import FrozenGraph


def check_outputs(spec: ModelSpec, graph: FrozenGraph) -> None:
    """Raise ImportModelError that lists every output whose fetch does not suit its kind."""
    fetches = {port.spec.name: port.spec for port in graph.fetches}
    problems = []
    for output in spec.outputs:
        fetch = fetches[output.fetch or next(iter(fetches))]
        if output.kind in ("detection", "segmentation") and spec.image is None:
            problems.append(f"[[outputs]] {output.name}: it is of an image, and the model takes none; add [image].")
            continue
        if output.kind == "detection":
            texts = _check_detection(output, fetches, spec.batch)
        elif output.kind == "segmentation":
            continue  # It was checked when it was compiled into the graph.
        elif output.kind == "tokens":
            texts = _check_tokens(output, fetch, spec, graph)
        elif output.kind == "label":
            texts = _check_label(fetch)
        else:
            texts = _check_embedding(fetch, spec.batch) if output.kind == "embedding" else _check_classes(output, fetch)
        problems += [f"[[outputs]] {output.name}: {problem}" for problem in texts]
    if problems:
        raise ImportModelError("\n".join(problems))


def _check_classes(output: OutputSpec, fetch: TensorSpec) -> Iterator[str]:
    name, shape = fetch.name, fetch.shape
    # Without a fixed number of classes, nothing says which label a score belongs to.
    if len(shape) - 1 in fetch.dynamic and output.kind == "classification":
        yield (
            f"the data decides how many numbers the last dimension of {name!r} has, so they are no classes; "
            'write kind = "raw".'
        )
        return
    classes = shape[-1] if shape else 1
    if output.labels and len(output.labels) != classes:
        yield (
            f"{len(output.labels)} labels for {name!r} {list(shape)}, which has {classes} classes; "
            "give one label for each."
        )
    if output.top_k is not None and output.top_k > classes:
        yield f"top_k = {output.top_k}, but {name!r} has {classes} classes."


def _check_label(fetch: TensorSpec) -> Iterator[str]:
    if not fetch.dtype.startswith(("int", "uint")):
        yield f'{fetch.name!r} is {fetch.dtype}, and a whole number chooses a label; write kind = "classification".'


def _check_tokens(output: OutputSpec, fetch: TensorSpec, spec: ModelSpec, graph: FrozenGraph) -> Iterator[str]:
    """Yield the problems of scores, which should be [batch, length, labels] for texts of that length."""
    feeds = {port.spec.name: port.spec for port in graph.feeds}
    ids_feed = next((port.tokens for port in graph.strings if port.tokens), "")
    if spec.text is None and not ids_feed:
        yield "labels of words are of a text, and the model takes none; add [text]."
        return
    ids = feeds[ids_feed if spec.text is None else spec.text.with_feed_names(list(feeds)).ids or ""]
    expected = [*ids.shape, len(output.labels)]
    if not fetch.dtype.startswith("float") or fetch.dynamic or list(fetch.shape) != expected:
        yield (
            f"{fetch.name!r} is {fetch.dtype} {fetch.describe_shape()}, and needs a score of floating point for each "
            f"token and label, {expected}."
        )


def _check_embedding(fetch: TensorSpec, batch: int) -> Iterator[str]:
    if not fetch.dtype.startswith("float"):
        yield f"{fetch.name!r} is {fetch.dtype}, and an embedding is of floating point."
    if fetch.dynamic or fetch.shape[:-1] not in ((batch,), ()) or not fetch.shape:
        yield (
            f"{fetch.name!r} is {fetch.describe_shape()}, and an embedding is one vector for each input, [{batch}, n]; "
            'add a pooling layer to the model, or write kind = "raw".'
        )


def _check_detection(output: OutputSpec, fetches: Mapping[str, TensorSpec], batch: int) -> Iterator[str]:
    """Yield the problems of boxes, which should be [batch, n, 4] or [n, 4], and of their scores and classes."""
    boxes, scores = fetches[output.fetch or ""], fetches[output.scores or ""]
    classes, count = (fetches[name] if name else None for name in (output.classes, output.count))
    items = (batch,) if len(boxes.shape) == 3 else ()
    if boxes.shape[-1:] != (4,) or len(boxes.shape) not in (2, 3) or boxes.shape[: len(items)] != items:
        yield f"boxes = {boxes.name!r} is {boxes.describe_shape()}, and has to be [{batch}, n, 4] or [n, 4]."
        return
    for key, tensor in (("boxes", boxes), ("scores", scores)):
        if not tensor.dtype.startswith("float"):
            yield f"{key} = {tensor.name!r} is {tensor.dtype}, and has to be floating point."
    rows, known = boxes.shape[:-1], not boxes.dynamic
    of_classes = scores.shape[:-1] == rows and len(scores.shape) == len(boxes.shape) and classes is None
    if known and not scores.dynamic and scores.shape != rows and not of_classes:
        more = "" if classes else f" or {[*rows, 'classes']}".replace("'", "")
        yield (
            f"scores = {scores.name!r} is {scores.describe_shape()}, and with such boxes has to be {list(rows)}{more}."
        )
    if classes and known and not classes.dynamic and classes.shape != rows:
        yield f"classes = {classes.name!r} is {classes.describe_shape()}, and with such boxes has to be {list(rows)}."
    if count and (count.dynamic or count.elements != (batch if items else 1)):
        yield f"count = {count.name!r} is {count.describe_shape()}, and has to be one number for each item, [{batch}]."
    if of_classes and output.labels and len(output.labels) != scores.shape[-1]:
        yield (
            f"{len(output.labels)} labels for {scores.name!r} {scores.describe_shape()}, which has "
            f"{scores.shape[-1]} classes."
        )


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
