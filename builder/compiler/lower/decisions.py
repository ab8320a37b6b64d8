"""Descriptions of a program's steps, and the decisions about each fused step, for the manifest and for people."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from builder.base.records import read_record
from builder.compiler.lower.compress import ITEM_SIZES
from builder.compiler.lower.geometry import PANEL, THIN_CHANNELS, Algorithm, count_flop
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.packing import TILED, choose_algorithm, choose_thin_block, choose_winograd_band
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Step, walk_steps
from builder.compiler.lower.steps.cascade_step import CascadeStep
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.config.schema import WeightType


@dataclass(frozen=True)
class StepInfo:
    """The description of one step. ``inside``: the descriptions of a cascade's layers, for one stripe.

    ``kind`` is layer, cascade, pool, add, norm, recurrent, attention, repack, copy, gather, trees or xla.
    """

    name: str
    kind: str
    matched: tuple[str, ...] = ()
    """The operations that were fused, from the first to the last; for the kind xla, why none was."""
    algorithm: str = ""
    flop: int = 0
    """Floating-point operations of a convolution or product, a multiply-add counted as two."""
    bytes: int = 0
    """The bytes that are read and written, weights included."""
    gives: str = ""
    """The op in the model whose value the step writes, where it is not the op of its ``name``."""
    inside: tuple[StepInfo, ...] = ()


def describe_step(step: Step) -> StepInfo:
    """Describe one of XLA's own steps."""
    return StepInfo(step.name, "xla", flop=step.flop, bytes=sum(b.size for b in (*step.reads, *step.writes)))


def count_value_flop(value: Value) -> int:
    """Count the floating-point operations of a convolution or product of the graph; 0 for any other value."""
    if value.op == "dot":
        left, numbers = value.operands[0], value.instruction.dot_dimension_numbers
        return count_flop(value.elements, math.prod(left.dims[d] for d in numbers.lhs_contracting_dimensions))
    if value.op == "convolution":
        kernel, numbers = value.operands[1], value.instruction.convolution_dimension_numbers
        outer = kernel.dims[numbers.kernel_output_feature_dimension]
        apart = math.prod(max(1, int(window.base_dilation)) for window in value.instruction.window.dimensions)
        return count_flop(value.elements, kernel.elements // max(1, outer)) // apart
    return 0


Chooser = Literal["rule", "tuning"]

LAYOUTS = {
    "direct": "[OC/16][KH*KW*C][16]",
    "depthwise": "[C/16][KH*KW][16]",
    "winograd2": "[OC/16][C][9][16]",
    "winograd4": "[OC/16][C][9][16]",
    "integer": "[OC/16][KH*KW][C/4][16][4]",
    "integer_winograd4": "[OC/16][9][C/4][16][4]",
    "integer_depthwise": "[C/16][KW][KH/4][16][4]",
    "thin": "[OC/8][KH*KW][C][8]",
}
"""Layout of each algorithm's weights in the library; see builder/compiler/lower/packing.py."""

_NOT_FUSED = ("xla", "copy", "repack")


@dataclass(frozen=True)
class Decision:
    """A decision about one fused step; only layers have ``geometry`` and ``chosen_by``.

    ``packing``: for a layer, ``layout`` of the weights, ``panel`` (output channels side by side), for Winograd ``band``
    (tiles of output transformed at a time), for thin layers ``block`` (rows and columns of output computed at a time),
    for integer layers of few channels ``joined`` (pixels computed as one), and for all three ``scratch`` (bytes). For a
    cascade, whose layers come after it: ``rows`` of a stripe.
    """

    step: str
    kind: str
    algorithm: str
    fused: tuple[str, ...]
    geometry: str | None = None
    packing: dict[str, Any] | None = None
    chosen_by: Chooser | None = None


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one layer, or of a table that rows are gathered from.

    ``count``: the number of weights, stored in ``bytes`` with their scales, or in ``as_float32`` as such. Both sizes
    include the zeros that fill the last panels. ``layer``: the op's name in the model. ``kept``: why they are not of
    the requested type. ``input``: how the layer's input is rounded to bytes, if it is; ``input_kept``: why it is not,
    although that was requested.
    """

    step: str
    layer: str
    type: WeightType
    count: int
    bytes: int
    as_float32: int
    kept: str = ""
    input: Quantisation | None = None
    input_kept: str = ""


def list_layer_weights(program: Program, kept: Mapping[str, str] | None = None) -> tuple[LayerWeights, ...]:
    """List the weights of every layer and table, also inside loops and branches, in program order.

    ``kept``: by the layer's name, why a layer's input is not rounded although that was requested.
    """
    weights = []
    tables: set[tuple[str, int]] = set()
    for step in walk_steps(program.steps):
        if isinstance(step, LayerStep | RecurrentStep):
            weights.append(_describe_weights(step, kept or {}))
        elif isinstance(step, GatherStep) and (step.layer, step.table.offset) not in tables:
            tables.add((step.layer, step.table.offset))
            weights.append(_describe_table(step))
    return tuple(weights)


def _describe_table(step: GatherStep) -> LayerWeights:
    size = step.table.size + (step.weight_scale.size if step.weight_scale else 0)
    count = step.rows * step.width
    return LayerWeights(step.name, step.layer, step.weight_type, count, size, 4 * count, kept=step.kept)


def _describe_weights(step: LayerStep | RecurrentStep, kept: Mapping[str, str]) -> LayerWeights:
    size = sum(b.size for b in (step.weights, step.weight_scale, step.weight_sums) if b is not None)
    count = step.geometry.weights
    stored = step.weights.size // ITEM_SIZES[step.weight_type]
    if isinstance(step, LayerStep) and step.weight_type != "float32" and choose_algorithm(step.geometry) == "thin":
        stored = count  # thin layers have no panels to fill
    as_float32 = stored * ITEM_SIZES["float32"]
    why = "" if step.quantisation else kept.get(step.layer, "")
    return LayerWeights(
        step.name,
        step.layer,
        step.weight_type,
        count=count,
        bytes=size,
        as_float32=as_float32,
        kept=step.kept,
        input=step.quantisation,
        input_kept=why,
    )


@dataclass(frozen=True)
class WeightSizes:
    """Bytes of all constants in the library, as stored and as float32, and those of the layers by type."""

    bytes: int
    as_float32: int
    types: Mapping[str, int]

    @classmethod
    def from_layers(cls, total: int, layers: Iterable[LayerWeights]) -> WeightSizes:
        """Add up the ``layers`` of a program whose constants have ``total`` bytes."""
        types: dict[str, int] = {}
        saved = 0
        for layer in layers:
            types[layer.type] = types.get(layer.type, 0) + layer.bytes
            saved += layer.as_float32 - layer.bytes
        return cls(total, total + saved, types)

    @property
    def compressed_share(self) -> float:
        """Compressed layers' share of the bytes that all constants would have as float32."""
        kept = self.bytes - sum(size for kind, size in self.types.items() if kind != "float32")
        return 1 - kept / self.as_float32 if self.as_float32 else 0.0


@dataclass(frozen=True)
class LoweringReport:
    """A report on the lowering of a graph by the pipeline's attempt ``path``, which came to ``steps`` steps.

    ``reason``: why the optimised path was not possible, if it was requested. ``given_up``: the earlier attempts, and
    why each was not good enough. ``weights``: those of the layers. ``weights_size``: bytes of all constants.
    """

    path: str
    steps: int
    decisions: tuple[Decision, ...]
    reason: str = ""
    given_up: tuple[tuple[str, str], ...] = ()
    weights: tuple[LayerWeights, ...] = ()
    weights_size: int = 0

    @property
    def sizes(self) -> WeightSizes:
        """Sizes of all constants and of the layers."""
        return WeightSizes.from_layers(self.weights_size, self.weights)

    @property
    def compressed(self) -> bool:
        """True if any layer's weights are not float32."""
        return any(layer.type != "float32" for layer in self.weights)

    @property
    def geometries(self) -> frozenset[str]:
        """Geometry of every layer, as ``Geometry.label``."""
        return frozenset(d.geometry for d in self.decisions if d.geometry)

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest's ``lowering``."""
        return {
            "path": self.path,
            "steps": self.steps,
            "fused": len(self.decisions),
            "tuned": sum(d.chosen_by == "tuning" for d in self.decisions),
            "reason": self.reason or None,
            "given_up": [{"path": path, "because": why} for path, why in self.given_up],
            "weights": asdict(self.sizes)
            | {
                "compressed_share": round(self.sizes.compressed_share, 4),
                "layers": [{k: v for k, v in asdict(w).items() if v not in ("", None)} for w in self.weights],
            },
            "fused_steps": [{k: v for k, v in asdict(d).items() if v is not None} for d in self.decisions],
        }

    def save(self, path: Path) -> None:
        """Write the report as JSON, for ``load``."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> LoweringReport:
        """Load the report that ``save`` wrote."""
        return read_record(cls, json.loads(path.read_text(encoding="utf-8")))


def list_decisions(
    program: Program, notes: Iterable[StepInfo], tuned: Mapping[str, Algorithm] | None = None
) -> tuple[Decision, ...]:
    """List the decision for each fused step; ``notes`` are of all steps, ``tuned`` is a tuner's choice by geometry."""
    tuned = tuned or {}
    pairs: list[tuple[Step, StepInfo]] = []
    for step, note in zip(program.steps, notes, strict=True):
        pairs.append((step, note))
        if isinstance(step, CascadeStep):
            pairs += zip(step.layers, note.inside, strict=True)
    return tuple(_make_decision(step, note, tuned) for step, note in pairs if note.kind not in _NOT_FUSED)


def _make_decision(step: Step, note: StepInfo, tuned: Mapping[str, Algorithm]) -> Decision:
    if isinstance(step, CascadeStep):
        return Decision(note.name, note.kind, "", note.matched, packing={"rows": step.rows})
    if not isinstance(step, LayerStep):
        return Decision(note.name, note.kind, note.algorithm, note.matched)
    shape = step.geometry
    packing: dict[str, Any] = {"layout": LAYOUTS[step.algorithm], "panel": PANEL}
    if step.scratch is not None:
        packing["scratch"] = step.scratch.size
    if step.joined > 1:
        packing["joined"] = step.joined
    if step.algorithm in TILED:
        packing["band"] = choose_winograd_band(shape, step.algorithm)
    if step.algorithm == "thin":
        packing |= {
            "panel": min(THIN_CHANNELS, shape.out_channels // shape.groups),
            "block": list(choose_thin_block(shape)),
        }
    chooser: Chooser = "tuning" if tuned.get(shape.label) == step.algorithm else "rule"
    return Decision(note.name, note.kind, step.algorithm, note.matched, shape.label, packing, chosen_by=chooser)
