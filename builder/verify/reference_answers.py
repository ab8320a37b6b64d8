"""TensorFlow's own answers to the golden inputs, against which every library is checked."""

from __future__ import annotations

import gc
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.commands import docs_command
from builder.base.errors import VerifyError
from builder.base.escape import describe_error
from builder.base.tf import import_tensorflow, load_graph, reference_session, tf
from builder.config import ModelSpec
from builder.config.tensor import TensorSpec
from builder.importers.constant_feeds import propose_values
from builder.importers.graph import FrozenGraph
from builder.importers.rewrite import walk_nodes
from builder.importers.samples.golden_inputs import (
    EDGES,
    ENDS,
    NOT_FINITE,
    PROBES,
    is_text,
    list_drawn_feeds,
    make_cases,
    make_further_cases,
    make_scaled_cases,
    read_examples,
)
from builder.importers.samples.user_samples import is_sample, read_golden_samples
from builder.importers.variables_state import assign_variables, read_variables
from builder.verify.agreement import measure_errors
from builder.verify.expected_answers import ROUNDING_SHARE, ExpectedOutput, list_outputs
from builder.verify.golden import GoldenCase, GoldenFile
from builder.verify.reference_graph import (
    UNSTABLE,
    WHOLE,
    Reading,
    ReferenceGraph,
    break_ties,
    convert_to_float64,
    find_unlike_ops,
    read_graph,
)
from builder.verify.sensitivity import (
    ENOUGH,
    FLOATS,
    MOST_ALLOWED,
    find_unstable_cases,
    loosen_to_default,
    measure_sensitivity,
    move_zeros,
    nudge_calls,
    nudge_constants,
)
from builder.verify.verification import UNLIKE_TENSORFLOW

Feeds = Mapping[str, Array]
"""Arrays of one call, by feed."""
Fetches = dict[str, Array]

SAMPLES = 16
"""Largest number of the user's own inputs that become golden ones: TensorFlow runs each several times."""


def make_golden_file(spec: ModelSpec, graph: FrozenGraph) -> None:
    """Write ``graph.golden_path``: the golden inputs of ``spec`` and TensorFlow's answers, the same bytes every time.

    Cases are zeros, extremes, some of seeded random values, photographs if the spec has an image input, the function's
    tensors of strings if the graph began with strings, and at most ``SAMPLES`` of the spec's samples. A random case
    replaces each on which TensorFlow itself is undecided or fails. For a graph with state the cases are one sequence
    of calls, in the order of the file, from the first state on. The answer is that of float64 if it shows that
    TensorFlow's float32 answer is off. Floating-point inputs that the graph reads as whole numbers get whole numbers.
    Raises VerifyError for a graph whose answers are random, for samples that TensorFlow cannot run, and if fewer than
    ``ENOUGH`` cases are left; UsageError for samples that do not fit.
    """
    reference = ReferenceGraph.read(graph)
    random = find_random_nodes(reference.definition)
    if random:
        raise VerifyError(
            f"The graph draws random numbers ({', '.join(random[:5])}{', ...' if len(random) > 5 else ''}), so its "
            f"answers cannot be compared with TensorFlow's. {_advise_against_draws(graph)}"
        )
    feeds = [port.spec for port in graph.feeds]
    outputs = list_outputs(spec, tuple(port.spec for port in graph.fetches))
    types = read_graph(graph, reference.definition).feeds
    drawn = [
        replace(feed, dtype="int32") if types.get(feed.name) == WHOLE else feed
        for feed in list_drawn_feeds(spec, graph)
    ]
    calls: dict[str, Feeds] = {**dict(_cast_calls(make_cases(spec, drawn), feeds)), **dict(read_examples(graph))}
    if not _is_fit_for_ends(graph, reference.definition):
        calls.pop(ENDS, None)
    calls |= dict(read_golden_samples(spec, feeds, SAMPLES))
    others = _select_new_sizes(graph, reference, calls, dict(_cast_calls(make_scaled_cases(drawn), feeds)))
    calls, probes, further = calls | others, PROBES | others.keys(), _cast_calls(make_further_cases(drawn), feeds)
    special = [calls[case] for case in NOT_FINITE if case in calls]
    if special and (unlike := find_unlike_ops(graph, reference, special)):
        warning = f"{UNLIKE_TENSORFLOW} where they reach {', '.join(unlike)}: see {docs_command('ops')}"
        replace(graph, warnings=(*graph.warnings, warning)).save()
    undecided: dict[str, str] = {}
    while True:
        may_fail = [case for case in calls if not (is_sample(case) or is_text(case))]
        references = answer_calls(graph, reference, calls, may_fail)
        reasons = {case: why for case, why in references.failed.items() if case not in probes}
        exact = {} if graph.states else _answer_in_float64(graph, reference, references.calls)
        reasons |= _find_undecided(references, graph, reference, outputs, exact)
        if not reasons:
            break
        undecided |= reasons
        calls = {case: feeds for case, feeds in calls.items() if case not in undecided}
        calls |= dict(islice(further, len(reasons)))
    if undecided and len(references.calls) < ENOUGH:
        raise VerifyError(explain_too_few(undecided, len(references.calls), feeds))
    replace(references, exact=_find_more_exact(references, outputs, exact)).write_golden(graph.golden_path, undecided)


def _cast_calls(calls: Iterable[tuple[str, Feeds]], feeds: Sequence[TensorSpec]) -> Iterator[tuple[str, Feeds]]:
    """Return ``calls`` in the types of ``feeds``."""
    types = {feed.name: feed.dtype for feed in feeds}
    for case, arrays in calls:
        yield case, {name: array.astype(types[name], copy=False) for name, array in arrays.items()}


def _advise_against_draws(graph: FrozenGraph) -> str:
    """Say how to build a graph that draws random numbers."""
    feeds = {port.spec.name: port.tensor for port in graph.feeds}
    values = propose_values(graph.read_reference(), [port.tensor for port in graph.fetches], feeds)
    if values:
        lines = "\n\n".join(f'[[feeds]]\nname = "{n}"\nvalue = {str(value).lower()}' for n, value in values.items())
        return f"For inference, give inputs that seem to be for training their values, in model.toml:\n\n{lines}\n"
    return (
        "Feed the noise or a seed as an input, or use stateless ops (tf.random.stateless_uniform) with a fixed seed, "
        "or a tf.random.Generator."
    )


def _is_fit_for_ends(graph: FrozenGraph, definition: Any) -> bool:
    """Return whether the smallest and largest integers are fit as golden inputs of ``graph``.

    ``definition``: the graph's reference. They are unfit if they may set the length of a loop or the size of a tensor,
    or if a float may become an integer that its type cannot hold: XLA saturates then, and TensorFlow does not.
    """

    def is_unfit(node: Any) -> bool:
        if node.op != "Cast":
            return "While" in node.op or node.op == "XlaCallModule"  # the op may have either inside
        source, target = (tf.dtypes.as_dtype(node.attr[key].type) for key in ("SrcT", "DstT"))
        return bool(source.is_floating and target.is_integer)

    dynamic = any(port.spec.dynamic for port in graph.fetches)
    return not dynamic and not any(is_unfit(node) for _, node in walk_nodes(definition))


def _select_new_sizes(
    graph: FrozenGraph, reference: ReferenceGraph, calls: Mapping[str, Feeds], further: Mapping[str, Feeds]
) -> dict[str, Feeds]:
    """Return those of ``further`` whose answers have sizes that no earlier call gives; none if all sizes are fixed.

    EDGES do not count, since they may be left out later.
    """
    dynamic = [port.spec.name for port in graph.fetches if port.spec.dynamic]
    if not dynamic:
        return {}
    both = {case: feeds for case, feeds in {**calls, **further}.items() if case not in EDGES}
    known_sizes: set[tuple[str, tuple[int, ...]]] = set()
    chosen = {}
    for case, fetches in run_reference(graph, reference, both, may_fail=both):
        sizes = {(name, fetches[name].shape) for name in dynamic}
        if case in further and not sizes <= known_sizes:
            chosen[case] = further[case]
        known_sizes |= sizes
    return chosen


_CANNOT_RUN = "TensorFlow cannot run the graph on it: "


def explain_too_few(undecided: Mapping[str, str], left: int, feeds: Sequence[TensorSpec]) -> str:
    """Say why so few golden inputs are left; the most frequent kind of reason comes first."""
    raises = f"TensorFlow cannot run the model (with {', '.join(f'{f.name} {list(f.shape)}' for f in feeds)}) on"
    no_number = "TensorFlow's own answer is NaN or a number, as the last bit of an input or a weight has it, on"
    jumps = "TensorFlow's own answer jumps with the last bit of an input or a weight, on"
    kinds: dict[str, list[str]] = defaultdict(list)
    for case, why in undecided.items():
        kind = raises if why.startswith(_CANNOT_RUN) else no_number if " nan " in why else jumps
        kinds[kind].append(f"{case}: {why.removeprefix(_CANNOT_RUN)}")
    ordered = sorted(kinds.items(), key=lambda pair: -len(pair[1]))
    lines = [f"{kind} {len(of)} of {len(undecided) + left} golden inputs:\n  {of[0]}" for kind, of in ordered]
    shape = "If a shape is at fault, give another one under [[feeds]] in model.toml. " if raises in kinds else ""
    return "\n".join(lines) + (
        f"\nThat leaves {left} to judge a library by, and {ENOUGH} are needed. {shape}Give inputs that the model is "
        f'made for: `samples = "samples.npz"` under [golden] in model.toml ({docs_command("verification")}).'
    )


def _find_more_exact(
    references: ReferenceAnswers, outputs: Sequence[ExpectedOutput], exact: Mapping[str, Fetches]
) -> dict[str, dict[str, Array]]:
    """Return the answers of float64 that replace TensorFlow's own, by case and fetch.

    TensorFlow's own are off by more than half of what a library may be, but by at most ``MOST_ALLOWED`` / 2 more than
    a library may be: with a larger difference the graph may be another function in float64.
    """
    replacements: dict[str, dict[str, Array]] = {}
    for case, fetches in exact.items():
        for output in outputs:
            name = output.fetch.name
            own, wide = references.answers[case][name], fetches[name]
            if own.dtype.name not in FLOATS or own.shape != wide.shape:
                continue
            error, allowed = measure_errors(own, wide, loosen_to_default(output.tolerance))
            limit = allowed + MOST_ALLOWED / 2 * float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
            if (error > allowed / 2).any() and (error <= limit).all():
                replacements.setdefault(case, {})[name] = wide
    return replacements


_HALF_FACTOR = 4
"""Factor of the measured change that is allowed if a graph rounds to half precision.

XLA rounds in other places than TensorFlow, between the weights and inputs that were moved.
"""


@dataclass(frozen=True)
class ReferenceAnswers:
    """TensorFlow's ``answers`` to ``calls``, and its answers when weights and inputs ``moved`` by one ulp.

    All are by case, in the order of the calls. Cases that TensorFlow could not run are in ``failed``, with the reason.
    ``exact``: answers of float64 that replace some.
    """

    calls: Mapping[str, Feeds]
    answers: Mapping[str, Fetches]
    moved: Mapping[str, Fetches]
    failed: Mapping[str, str]
    reading: Reading
    exact: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Share of the largest magnitude of an answer that a library may be off at most."""
        return ROUNDING_SHARE[self.reading.narrowest] or MOST_ALLOWED

    def write_golden(self, path: Path, undecided: Mapping[str, str] | None = None) -> None:
        """Write a golden file, which states how sensitive the answers are.

        It allows twice the sensitivity, and once the distance between float32 and float64. If the graph rounds to half
        precision, it allows twice as much of both, as a share of the largest answer to any case.
        """
        cases = {
            case: GoldenCase(feeds, {**self.answers[case], **self.exact.get(case, {})})
            for case, feeds in self.calls.items()
        }
        half, rounding = self.reading.narrowest != "float32", dict[str, float]()
        shares = measure_sensitivity(self.answers, self.moved, joint=half)
        for name, share in measure_sensitivity(self.answers, self.exact, joint=half).items():
            shares[name] = shares.get(name, 0.0) + share / 2
        if half:
            shares, rounding = {}, {name: min(_HALF_FACTOR * share, self.share) for name, share in shares.items()}
        GoldenFile.write(path, cases, shares, undecided, rounding)


def answer_calls(
    graph: FrozenGraph, reference: ReferenceGraph, calls: Mapping[str, Feeds], may_fail: Collection[str] = ()
) -> ReferenceAnswers:
    """Have TensorFlow answer ``calls``, by case.

    Leave out calls in ``may_fail`` that it cannot run, and those whose answer is larger than a fetch can be.
    Raises VerifyError if it cannot run another, or no call is left.
    """
    failed: dict[str, str] = {}
    reading = read_graph(graph, reference.definition)
    fetched = dict(run_reference(graph, reference, calls, may_fail, failed))
    if calls and not fetched and not failed:
        sizes = ", ".join(f"{p.spec.name} {p.spec.describe_shape()}" for p in graph.fetches if p.spec.dynamic)
        raise VerifyError(f"Every golden input gives more than `max_size` in model.toml allows ({sizes}): raise it.")
    run = {case: calls[case] for case in fetched}
    moved = run_reference(graph, nudge_constants(reference), nudge_calls(run, reading.feeds), may_fail=run)
    return ReferenceAnswers(run, fetched, dict(moved), failed, reading)


def _find_undecided(
    references: ReferenceAnswers,
    graph: FrozenGraph,
    reference: ReferenceGraph,
    outputs: Sequence[ExpectedOutput],
    exact: Mapping[str, Fetches],
) -> dict[str, str]:
    """Return the cases on which TensorFlow is undecided, with reasons; of a sequence of calls the first.

    ``exact``: TensorFlow's answers in float64, if it has them.
    """

    def find(moved: Iterable[tuple[str, Fetches]], when: str) -> dict[str, str]:
        return find_unstable_cases(outputs, references.answers, dict(moved), when, references.share)

    reasons = find(references.moved.items(), "when weights and inputs move by one unit in the last place")
    if not graph.states:
        zeros = move_zeros(references.calls, references.reading.feeds)
        moved = run_reference(graph, reference, zeros, may_fail=zeros) if zeros else ()
        reasons = find(moved, "when zeros of the input move by 1e-7") | reasons
        reasons = find(((case, fetches) for case, fetches in exact.items() if case in EDGES), "in float64") | reasons
        for first in (True, False) if UNSTABLE in references.reading.ops else ():
            apart = break_ties(reference, first=first)
            moved = run_reference(graph, apart, references.calls, may_fail=references.calls)
            reasons = find(moved, "when equal scores move apart, whose order an unstable sort decides") | reasons
    chosen = [case for case in references.calls if case in reasons][: 1 if graph.states else None]
    return {case: reasons[case] for case in chosen}


def _answer_in_float64(graph: FrozenGraph, reference: ReferenceGraph, calls: Mapping[str, Feeds]) -> dict[str, Fetches]:
    """Return TensorFlow's answers in float64 to the cases that it can run in float64."""
    wide = convert_to_float64(reference)
    if wide is None:
        return {}
    try:
        with np.errstate(over="ignore"):
            return dict(run_reference(graph, wide, calls, may_fail=calls))
    except (ValueError, TypeError):  # an op has no float64 kernel
        return {}


def run_reference(
    graph: FrozenGraph,
    reference: ReferenceGraph,
    calls: Mapping[str, Feeds],
    may_fail: Collection[str] = (),
    failed: dict[str, str] | None = None,
) -> Iterator[tuple[str, Fetches]]:
    """Yield each case and TensorFlow's answers by fetch, in ``graph``'s dtypes; with state, as one sequence of calls.

    TensorFlow runs ``reference``, op by op, not through XLA: it is that of ``graph``, perhaps with other constants.
    Cases in ``may_fail`` that it cannot run are left out, and so are those whose answer is larger than ``max_size``
    allows: the library refuses them. ``failed`` gets the reasons of those that cannot be run.
    Raises VerifyError if it cannot run another.
    """
    try:
        yield from _run_sessions(graph, reference, calls, may_fail, failed)
    finally:
        gc.collect()  # TensorFlow's graphs are cycles, and each holds its constants several times over


def _run_sessions(
    graph: FrozenGraph,
    reference: ReferenceGraph,
    calls: Mapping[str, Feeds],
    may_fail: Collection[str],
    failed: dict[str, str] | None,
) -> Iterator[tuple[str, Fetches]]:
    loaded, state = load_graph(reference.definition), graph.first_state()
    with reference_session(loaded) as session:
        assign_variables(loaded, session, state)
        for case, feeds in calls.items():
            fed = reference.make_feed(graph, feeds)
            try:
                answers = session.run([port.tensor for port in graph.fetches], fed)
            except tf.errors.OpError as error:
                # TensorFlow's own reason comes after the name of the node that raised it.
                reason = re.sub(r"^Graph execution error: .*?Node: ('[^']*') ", r"\1: ", describe_error(error.message))
                if case in may_fail:  # TensorFlow has no answer to compare with, e.g. for an index out of range
                    if failed is not None:
                        failed[case] = _CANNOT_RUN + reason
                    assign_variables(loaded, session, state)
                    continue
                raise VerifyError(f"TensorFlow cannot run the graph on {case}: {reason}") from error
            if _is_too_large([p.spec for p in graph.fetches], [np.shape(answer) for answer in answers]):
                assign_variables(loaded, session, state)
                continue
            state = read_variables(loaded, session, {p.tensor: p.spec.dtype for p in graph.states})
            pairs = zip(graph.fetches, answers, strict=True)
            yield case, {port.spec.name: np.asarray(answer, port.spec.dtype) for port, answer in pairs}


def _is_too_large(fetches: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]]) -> bool:
    """Return whether an answer is larger than its fetch. Raises VerifyError for a shape other than XLA's."""
    wrong = [(spec, shape) for spec, shape in zip(fetches, shapes, strict=True) if not spec.accepts_shape(shape)]
    for spec, shape in wrong:
        sizes = zip(shape, spec.shape, strict=False)
        if shape != tuple(size if at in spec.dynamic else own for at, (size, own) in enumerate(sizes)):
            raise VerifyError(
                f"TensorFlow's {spec.name} has the shape {list(shape)}, and XLA compiles it as "
                f"{spec.describe_shape()}: XLA does not see that its size depends on the data. Leave this output out."
            )
    return bool(wrong)


def find_random_nodes(definition: Any) -> list[str]:
    """Return the paths of the nodes that draw from a generator with a state of its own."""
    import_tensorflow()
    from tensorflow.python.framework import op_def_registry

    def draws(op: str) -> bool:
        definition = op_def_registry.get(op)
        return bool(definition and definition.is_stateful and any(word in op for word in _DRAWING))

    return [path for path, node in walk_nodes(definition) if draws(node.op)]


_DRAWING = ("Random", "Multinomial", "TruncatedNormal", "StatefulUniform", "StatefulStandardNormal")
