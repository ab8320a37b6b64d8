"""Expected behaviour of a model: golden inputs, TensorFlow's answers, and how far an output may be off them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from builder.base.arrays import Array
from builder.base.errors import VerifyError
from builder.config import ModelSpec, OutputKind, Tolerance, WeightType
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph
from builder.verify.agreement import allowed_sensitivity
from builder.verify.golden import GoldenFile

ROUNDING_SHARE: dict[WeightType, float] = {"float32": 0.0, "float16": 0.02, "bfloat16": 0.1, "int8": 0.25}
"""The distance that rounded weights may move an answer, as a share of the output's largest magnitude over all golden
inputs; the spec's tolerance comes on top.
"""

INPUT_SHARE = 0.25
"""The share that rounded inputs add to ROUNDING_SHARE."""

FLIPPED_SHARE = 0.05
"""The allowed distance from TensorFlow's answer with the same rounded weights and inputs, likewise: a number between
two steps goes to the other one if TensorFlow's sum differs in its last bit, and later steps amplify that.
"""


@dataclass(frozen=True)
class Rounding:
    """Rounding of weights that differ from TensorFlow's own: ``type`` is the coarsest of them.

    ``golden``: TensorFlow's answers to the golden feeds with the same rounding; None, with a ``warning``, if some of
    the weights could not be found in the graph. ``inputs``: layers round their inputs as well.
    """

    type: WeightType
    golden: Path | None
    warning: str = ""
    inputs: bool = False

    @property
    def share(self) -> float:
        """The distance that rounding may move an answer from TensorFlow's own; see ``ROUNDING_SHARE``."""
        return ROUNDING_SHARE[self.type] + (INPUT_SHARE if self.inputs else 0.0)

    @property
    def same_share(self) -> float:
        """The distance allowed between an answer and TensorFlow's with the same rounding."""
        return FLIPPED_SHARE if self.inputs else 0.0


@dataclass(frozen=True)
class ExpectedOutput:
    """An output with its tolerance: ``fetch`` is the graph's fetch ``number``.

    ``sensitivity``: the distance that TensorFlow's own answer moves, as a share of a case's largest magnitude; see
    ``GoldenFile.read_sensitivity``. It is added to the default ``tolerance`` only, not to one that a spec states.
    """

    name: str
    fetch: TensorSpec
    number: int
    kind: OutputKind
    tolerance: Tolerance
    sensitivity: float = 0.0


@dataclass(frozen=True)
class ExpectedAnswers:
    """Golden inputs of a graph and TensorFlow's answers to them, from open files.

    ``same``: TensorFlow's answers with the library's own rounding of weights, if there is any and it can compute them.
    ``warnings``: the warnings of the graph.
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
        """The names in the order in which the cases run; with state they are one sequence of calls."""
        return self.golden.cases

    def feeds_of(self, case: str) -> list[Array]:
        """Return the feeds of ``case`` in the graph's order."""
        return [self.golden.read_feed(case, port.name) for port in self.feeds]

    def answers_of(self, case: str) -> list[Array]:
        """Return TensorFlow's answers to ``case`` in the graph's order, with the library's own rounding if known."""
        return [(self.same or self.golden).read_fetch(case, port.name) for port in self.fetches]

    def merge_tolerances(self) -> tuple[ExpectedOutput, ...]:
        """Return the outputs with one tolerance for all cases, which is all that is allowed against ``answers_of``.

        Their ``sensitivity`` is 0.
        """
        merged = []
        for output in self.outputs:
            share = allowed_sensitivity(output.sensitivity)
            if self.rounding:
                share += self.rounding.same_share if self.same else self.rounding.share
            tolerance = widen_tolerance(output.tolerance, share, self.same or self.golden, self.cases, output.fetch)
            merged.append(replace(output, tolerance=tolerance, sensitivity=0.0))
        return tuple(merged)


@contextmanager
def open_expected(graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None = None) -> Iterator[ExpectedAnswers]:
    """Open and check the golden file of ``graph``; ``rounding``: that of the weights of the library under test.

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
        rounded_path = rounding.golden if rounding else None
        same = stack.enter_context(GoldenFile.open(rounded_path)) if rounded_path else None
        yield ExpectedAnswers(feeds, fetches, outputs, golden, rounding, same, warnings=graph.warnings)


def _add_sensitivity(output: ExpectedOutput, golden: GoldenFile) -> ExpectedOutput:
    name = output.fetch.name
    tolerance = widen_tolerance(output.tolerance, golden.read_rounding(name), golden, golden.cases, output.fetch)
    return replace(output, sensitivity=golden.read_sensitivity(name), tolerance=tolerance)


def widen_tolerance(
    tolerance: Tolerance, share: float, golden: GoldenFile, cases: tuple[str, ...], fetch: TensorSpec
) -> Tolerance:
    """Add ``share`` of the largest finite magnitude of TensorFlow's answers to all ``cases`` to ``tolerance``."""
    if not share:
        return tolerance
    values = (np.abs(golden.read_fetch(case, fetch.name).astype(np.float64)) for case in cases)
    largest = max((float(v[np.isfinite(v)].max(initial=0.0)) for v in values), default=0.0)
    return Tolerance(tolerance.absolute + share * largest, tolerance.relative)


def list_outputs(spec: ModelSpec, fetches: tuple[TensorSpec, ...]) -> tuple[ExpectedOutput, ...]:
    """Return each output of the spec, then each fetch that it does not name.

    Raises VerifyError for an output whose fetch is not among ``fetches``.
    """
    numbers = {fetch.name: number for number, fetch in enumerate(fetches)}
    outputs = []
    for output in spec.outputs:
        name = output.fetch or fetches[0].name
        if name not in numbers:
            raise VerifyError(
                f"output {output.name} names the fetch {name}, which the model does not have; "
                f"it has {', '.join(numbers)}."
            )
        absolute = spec.tolerance.absolute if output.absolute is None else output.absolute
        relative = spec.tolerance.relative if output.relative is None else output.relative
        fetch, tolerance = fetches[numbers[name]], Tolerance(absolute, relative)
        outputs.append(ExpectedOutput(output.name, fetch, numbers[name], output.kind, tolerance))
    named = {output.number for output in outputs}
    others = ((number, fetch) for number, fetch in enumerate(fetches) if number not in named)
    return *outputs, *(ExpectedOutput(fetch.name, fetch, number, "raw", spec.tolerance) for number, fetch in others)
