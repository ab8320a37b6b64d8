"""TensorFlow's own answers to the golden inputs: what every library is checked against."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.errors import VerifyError
from builder.importers.graph import FrozenGraph
from builder.importers.state import assign, read
from builder.importers.tf import reference_session, tensorflow
from builder.importers.walk import walk
from builder.spec import ModelSpec
from builder.verify.golden import Golden, GoldenCase
from builder.verify.inputs import PROBES, cases
from builder.verify.sensitivity import nudge_constants, nudged_calls, sensitivity

Array = NDArray[Any]
Feeds = Mapping[str, Array]
"""The arrays of one call, by feed."""
Fetches = dict[str, Array]


def make(spec: ModelSpec, graph: FrozenGraph) -> None:
    """Write ``graph.golden_path``: the golden inputs of ``spec`` and TensorFlow's answers, the same bytes every time.

    Cases: zeros, extremes, some of seeded random values, and photographs where the spec has an image input. Of a
    graph with state they are one sequence of calls, in the order of the file, from the first state on.
    Raises VerifyError for a graph whose answers are random or that TensorFlow cannot run.
    """
    random = random_nodes(graph.reference())
    if random:
        raise VerifyError(
            f"The graph draws random numbers ({', '.join(random[:5])}{', ...' if len(random) > 5 else ''}), so its "
            "answers cannot be compared with TensorFlow's. Feed the noise as an input, or use stateless ops "
            "(tf.random.stateless_uniform) with a fixed seed."
        )
    record(graph, dict(cases(spec, [p.spec for p in graph.feeds])), may_fail=PROBES)


def record(graph: FrozenGraph, calls: Mapping[str, Feeds], may_fail: Collection[str] = ()) -> None:
    """Write ``graph.golden_path``: TensorFlow's answers to ``calls``, by case, and how sensitive they are.

    Calls in ``may_fail`` that TensorFlow cannot run are left out. Raises VerifyError where it cannot run another.
    """
    fetched = dict(answers(graph, graph.reference(), calls, may_fail))
    run = {case: calls[case] for case in fetched}
    nudged = answers(graph, nudge_constants(graph.reference()), nudged_calls(run), may_fail=run)
    found = {case: GoldenCase(feeds, fetched[case]) for case, feeds in run.items()}
    Golden.write(graph.golden_path, found, sensitivity(fetched, dict(nudged)))


def answers(
    graph: FrozenGraph, definition: Any, calls: Mapping[str, Feeds], may_fail: Collection[str] = ()
) -> Iterator[tuple[str, Fetches]]:
    """Each case and TensorFlow's answers by fetch, in the dtypes of ``graph``; one sequence of calls if it has state.

    TensorFlow runs ``definition``, op by op, not through XLA: it is the reference of ``graph``, perhaps with
    other constants. Cases in ``may_fail`` that it cannot run are left out. Raises VerifyError where it cannot run
    another.
    """
    tf = tensorflow()
    with tf.Graph().as_default() as loaded, reference_session(loaded) as session:
        tf.import_graph_def(definition, name="")
        state = graph.first_state()
        assign(loaded, session, state)
        for case, feeds in calls.items():
            try:
                found = session.run(
                    [p.tensor for p in graph.fetches], {p.tensor: feeds[p.spec.name] for p in graph.feeds}
                )
            except tf.errors.OpError as error:
                if case in may_fail:  # out of the range of an index, say: TensorFlow has no answer to agree with
                    assign(loaded, session, state)
                    continue
                raise VerifyError(f"TensorFlow cannot run the graph on {case}: {error.message[:300]}") from error
            state = read(loaded, session, {p.tensor: p.spec.dtype for p in graph.states})
            pairs = zip(graph.fetches, found, strict=True)
            yield case, {port.spec.name: np.asarray(answer, port.spec.dtype) for port, answer in pairs}


def random_nodes(definition: Any) -> list[str]:
    """Paths of the nodes that draw from a generator with a state of its own."""
    tensorflow()
    from tensorflow.python.framework import op_def_registry

    def draws(op: str) -> bool:
        definition = op_def_registry.get(op)
        return bool(definition and definition.is_stateful and any(word in op for word in _DRAWING))

    return [path for path, node in walk(definition) if draws(node.op)]


_DRAWING = ("Random", "Multinomial", "TruncatedNormal", "StatefulUniform", "StatefulStandardNormal")
