"""Print steps as C: one function per sequence of steps, one block per step."""

from __future__ import annotations

from typing import assert_never

from builder.emit.dense_end import dense_end_source
from builder.emit.fused import (
    attention_lines,
    cascade_lines,
    layer_lines,
    norm_lines,
    pool_lines,
    recurrent_lines,
    repack_lines,
)
from builder.emit.literals import float_literal, list_literal
from builder.escape import comment
from builder.lower.fused_steps import (
    AttentionStep,
    BroadcastStep,
    GatherStep,
    LayerStep,
    NormStep,
    PoolStep,
    RecurrentStep,
    RepackStep,
    RowStep,
)
from builder.lower.program import CallStep, CascadeStep, ConditionalStep, Program, Step, Steps, WhileStep
from builder.lower.steps import (
    Buffer,
    CombinedNmsStep,
    ConvolutionStep,
    CopyStep,
    DotStep,
    FftStep,
    KernelStep,
    NmsStep,
    RngStep,
    SortStep,
    TopKStep,
)

CF_DTYPES = {
    "float16": "CF_F16", "float32": "CF_F32", "float64": "CF_F64",
    "int8": "CF_S8", "int16": "CF_S16", "int32": "CF_S32", "int64": "CF_S64",
    "uint8": "CF_U8", "uint16": "CF_U16", "uint32": "CF_U32", "uint64": "CF_U64",
}  # fmt: skip
"""NumPy's dtype names to cf_dtype in runtime/ops/kernels.h."""


def _pointer(buffer: Buffer) -> str:
    if buffer.space == "feed":
        return f"FEED({buffer.offset}, {buffer.size}u)"
    return f"{buffer.space.upper()}({buffer.offset}u)"


class Printer:
    """Numbers the functions as it prints them, innermost first, so that none needs a prototype.

    ``probed``: step numbers by id(), of steps that tell when they begin.
    """

    def __init__(self, probed: dict[int, int]) -> None:
        self.functions: list[str] = []
        self.probed = probed

    def program(self, steps: Steps) -> str:
        self.function(steps, "run_program")
        return "\n".join(self.functions)

    def program_with_end(self, program: Program) -> str:
        """Of a program with a dense end that a batch in parts runs for all inputs."""
        first, end = program.dense_end or (0, 0)
        head = self.function(program.steps[:first], "run_head")
        tail = self.function(program.steps[end:], "run_tail")
        layers = "".join(map(self.step, program.steps[first:end]))
        body = f"    TRY({head}(context));\n{layers}    return {tail}(context);\n"
        self.functions.append(f"static cf_status run_program(cf_context *context) {{\n{body}}}\n")
        return "\n".join([*self.functions, dense_end_source(program, _pointer)])

    def function(self, steps: Steps, name: str | None = None) -> str:
        blocks = [self.step(step) for step in steps]
        name = name or f"sequence_{len(self.functions)}"
        body = "".join(blocks) or "    (void)context;\n"
        if self.probed and name == "run_program":
            body += "    cf_step(context, CF_STEPS);\n"
        self.functions.append(f"static cf_status {name}(cf_context *context) {{\n{body}    return CF_OK;\n}}\n")
        return name

    def step(self, step: Step) -> str:
        tell = [f"cf_step(context, {self.probed[id(step)]});"] if self.probed else []
        lines = "\n".join(f"        {line}" for line in [*tell, *self._lines(step)])
        return f"    {{ /* {comment(step.name)} */\n{lines}\n    }}\n"

    def _lines(self, step: Step) -> list[str]:
        match step:
            case KernelStep():
                return _kernel(step)
            case ConvolutionStep():
                return _convolution(step)
            case DotStep():
                return _dot(step)
            case CopyStep():
                return _copy(step)
            case SortStep():
                return _sort(step)
            case TopKStep():
                return [
                    f"static const cf_topk topk = {list_literal((step.batch, step.length, step.k))};",
                    f"cf_run_topk(&topk, (const float *){_pointer(step.values)}, "
                    f"(float *)ARENA({step.out_values.offset}u), (int32_t *)ARENA({step.out_indices.offset}u));",
                ]
            case FftStep():
                return _fft(step)
            case NmsStep():
                return _nms(step)
            case CombinedNmsStep():
                return _combined_nms(step)
            case RngStep():
                return [f"cf_advance_rng(context, {_pointer(step.state)}, {step.delta}u);"]
            case LayerStep():
                return layer_lines(step, _pointer)
            case PoolStep():
                return pool_lines(step, _pointer)
            case NormStep():
                return norm_lines(step, _pointer)
            case RecurrentStep():
                return recurrent_lines(step, _pointer)
            case AttentionStep():
                return attention_lines(step, _pointer)
            case RepackStep():
                return repack_lines(step, _pointer)
            case RowStep():
                return _row(step)
            case GatherStep():
                return _gather(step)
            case BroadcastStep():
                return _broadcast(step)
            case CascadeStep():
                return cascade_lines(step, _pointer, self.probed.get(id(step.layers[0])))
            case CallStep():
                return [f"TRY({self.function(step.body)}(context));"]
            case ConditionalStep():
                return self._conditional(step)
            case WhileStep():
                return self._while(step)
            case _:
                assert_never(step)

    def _conditional(self, step: ConditionalStep) -> list[str]:
        branches = [self.function(branch) for branch in step.branches]
        if step.index.size == 1:
            index = f"*(const uint8_t *){_pointer(step.index)} ? 0 : 1"
        else:
            index = f"*(const int32_t *){_pointer(step.index)}"
        last = len(branches) - 1
        lines = [f"const int32_t index = {index};", f"switch (index < 0 || index > {last} ? {last} : index) {{"]
        for number, branch in enumerate(branches):
            lines.append(f"case {number}: TRY({branch}(context)); break;")
        return [*lines, "}"]

    def _while(self, step: WhileStep) -> list[str]:
        body = self.function(step.body)
        if step.trip_count is not None:
            return [f"for (int64_t i = 0; i < {step.trip_count}; i++) TRY({body}(context));"]
        condition = self.function(step.condition)
        return [
            "for (;;) {",
            f"    TRY({condition}(context));",
            f"    if (!*(const uint8_t *){_pointer(step.predicate)}) break;",
            f"    TRY({body}(context));",
            "}",
        ]


def _kernel(step: KernelStep) -> list[str]:
    groups = ", ".join(str(n) for n in step.workgroups)
    if not step.buffers:
        return [f"TRY(cf_call_kernel(context, {step.kernel}, NULL, 0, {groups}));"]
    arguments = [f"    {{{_pointer(b)}, {b.size}u}}," for b in step.buffers]
    return [
        "const cf_kernel_argument arguments[] = {",
        *arguments,
        "};",
        f"TRY(cf_call_kernel(context, {step.kernel}, arguments, COUNT(arguments), {groups}));",
    ]


def _convolution(step: ConvolutionStep) -> list[str]:
    fields = {
        "dtype": CF_DTYPES[step.dtype],
        "spatial_rank": len(step.in_size),
        "batch": step.batch,
        "groups": step.groups,
        "in_channels": step.in_channels,
        "out_channels": step.out_channels,
        "in": list_literal(step.in_size),
        "out": list_literal(step.out_size),
        "kernel": list_literal(step.kernel_size),
        "stride": list_literal(step.stride),
        "pad_low": list_literal(step.pad_low),
        "base_dilation": list_literal(step.base_dilation),
        "window_dilation": list_literal(step.window_dilation),
        "reversed": list_literal(step.reversed),
        "in_batch": step.in_strides[0],
        "in_channel": step.in_strides[1],
        "in_spatial": list_literal(step.in_strides[2:]),
        "kernel_in": step.kernel_strides[0],
        "kernel_out": step.kernel_strides[1],
        "kernel_spatial": list_literal(step.kernel_strides[2:]),
        "out_batch": step.out_strides[0],
        "out_channel": step.out_strides[1],
        "out_spatial": list_literal(step.out_strides[2:]),
    }
    return [
        "static const cf_convolution convolution = {",
        *(f"    .{name} = {value}," for name, value in fields.items()),
        "};",
        f"cf_run_convolution(&convolution, {_pointer(step.input)}, {_pointer(step.kernel)}, {_pointer(step.output)});",
    ]


def _dot(step: DotStep) -> list[str]:
    sizes = list_literal((step.batch, step.m, step.n, step.k))[1:-1]
    strides = list_literal((*step.lhs_strides, *step.rhs_strides, *step.out_strides))[1:-1]
    return [
        f"static const cf_dot dot = {{{CF_DTYPES[step.dtype]}, {sizes}, {strides}}};",
        f"cf_call_dot(context, &dot, {_pointer(step.lhs)}, {_pointer(step.rhs)}, {_pointer(step.out)});",
    ]


def _copy(step: CopyStep) -> list[str]:
    dims = ", ".join(
        list_literal(d) for d in (step.dims or (1,), step.source_strides or (1,), step.target_strides or (1,))
    )
    return [
        f"static const cf_copy copy = {{{len(step.dims)}, {dims}, {step.item_size}}};",
        f"cf_run_copy(&copy, {_pointer(step.source)}, {_pointer(step.target)});",
    ]


def _fft(step: FftStep) -> list[str]:
    axes = ", ".join(list_literal((a.size, a.length, a.padded, a.tables, a.split)) for a in step.axes)
    return [
        f"static const cf_fft fft = {{CF_{step.kind}, {len(step.axes)}, {step.batch}, {{{axes}}}, "
        f"{step.lines}, {step.copy}}};",
        f"cf_run_fft(&fft, (const float *){_pointer(step.input)}, (const float *){_pointer(step.tables)}, "
        f"(float *){_pointer(step.output)}, (float *){_pointer(step.scratch)});",
    ]


def _nms(step: NmsStep) -> list[str]:
    numbers = ", ".join(float_literal(x) for x in (step.overlap, step.score, step.decay))
    return [
        f"static const cf_nms nms = {{{step.count}, {step.size}, {numbers}, {int(step.overlaps)}}};",
        f"cf_run_nms(&nms, (const float *){_pointer(step.boxes)}, (const float *){_pointer(step.scores)}, "
        f"(int32_t *){_pointer(step.indices)}, (float *){_pointer(step.kept)}, (int32_t *){_pointer(step.found)}, "
        f"{_pointer(step.scratch)});",
    ]


def _combined_nms(step: CombinedNmsStep) -> list[str]:
    sizes = (step.batch, step.count, step.box_classes, step.classes, step.per_class, step.size)
    numbers = f"{float_literal(step.overlap)}, {float_literal(step.score)}, {int(step.clip)}"
    return [
        f"static const cf_combined_nms nms = {{{list_literal(sizes)[1:-1]}, {numbers}}};",
        f"cf_run_combined_nms(&nms, (const float *){_pointer(step.boxes)}, (const float *){_pointer(step.scores)}, "
        f"(float *){_pointer(step.out_boxes)}, (float *){_pointer(step.out_scores)}, "
        f"(float *){_pointer(step.out_classes)}, (int32_t *){_pointer(step.found)}, {_pointer(step.scratch)});",
    ]


def _row(step: RowStep) -> list[str]:
    return [
        f"const int32_t index = *(const int32_t *){_pointer(step.index)};",
        f"const size_t row = index < 0 ? 0u : index < {step.count} ? (size_t)index : {step.count - 1}u;",
        f"__builtin_memcpy({_pointer(step.target)}, "
        f"(const uint8_t *){_pointer(step.source)} + row * {step.target.size}u, {step.target.size}u);",
    ]


def _gather(step: GatherStep) -> list[str]:
    kinds = f"CF_{step.weight_type.upper()}, {CF_DTYPES[step.index]}"
    numbers = list_literal((step.wide, step.negative, step.count, step.rows, step.width))[1:-1]
    scale = "NULL" if step.weight_scale is None else f"(const float *){_pointer(step.weight_scale)}"
    return [
        f"static const cf_gather gather = {{{kinds}, {numbers}}};",
        f"cf_run_gather(&gather, {_pointer(step.indices)}, {_pointer(step.table)}, {scale}, "
        f"(float *){_pointer(step.output)});",
    ]


def _broadcast(step: BroadcastStep) -> list[str]:
    other = step.other_strides or (0,) * len(step.dims)
    fields = ", ".join(list_literal(d) for d in (step.dims, step.source_strides, other, step.target_strides))
    pointer = "NULL" if step.other is None else _pointer(step.other)
    return [
        f"static const cf_broadcast broadcast = {{CF_BROADCAST_{step.op.upper()}, {fields}}};",
        f"cf_call_broadcast(context, &broadcast, {_pointer(step.source)}, {pointer}, {_pointer(step.target)});",
    ]


def _sort(step: SortStep) -> list[str]:
    pointers = ", ".join(_pointer(b) for b in step.buffers)
    head = f"{len(step.buffers)}, {step.outer}, {step.length}, {step.inner}"
    return [
        f"static const cf_sort sort = {{{head}, {list_literal(step.item_sizes)}}};",
        f"void *const data[] = {{{pointers}}};",
        f"cf_run_sort(&sort, {step.comparator}, data, ARENA({step.scratch.offset}u));",
    ]
