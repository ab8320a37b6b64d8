"""Checks of the [[outputs]] of a spec against the sizes that only the model has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from builder.base.errors import ImportModelError
from builder.config import ModelSpec, OutputSpec
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph


def check_outputs(spec: ModelSpec, graph: FrozenGraph) -> None:
    """Raise ImportModelError that lists every output whose fetch does not suit its kind."""
    fetches = {port.spec.name: port.spec for port in graph.fetches}
    problems = []
    for output in spec.outputs:
        fetch = fetches[output.fetch or next(iter(fetches))]
        if output.kind in ("detection", "segmentation") and spec.image is None:
            problems.append(f"[[outputs]] {output.name}: it is of a picture, and the model takes none; add [image].")
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
            f"{fetch.name!r} is {fetch.dtype} {fetch.describe_shape()}, and needs a score "
            f"of floating point for each token and "
            f"label, {expected}."
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
            f"{len(output.labels)} labels for {scores.name!r} {scores.describe_shape()}, "
            f"which has {scores.shape[-1]} classes."
        )
