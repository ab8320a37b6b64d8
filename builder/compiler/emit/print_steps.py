"""The printing of steps as C: one function per sequence of steps, and one block per step."""

from __future__ import annotations

from builder.base.escape import escape_comment
from builder.compiler.emit.print_dense_end import format_dense_end
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Step, Steps


class Printer:
    """A printer that numbers functions as it prints them, innermost first, so that none needs a prototype.

    ``probed``: the numbers, by id(), of steps that call the probe when they begin.
    """

    def __init__(self, probed: dict[int, int]) -> None:
        self.functions: list[str] = []
        self.probed = probed

    def print_program(self, steps: Steps) -> str:
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
        blocks = [self.print_step(step) for step in steps]
        name = name or f"sequence_{len(self.functions)}"
        body = "".join(blocks) or "    (void)context;\n"
        if self.probed and name == "run_program":
            body += "    cf_step(context, CF_STEPS);\n"
        self.functions.append(f"static cf_status {name}(cf_context *context) {{\n{body}    return CF_OK;\n}}\n")
        return name

    def print_step(self, step: Step) -> str:
        calls = [f"cf_step(context, {self.probed[id(step)]});"] if self.probed else []
        lines = "\n".join(f"        {line}" for line in [*calls, *step.c_lines(self)])
        return f"    {{ /* {escape_comment(step.name)} */\n{lines}\n    }}\n"
