"""Non-maximum suppression of one list of boxes and of boxes by class: custom calls of coldforge's own."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import Buffer, Reads, Scratch, Step, StepPrinter, Writes
from builder.compiler.lower.steps.custom_call_step import CustomCall, reads_call, require_shapes
from builder.compiler.lower.steps.printing import format_float, format_list, format_pointer, format_pointers
from builder.importers.rewrites.custom_steps import COMBINED_NMS, NMS


@dataclass(frozen=True)
class NmsStep(Step):
    """Non-maximum suppression of ``count`` boxes, or of their ``overlaps``; see ``cf_nms`` in runtime/ops/kernels.h."""

    boxes: Reads[Buffer]
    scores: Reads[Buffer]
    indices: Writes[Buffer]
    kept: Writes[Buffer]
    total: Writes[Buffer]
    count: int
    size: int
    overlap: float
    score: float
    decay: float
    overlaps: bool
    scratch: Scratch[Buffer]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        numbers = ", ".join(format_float(x) for x in (self.overlap, self.score, self.decay))
        pointers = format_pointers(
            ("const float", self.boxes), ("const float", self.scores), ("int32_t", self.indices), ("float", self.kept),
            ("int32_t", self.total),
        )  # fmt: skip
        return [
            f"static const cf_nms nms = {{{self.count}, {self.size}, {numbers}, {int(self.overlaps)}}};",
            f"cf_run_nms(&nms, {pointers}, {format_pointer(self.scratch)});",
        ]


@dataclass(frozen=True)
class CombinedNmsStep(Step):
    """Non-maximum suppression for each class; see ``cf_combined_nms`` in runtime/ops/kernels.h."""

    boxes: Reads[Buffer]
    scores: Reads[Buffer]
    out_boxes: Writes[Buffer]
    out_scores: Writes[Buffer]
    out_classes: Writes[Buffer]
    total: Writes[Buffer]
    batch: int
    count: int
    box_classes: int
    classes: int
    per_class: int
    size: int
    overlap: float
    score: float
    clip: bool
    scratch: Scratch[Buffer]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        sizes = (self.batch, self.count, self.box_classes, self.classes, self.per_class, self.size)
        numbers = f"{format_float(self.overlap)}, {format_float(self.score)}, {int(self.clip)}"
        pointers = format_pointers(
            ("const float", self.boxes), ("const float", self.scores), ("float", self.out_boxes),
            ("float", self.out_scores), ("float", self.out_classes), ("int32_t", self.total),
        )  # fmt: skip
        return [
            f"static const cf_combined_nms nms = {{{format_list(sizes)[1:-1]}, {numbers}}};",
            f"cf_run_combined_nms(&nms, {pointers}, {format_pointer(self.scratch)});",
        ]


@reads_call(NMS, ("float32", "float32", "int32", "float32", "int32"))
def _read_nms(call: CustomCall) -> NmsStep:
    boxes, scores = call.inputs
    (count,), (size,) = scores.dims, call.outputs[0].dims
    overlaps = bool(call.config["overlaps"])
    require_shapes(boxes.dims == (count, count if overlaps else 4))
    indices, kept, total = call.outputs
    require_shapes((indices.dims, kept.dims, total.dims) == ((size,), (size,), ()))
    return NmsStep(
        call.name,
        boxes.buffer,
        scores.buffer,
        indices.buffer,
        kept.buffer,
        total.buffer,
        count=count,
        size=size,
        overlap=float(call.config["overlap"]),
        score=float(call.config["score"]),
        decay=float(call.config["decay"]),
        overlaps=overlaps,
        scratch=call.scratch(12 * count + 20 * min(size, count)),
    )


@reads_call(COMBINED_NMS, ("float32", "float32", "float32", "float32", "float32", "int32"))
def _read_combined_nms(call: CustomCall) -> CombinedNmsStep:
    boxes, scores = call.inputs
    batch, count, classes = scores.dims
    _, size, _ = call.outputs[0].dims
    per_class = int(call.config["per_class"])
    require_shapes(boxes.dims in ((batch, count, 1, 4), (batch, count, classes, 4)) and 0 <= per_class <= count)
    out_boxes, out_scores, out_classes, totals = call.outputs
    require_shapes((out_boxes.dims, totals.dims) == ((batch, size, 4), (batch,)))
    require_shapes((out_scores.dims, out_classes.dims) == ((batch, size), (batch, size)))
    return CombinedNmsStep(
        call.name,
        boxes.buffer,
        scores.buffer,
        out_boxes.buffer,
        out_scores.buffer,
        out_classes.buffer,
        total=totals.buffer,
        batch=batch,
        count=count,
        box_classes=boxes.dims[2],
        classes=classes,
        per_class=per_class,
        size=size,
        overlap=float(call.config["overlap"]),
        score=float(call.config["score"]),
        clip=bool(call.config["clip"]),
        scratch=call.scratch(8 * count + (16 * classes + 20) * per_class),
    )
