"""The printing of steps as C: one function per sequence of steps, one block per step, and the dense end of a batch."""

from __future__ import annotations

import itertools
from dataclasses import replace

from builder.base.escape import escape_comment
from builder.compiler.lower.buffers import SLACK
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Step, Steps, View, align_offset
from builder.compiler.lower.steps.layer_step import LayerStep


def format_dense_end(program: Program) -> str:
    """Format ``dense_end``, whose head and tail are ``run_head`` and ``run_tail``; "" where ``program`` has none."""
    layers = _list_layers(program)
    if not layers:
        return ""
    blocks, before = [], _list_offsets(layers)
    for step, (source, target) in zip(layers, itertools.pairwise(before), strict=True):
        all_inputs = (
            _view_images(step.input, step.geometry.in_channels),
            _view_images(step.stored, step.geometry.out_channels),
        )
        lines = replace(step, input=all_inputs[0], output=all_inputs[1]).shared_c_lines(
            {"input": f"values + inputs * {source}u", "output": f"values + inputs * {target}u"}
        )
        blocks += [f"    {{ /* {escape_comment(step.name)} */", *(f"        {line}" for line in lines), "    }"]
    first, last = layers[0].input, layers[-1].stored
    ends = (first.buffer.offset + 4 * first.first, before[1], last.buffer.offset + 4 * last.first)
    sizes = (*ends, 4 * layers[-1].geometry.out_channels, before[-1])
    return "\n".join(
        [
            "static void run_dense_end(cf_context *context, size_t inputs, uint8_t *values) {",
            *blocks,
            "}\n",
            "static const cf_dense_end dense_end = {",
            f"    run_head, run_tail, run_dense_end, {', '.join(f'{size}u' for size in sizes)},",
            "};\n",
        ]
    )


def get_values_offset(program: Program) -> int:
    """Return the offset in the arena of a dense end's values, after the memory of one part."""
    return align_offset(program.arena_size)


def compute_arena_size(program: Program) -> int:
    """Compute the bytes of the arena, including those for all inputs of a batch in parts."""
    layers = _list_layers(program) if program.parts else ()
    if not layers:
        return program.arena_size
    input_size = _list_offsets(layers)[-1] + 4 * layers[-1].geometry.out_channels
    return get_values_offset(program) + program.parts * input_size + SLACK


def _list_layers(program: Program) -> tuple[LayerStep, ...]:
    first, end = program.dense_end or (0, 0)
    return tuple(step for step in program.steps[first:end] if isinstance(step, LayerStep))


def _list_offsets(layers: tuple[LayerStep, ...]) -> list[int]:
    """List the offsets of an input's values, in bytes: what each layer reads, and then what the last one writes."""
    return list(itertools.accumulate((4 * step.geometry.in_channels for step in layers), initial=0))


def _view_images(view: View, channels: int) -> View:
    """View all inputs' values as images of one pixel each."""
    return View(view.buffer, 0, channels, channels, channels)


class Printer:
    """A printer that numbers functions as it prints them, innermost first, so that none needs a prototype.

    ``probed``: the numbers, by id(), of steps that call the probe when they begin.
    """

    def __init__(self, probed: dict[int, int]) -> None:
        self.functions: list[str] = []
        self.probed = probed

    def print_program(self, steps: Steps) -> str:
        """Print the functions of a program without a dense end."""
        self.print_function(steps, "run_program")
        return "\n".join(self.functions)

    def print_with_dense_end(self, program: Program) -> str:
        """Print a program with a dense end that a batch in parts runs for all inputs."""
        first, end = program.dense_end or (0, 0)
        head = self.print_function(program.steps[:first], "run_head")
        tail = self.print_function(program.steps[end:], "run_tail")
        layers = "".join(map(self.print_step, program.steps[first:end]))
        body = f"    TRY({head}(context));\n{layers}    return {tail}(context);\n"
        self.functions.append(f"static cf_status run_program(cf_context *context) {{\n{body}}}\n")
        return "\n".join([*self.functions, format_dense_end(program)])

    def print_function(self, steps: Steps, name: str | None = None) -> str:
        """Print a function that runs ``steps``, and return its name."""
        blocks = [self.print_step(step) for step in steps]
        name = name or f"sequence_{len(self.functions)}"
        body = "".join(blocks) or "    (void)context;\n"
        if self.probed and name == "run_program":
            body += "    cf_step(context, CF_STEPS);\n"
        self.functions.append(f"static cf_status {name}(cf_context *context) {{\n{body}    return CF_OK;\n}}\n")
        return name

    def print_step(self, step: Step) -> str:
        """Print the block of one step."""
        calls = [f"cf_step(context, {self.probed[id(step)]});"] if self.probed else []
        lines = "\n".join(f"        {line}" for line in [*calls, *step.c_lines(self)])
        return f"    {{ /* {escape_comment(step.name)} */\n{lines}\n    }}\n"
