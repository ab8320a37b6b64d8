"""What the spec says of outputs, against the sizes that only the model knows."""

from __future__ import annotations

from collections.abc import Iterator

from builder.errors import ImportModelError
from builder.importers.graph import FrozenGraph
from builder.spec import ModelSpec, OutputSpec
from builder.spec.tensor import TensorSpec


def check_outputs(spec: ModelSpec, graph: FrozenGraph) -> None:
    """Raises ImportModelError with every output whose fetch is not what its kind is made of."""
    fetches = {port.spec.name: port.spec for port in graph.fetches}
    problems = []
    for output in spec.outputs:
        fetch = fetches[output.fetch or next(iter(fetches))]
        found = _embedding(fetch, spec.batch) if output.kind == "embedding" else _classes(output, fetch)
        problems += [f"[[outputs]] {output.name}: {problem}" for problem in found]
    if problems:
        raise ImportModelError("\n".join(problems))


def _classes(output: OutputSpec, fetch: TensorSpec) -> Iterator[str]:
    name, shape = fetch.name, fetch.shape
    # Without a fixed number of classes, nothing says which label a score is of.
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


def _embedding(fetch: TensorSpec, batch: int) -> Iterator[str]:
    if not fetch.dtype.startswith("float"):
        yield f"{fetch.name!r} is {fetch.dtype}, and an embedding is of floating point."
    if fetch.dynamic or fetch.shape[:-1] not in ((batch,), ()) or not fetch.shape:
        yield (
            f"{fetch.name!r} is {fetch.says()}, and an embedding is one vector for each input, [{batch}, n]; "
            'add a pooling layer to the model, or write kind = "raw".'
        )
