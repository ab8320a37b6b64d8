"""Golden feeds, and TensorFlow's own answers to them: what every library is checked against."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.errors import VerifyError
from builder.importers.graph import FrozenGraph, save_arrays
from builder.importers.state import assign, read
from builder.importers.tf import reference_session, tensorflow
from builder.preflight import walk
from builder.spec import ImageInput, ModelSpec
from builder.spec.tensor import TensorSpec

Array = NDArray[Any]

RANDOM_CASES = 3

PHOTOGRAPHS = Path(__file__).parent / "photographs"
"""A face, a person and a cup: public domain, see the README beside them."""


def make(spec: ModelSpec, graph: FrozenGraph) -> None:
    """Write ``golden.npz``: ``feed/<case>/<name>`` and ``fetch/<case>/<name>``, the same bytes every time.

    Cases: zeros, extremes, some of seeded random values, and photographs where the spec has an image input. Of a
    graph with state they are one sequence of calls, in the order of the file, from the first state on.
    TensorFlow runs the graph op by op, not through XLA. Raises VerifyError for a graph whose answers are random or
    that TensorFlow cannot run.
    """
    tf = tensorflow()
    definition = tf.compat.v1.GraphDef.FromString(graph.graph_path.read_bytes())
    random = random_nodes(definition)
    if random:
        raise VerifyError(
            f"The graph draws random numbers ({', '.join(random[:5])}{', ...' if len(random) > 5 else ''}), so its "
            "answers cannot be compared with TensorFlow's. Feed the noise as an input, or use stateless ops "
            "(tf.random.stateless_uniform) with a fixed seed."
        )
    arrays: dict[str, Array] = {}
    with tf.Graph().as_default() as loaded, reference_session(loaded) as session:
        tf.import_graph_def(definition, name="")
        state = graph.first_state()
        assign(loaded, session, state)
        for case, feeds in cases(spec, [p.spec for p in graph.feeds]):
            try:
                answers = session.run(
                    [p.tensor for p in graph.fetches], {p.tensor: feeds[p.spec.name] for p in graph.feeds}
                )
            except tf.errors.OpError as error:
                if case in _PROBES:  # out of the range of an index, say: TensorFlow has no answer to agree with
                    assign(loaded, session, state)
                    continue
                raise VerifyError(f"TensorFlow cannot run the graph on {case}: {error.message[:300]}") from error
            state = read(loaded, session, {p.tensor: p.spec.dtype for p in graph.states})
            arrays |= {f"feed/{case}/{name}": value for name, value in feeds.items()}
            for port, answer in zip(graph.fetches, answers, strict=True):
                arrays[f"fetch/{case}/{port.spec.name}"] = np.asarray(answer, port.spec.dtype)
    save_arrays(graph.golden_path, arrays)


_PROBES = {"extremes", "wide"}
"""Cases that a valid model may have no answer to."""

_WIDE = 100
"""Integers below this are tried too, for the models that take tokens or amounts."""


def cases(spec: ModelSpec, feeds: list[TensorSpec]) -> Iterator[tuple[str, dict[str, Array]]]:
    """Every case's name and its arrays by feed; seeded by the feeds' names, so the same on every machine."""
    yield "zeros", {f.name: np.zeros(f.shape, f.dtype) for f in feeds}
    yield "extremes", {f.name: extremes(f) for f in feeds}
    for i in range(RANDOM_CASES):
        yield f"random-{i}", {f.name: random_values(f, i) for f in feeds}
    if any(_may_be_index(f) for f in feeds):
        yield "wide", {f.name: random_values(f, RANDOM_CASES, _WIDE) for f in feeds}
    if spec.image is None:
        return
    feed = spec.image.feed or feeds[0].name
    paths = sorted(PHOTOGRAPHS.glob("*.jpg"))
    pictures = [photograph(path, spec.image) for path in paths]
    for i, path in enumerate(paths):
        batch = np.stack([pictures[(i + item) % len(pictures)] for item in range(spec.batch)])
        others = {f.name: random_values(f, RANDOM_CASES + i) for f in feeds}
        yield f"photo-{path.stem}", {**others, feed: batch}


def extremes(feed: TensorSpec) -> Array:
    """Both ends of a sensible range, alternating: all of 8 bits, -1 and 1 for floats, 0 and 1 for indices."""
    low, high = {"uint8": (0, 255), "int8": (-128, 127)}.get(feed.dtype, (0, 1))
    if feed.dtype.startswith("float"):
        low = -1
    return np.resize(np.array([high, low], feed.dtype), feed.elements).reshape(feed.shape)


def random_values(feed: TensorSpec, seed: int, end: int = 2) -> Array:
    """Normal floats, any uint8 or int8, and integers below ``end`` for wider ones: they may be indices."""
    random = np.random.Generator(np.random.PCG64([seed, zlib.crc32(feed.name.encode())]))
    if feed.dtype.startswith("float"):
        return random.standard_normal(feed.shape).astype(feed.dtype)
    if feed.dtype in ("uint8", "int8"):
        info = np.iinfo(feed.dtype)
        return random.integers(info.min, info.max, feed.shape, feed.dtype, endpoint=True)
    return random.integers(0, end if _may_be_index(feed) else 2, feed.shape).astype(feed.dtype)


def _may_be_index(feed: TensorSpec) -> bool:
    return "int" in feed.dtype and not feed.dtype.endswith("int8")


def photograph(path: Path, image: ImageInput) -> Array:
    """A picture as uint8 [height, width, channels], as the spec's image input takes it."""
    from PIL import Image

    with Image.open(path) as opened:
        picture = opened.convert("L" if image.mode == "grey" else "RGB")
    picture = picture.resize((image.width, image.height), Image.Resampling.BILINEAR)
    return np.asarray(picture, np.uint8).reshape(image.height, image.width, image.channels)


def random_nodes(definition: Any) -> list[str]:
    """Paths of the nodes that draw from a generator with a state of its own."""
    tensorflow()
    from tensorflow.python.framework import op_def_registry

    def draws(op: str) -> bool:
        definition = op_def_registry.get(op)
        return bool(definition and definition.is_stateful and any(word in op for word in _DRAWING))

    return [path for path, node in walk(definition) if draws(node.op)]


_DRAWING = ("Random", "Multinomial", "TruncatedNormal", "StatefulUniform", "StatefulStandardNormal")
