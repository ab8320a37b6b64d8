"""Choice of the layers whose inputs are rounded, and of the ranges, measured while the model runs as it is.

The best range has the least mean squared error, by a histogram. A narrower range has finer steps and cuts off numbers
outside it. Both errors are estimated for many ranges: inside, numbers are anywhere between two steps, which is a
variance of scale^2 / 12; outside, they are off by their distance to the end. Zeros do not count, since they are exact
in any range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import SpecError
from builder.compiler.lower import LoweredProgram
from builder.compiler.lower.steps.base import Step, walk_steps
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.config import ActivationType, ModelSpec
from builder.importers.graph import FrozenGraph
from builder.importers.samples.user_samples import Inputs
from builder.verify.step_probes import Look, observe_steps, view_input


def choose_input_type(spec: ModelSpec, name: str) -> ActivationType:
    """Return the type that the spec demands for the layer ``name``: that of the last exception that fits, or of all."""
    exceptions = (layer for layer in reversed(spec.layers) if layer.activations and fnmatchcase(name, layer.name))
    return next((layer.activations for layer in exceptions if layer.activations), spec.activations.type)


def require_known(spec: ModelSpec, names: Sequence[str]) -> None:
    """Raise SpecError for an exception whose pattern fits no layer."""
    for layer in spec.layers:
        if layer.activations and not any(fnmatchcase(name, layer.name) for name in names):
            existing = ", ".join(dict.fromkeys(names)) or "none"
            raise SpecError(
                f'[[layers]].name: "{layer.name}" matches no layer of the model; its layers are: {existing}.'
            )


LEAST_RECURRENT = 1 << 14
"""Least number of weights of a recurrent layer to round: a smaller one is as fast in floats, as each step rounds."""


def explain_kept(spec: ModelSpec, step: LayerStep | RecurrentStep, lowered: LoweredProgram) -> str:
    """Explain why the input of ``step`` is not rounded on demand; the text is empty if it can be or there is no demand.

    For a RecurrentStep, the state counts as its input.
    """
    if choose_input_type(spec, step.layer) == "float32":
        return ""
    if step.weight_type != "int8":
        return f"its weights are {step.weight_type}"
    if isinstance(step, RecurrentStep):
        return _explain_kept_recurrent(step, lowered)
    if step.geometry.groups != 1:
        return "its channels are in groups"
    if not step.geometry.summable:
        return "it adds up more products than int32 holds"
    if not lowered.straight and not any(r.input == step.stored.buffer for r in _select_steps(lowered, RecurrentStep)):
        return "the model has loops or branches"
    return "" if step.input.buffer.space == "arena" else "its input is a constant"


def _explain_kept_recurrent(step: RecurrentStep, lowered: LoweredProgram) -> str:
    if not step.bounded:
        return "its first state may be beyond 1"
    if not step.geometry.summable:
        return "it adds up more products than int32 holds"
    if step.geometry.weights < LEAST_RECURRENT:
        return f"floats are as fast with fewer than {LEAST_RECURRENT:,} weights"
    return "another layer has its name" if any(s.layer == step.layer for s in _select_steps(lowered, LayerStep)) else ""


_Kind = TypeVar("_Kind", bound=Step)


def _select_steps(lowered: LoweredProgram, kind: type[_Kind]) -> Iterator[_Kind]:
    return (step for step in walk_steps(lowered.program.steps) if isinstance(step, kind))


def measure_ranges(
    library: Path, lowered: LoweredProgram, graph: FrozenGraph, inputs: Inputs, steps: Mapping[int, LayerStep]
) -> tuple[dict[str, Quantisation], dict[str, str]]:
    """Return the rounding of the inputs of ``steps`` (by number in the program), by layer, and reasons for no rounding.

    The model runs twice on ``inputs``: for the ends, and for the values between them.
    """
    extents = {step.layer: Extent() for step in steps.values()}
    observe_steps(library, lowered.program, graph, inputs.runs, _make_observer(extents, steps))
    kept = {}
    for name, extent in extents.items():
        if not extent.finite:
            kept[name] = "its input is not always finite"
        elif (extent.high - extent.low) / 255 < np.finfo(np.float32).tiny:
            kept[name] = "its input was always 0 where it was measured"
    histograms = {name: Histogram(extent) for name, extent in extents.items() if name not in kept}
    observe_steps(library, lowered.program, graph, inputs.runs, _make_observer(histograms, steps))
    return {name: make_quantisation(*best_range(histogram)) for name, histogram in histograms.items()}, kept


def _make_observer(statistics: Mapping[str, Extent] | Mapping[str, Histogram], steps: Mapping[int, LayerStep]) -> Look:
    def look(number: int, arena: np.ndarray) -> None:
        if number in steps and (statistic := statistics.get(steps[number].layer)) is not None:
            statistic.add(view_input(steps[number], arena))

    return look


Array = NDArray[np.float32]

BINS = 4096
ENDS = 96
"""Number of values tried for each end."""

LEVELS = 255


@dataclass
class Extent:
    """The least and the greatest number so far, including 0; ``finite``: whether all were finite."""

    low: float = 0.0
    high: float = 0.0
    finite: bool = True

    def add(self, values: Array) -> None:
        """Extend it to ``values``."""
        low, high = float(values.min(initial=0)), float(values.max(initial=0))
        if not np.isfinite(low) or not np.isfinite(high):
            self.finite = False
            return
        self.low, self.high = min(self.low, low), max(self.high, high)


class Histogram:
    """Count of numbers in each of ``BINS`` equal parts of ``extent``, without zeros."""

    def __init__(self, extent: Extent) -> None:
        self.low, self.high = extent.low, extent.high
        self.counts = np.zeros(BINS, np.int64)

    def add(self, values: Array) -> None:
        """Count ``values``."""
        flat = np.ravel(values).astype(np.float64)
        flat = flat[flat != 0]
        places = ((flat - self.low) * (BINS / (self.high - self.low))).astype(np.int64)
        self.counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)


def best_range(histogram: Histogram) -> tuple[float, float]:
    """Return the (low, high) with the least mean squared error, each between 0 and the end of the extent."""
    counts = histogram.counts.astype(np.float64)
    centres = histogram.low + (np.arange(BINS) + 0.5) * (histogram.high - histogram.low) / BINS
    shares = np.arange(1, ENDS + 1) / ENDS
    lows = histogram.low * shares if histogram.low < 0 else np.zeros(1)
    highs = histogram.high * shares if histogram.high > 0 else np.zeros(1)
    below = [_measure_clipping(counts, low - centres) for low in lows]
    above = [_measure_clipping(counts, centres - high) for high in highs]
    cut = np.array([error for error, _ in below])[:, None] + np.array([error for error, _ in above])
    inside_count = counts.sum() - np.array([n for _, n in below])[:, None] - np.array([n for _, n in above])
    scale = (highs - lows[:, None]) / LEVELS
    errors = cut + inside_count * scale**2 / 12
    i, j = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return float(lows[i]), float(highs[j])


def _measure_clipping(counts: NDArray[np.float64], distances: NDArray[np.float64]) -> tuple[float, float]:
    """Return the squared error of the numbers beyond an end, and their count."""
    outside = distances > 0
    return float((counts[outside] * distances[outside] ** 2).sum()), float(counts[outside].sum())


def make_quantisation(low: float, high: float) -> Quantisation:
    """Return scale and zero for a range from ``low`` <= 0 to ``high`` >= 0, not both 0; 0.0 is exactly a step."""
    scale = float(np.float32((high - low) / LEVELS))
    return Quantisation(scale, int(np.clip(np.rint(-low / scale), 0, LEVELS)))
