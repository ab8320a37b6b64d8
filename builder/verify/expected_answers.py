"""What is expected of a model: its golden inputs, TensorFlow's answers, and how near to them each output has to be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np

from builder.base.arrays import Array
from builder.base.errors import VerifyError
from builder.config import ModelSpec, OutputKind, Tolerance
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph
from builder.verify.agreement import allowed_sensitivity
from builder.verify.golden import GoldenFile
from builder.verify.rounding import Rounding


@dataclass(frozen=True)
class ExpectedOutput:
    """An output: ``fetch`` is the graph's fetch ``number``.

    ``sensitivity``: how far TensorFlow's own answer moves, as a share of a case's largest magnitude; see
    ``Golden.sensitivity``. It is allowed besides the default ``tolerance``; one that a spec states holds as it is.
    """

    name: str
    fetch: TensorSpec
    number: int
    kind: OutputKind
    tolerance: Tolerance
    sensitivity: float = 0.0


@dataclass(frozen=True)
class ExpectedAnswers:
    """The golden inputs of a graph and TensorFlow's answers to them, open.

    ``same``: its answers with the weights rounded as the library's are, where they are, and it can say.
    ``warnings``: of the graph.
    """

    feeds: tuple[TensorSpec, ...]
    fetches: tuple[TensorSpec, ...]
    outputs: tuple[ExpectedOutput, ...]
    golden: GoldenFile
    rounding: Rounding | None = None
    same: GoldenFile | None = None
    warnings: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[str, ...]:
        """In the order in which they are run; with state they are one sequence of calls."""
        return self.golden.cases

    def feeds_of(self, case: str) -> list[Array]:
        """The feeds of ``case`` in the graph's order."""
        return [self.golden.read_feed(case, port.name) for port in self.feeds]

    def answers_of(self, case: str) -> list[Array]:
        """TensorFlow's answers to ``case`` in the graph's order, with the library's own rounding where known."""
        return [(self.same or self.golden).read_fetch(case, port.name) for port in self.fetches]

    def merge_tolerances(self) -> tuple[ExpectedOutput, ...]:
        """The outputs with one tolerance for all cases, in which everything is that is allowed against ``answers_of``.

        Their ``sensitivity`` is 0.
        """
        found = []
        for output in self.outputs:
            share = allowed_sensitivity(output.sensitivity)
            if self.rounding:
                share += self.rounding.same_share if self.same else self.rounding.share
            tolerance = widen_tolerance(output.tolerance, share, self.same or self.golden, self.cases, output.fetch)
            found.append(replace(output, tolerance=tolerance, sensitivity=0.0))
        return tuple(found)


@contextmanager
def open_expected(graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None = None) -> Iterator[ExpectedAnswers]:
    """The golden file of ``graph``, checked; ``rounding``: of the weights of the library that is to answer.

    Raises VerifyError when a golden file cannot be read or does not fit the graph, and for an output of ``spec`` whose
    fetch the graph does not have.
    """
    feeds = tuple(port.spec for port in graph.feeds)
    fetches = tuple(port.spec for port in graph.fetches)
    outputs = list_outputs(spec, fetches)
    with ExitStack() as stack:
        golden = stack.enter_context(GoldenFile.open(graph.golden_path))
        golden.require_fits(feeds, fetches)
        outputs = tuple(_add_sensitivity(o, golden) if o.tolerance == Tolerance() else o for o in outputs)
        known = rounding.golden if rounding else None
        same = stack.enter_context(GoldenFile.open(known)) if known else None
        yield ExpectedAnswers(feeds, fetches, outputs, golden, rounding, same, warnings=graph.warnings)


def _add_sensitivity(output: ExpectedOutput, golden: GoldenFile) -> ExpectedOutput:
    name = output.fetch.name
    tolerance = widen_tolerance(output.tolerance, golden.read_rounding(name), golden, golden.cases, output.fetch)
    return replace(output, sensitivity=golden.read_sensitivity(name), tolerance=tolerance)


def widen_tolerance(
    tolerance: Tolerance, share: float, golden: GoldenFile, cases: tuple[str, ...], fetch: TensorSpec
) -> Tolerance:
    """``tolerance`` and ``share`` of the largest finite magnitude of TensorFlow's answers to all ``cases``."""
    if not share:
        return tolerance
    values = (np.abs(golden.read_fetch(case, fetch.name).astype(np.float64)) for case in cases)
    largest = max((float(v[np.isfinite(v)].max(initial=0.0)) for v in values), default=0.0)
    return Tolerance(tolerance.absolute + share * largest, tolerance.relative)


def list_outputs(spec: ModelSpec, fetches: tuple[TensorSpec, ...]) -> tuple[ExpectedOutput, ...]:
    """Each output of the spec, then each fetch that it does not name.

    Raises VerifyError for an output whose fetch is not among ``fetches``.
    """
    return tuple(_iterate_outputs(spec, fetches))


def _iterate_outputs(spec: ModelSpec, fetches: tuple[TensorSpec, ...]) -> Iterator[ExpectedOutput]:
    numbers = {fetch.name: number for number, fetch in enumerate(fetches)}
    used = set()
    for output in spec.outputs:
        name = output.fetch or fetches[0].name
        if name not in numbers:
            raise VerifyError(
                f"output {output.name} names the fetch {name}, which the model does not have; "
                f"it has {', '.join(numbers)}."
            )
        used.add(name)
        absolute = spec.tolerance.absolute if output.absolute is None else output.absolute
        relative = spec.tolerance.relative if output.relative is None else output.relative
        number = numbers[name]
        yield ExpectedOutput(output.name, fetches[number], number, output.kind, Tolerance(absolute, relative))
    for name, number in numbers.items():
        if name not in used:
            yield ExpectedOutput(name, fetches[number], number, "raw", spec.tolerance)
