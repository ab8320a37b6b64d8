"""Choice of the layers whose inputs are rounded, and of the ranges, measured while the model runs as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

import numpy as np

from builder.base.errors import SpecError
from builder.compiler.lower import LoweredProgram
from builder.compiler.lower.steps.base import Step, walk_steps
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.config import ActivationType, ModelSpec
from builder.importers.graph import FrozenGraph
from builder.importers.samples.user_samples import Inputs
from builder.verify.quantise.observe import Look, observe_steps, view_input
from builder.verify.quantise.ranges import Extent, Histogram, best_range, make_quantisation


def choose_input_type(spec: ModelSpec, name: str) -> ActivationType:
    """Return the type that the spec demands for the layer ``name``: that of the last exception that fits, or of all."""
    exceptions = (layer for layer in reversed(spec.layers) if layer.activations and fnmatchcase(name, layer.name))
    return next((layer.activations for layer in exceptions if layer.activations), spec.activations.type)


def require_known(spec: ModelSpec, names: Sequence[str]) -> None:
    """Raise SpecError for an exception whose pattern fits no layer."""
    for layer in spec.layers:
        if layer.activations and not any(fnmatchcase(name, layer.name) for name in names):
            known = ", ".join(dict.fromkeys(names)) or "none"
            raise SpecError(f'[[layers]].name: "{layer.name}" matches no layer of the model; its layers are: {known}.')


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
    kept = dict(_find_degenerate(extents))
    histograms = {name: Histogram(extent) for name, extent in extents.items() if name not in kept}
    observe_steps(library, lowered.program, graph, inputs.runs, _make_observer(histograms, steps))
    return {name: make_quantisation(*best_range(histogram)) for name, histogram in histograms.items()}, kept


def _make_observer(statistics: Mapping[str, Extent] | Mapping[str, Histogram], steps: Mapping[int, LayerStep]) -> Look:
    def look(number: int, arena: np.ndarray) -> None:
        if number in steps and (statistic := statistics.get(steps[number].layer)) is not None:
            statistic.add(view_input(steps[number], arena))

    return look


def _find_degenerate(extents: Mapping[str, Extent]) -> Iterator[tuple[str, str]]:
    for name, extent in extents.items():
        if not extent.finite:
            yield name, "its input is not always finite"
        elif (extent.high - extent.low) / 255 < np.finfo(np.float32).tiny:
            yield name, "its input was always 0 where it was measured"
