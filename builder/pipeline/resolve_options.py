"""Settle: what a spec leaves open is answered, by measuring and by the tuning file."""

from __future__ import annotations

from dataclasses import replace

from builder.pipeline.calibrate_layers import calibrate_model
from builder.pipeline.choose_weights import choose_weight_type
from builder.pipeline.read_tuning import load_tuning
from builder.pipeline.resolved_options import ResolvedOptions
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.choice import PrecisionChoice
from builder.verify.quantise.number_types import apply_precision


def resolve_spec(ws: Workspace, recorded: PrecisionChoice | None = None) -> ResolvedOptions:
    """The spec with types in the place of ``auto``, the ranges of layers' inputs, and the tuner's decisions.

    ``recorded``: as ``choose`` has it. Raises SpecError for a tuning file that is none, and as ``resolve_by_rule``
    does.
    """
    return replace(resolve_by_rule(ws, recorded), algorithms=load_tuning(ws.spec).choose_algorithms(ws.target.name))


def resolve_by_rule(ws: Workspace, recorded: PrecisionChoice | None = None) -> ResolvedOptions:
    """What ``resolve_spec`` gives, without the tuner's decisions: the static rule decides everywhere.

    Types and ranges are measured on this machine's own build of the model, whatever the target. Raises SpecError for
    what the spec names and is not there, and the ColdforgeError of a stage that fails.
    """
    if ws.spec.weights.type != "auto":
        return calibrate_model(ws)
    choice = choose_weight_type(ws, recorded)
    return replace(calibrate_model(ws.for_spec(apply_precision(ws.spec, choice.chosen))), choice=choice)
