"""Settle: what a spec leaves open is answered, by measuring and by the tuning file."""

from __future__ import annotations

from dataclasses import replace

from builder.pipeline.calibrate_layers import calibrate
from builder.pipeline.choose_weights import choose
from builder.pipeline.read_tuning import tuning_of
from builder.pipeline.resolved_options import Settled
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.choice import Choice
from builder.verify.quantise.number_types import of_kind


def settle(ws: Workspace, recorded: Choice | None = None) -> Settled:
    """The spec with types in the place of ``auto``, the ranges of layers' inputs, and the tuner's decisions.

    ``recorded``: as ``choose`` has it. Raises SpecError for a tuning file that is none, and as ``settle_by_rule`` does.
    """
    return replace(settle_by_rule(ws, recorded), algorithms=tuning_of(ws.spec).algorithms(ws.target.name))


def settle_by_rule(ws: Workspace, recorded: Choice | None = None) -> Settled:
    """What ``settle`` gives, without the tuner's decisions: the static rule decides everywhere.

    Types and ranges are measured on this machine's own build of the model, whatever the target. Raises SpecError for
    what the spec names and is not there, and the ColdforgeError of a stage that fails.
    """
    if ws.spec.weights.type != "auto":
        return calibrate(ws)
    choice = choose(ws, recorded)
    return replace(calibrate(ws.for_spec(of_kind(ws.spec, choice.chosen))), choice=choice)
