"""Resolution of the options that a spec leaves open, by measuring and by the tuning file."""

from __future__ import annotations

from dataclasses import replace

from builder.pipeline.calibrate_layers import calibrate_model
from builder.pipeline.choose_weights import choose_weight_type
from builder.pipeline.read_tuning import load_tuning
from builder.pipeline.resolved_options import ResolvedOptions
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.precision import PrecisionChoice, apply_precision


def resolve_spec(ws: Workspace, recorded: PrecisionChoice | None = None) -> ResolvedOptions:
    """Resolve the spec, with types in place of ``auto``, the ranges of layers' inputs, and the tuner's decisions.

    ``recorded``: see ``choose_weight_type``. Raises SpecError for an invalid tuning file, and as ``resolve_by_rule``.
    """
    return replace(resolve_by_rule(ws, recorded), algorithms=load_tuning(ws.spec).choose_algorithms(ws.target.name))


def resolve_by_rule(ws: Workspace, recorded: PrecisionChoice | None = None) -> ResolvedOptions:
    """Resolve the spec as ``resolve_spec`` does, without the tuner's decisions: the static rule decides everywhere.

    Types and ranges are measured on this machine's own build of the model, whatever the target. Raises SpecError for
    missing files that the spec names, and the ColdforgeError of a stage that fails.
    """
    if ws.spec.weights.type != "auto":
        return calibrate_model(ws)
    choice = choose_weight_type(ws, recorded)
    return replace(calibrate_model(ws.for_spec(apply_precision(ws.spec, choice.chosen))), choice=choice)
