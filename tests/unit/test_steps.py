"""What a step declares, held against the C that it prints and the prototypes of the runtime's functions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builder.compiler.emit.print_steps import Printer
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer, Step, walk_steps
from builder.compiler.lower.steps.control_step import CallStep
from builder.compiler.lower.steps.thunk_reader import load_thunk_readers
from builder.measure.html_report.report_data import trace_memory_flow
from tests.support.every_step import EVERY_STEP, FUSED_STEPS, KERNEL, arena

RUNTIME = Path(__file__).resolve().parents[2] / "builder" / "runtime"
HEADERS = "\n".join(
    re.sub(r"/\*.*?\*/", "", (RUNTIME / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    for name in ("ops/kernels.h", "abi/program.h", "fused/fused.h", "trees/trees.h")
)
ALL = walk_steps((*EVERY_STEP.steps, *FUSED_STEPS))

Place = tuple[str, int]


def kinds(base: type[Step] = Step) -> set[type[Step]]:
    """Every kind of step that the builder has."""
    load_thunk_readers()  # imports their modules
    found = {kind for one in base.__subclasses__() for kind in (one, *kinds(one))}
    return {kind for kind in found if kind.__module__.startswith("builder.")}


def name_of(step: Step) -> str:
    return f"{type(step).__name__}-{step.name}"


def places(buffers: Iterable[Buffer]) -> set[Place]:
    return {(buffer.space.upper(), buffer.offset) for buffer in buffers}


def addresses(text: str) -> set[Place]:
    return {(space, int(offset)) for space, offset in re.findall(r"(ARENA|WEIGHTS)\((\d+)u\)", text)}


def printed(step: Step) -> str:
    return " ".join(step.c_lines(Printer({})))


def test_there_is_a_step_of_every_kind() -> None:
    assert {type(step) for step in ALL} == kinds()


@pytest.mark.parametrize("step", ALL, ids=name_of)
def test_what_the_c_touches_is_declared(step: Step) -> None:
    """The step's own memory, and in a cascade that of its layers."""
    touched, own = addresses(printed(step)), places(step.buffers)
    assert touched <= places(buffer for one in walk_steps((step,)) for buffer in one.buffers)
    assert own <= touched or getattr(step, "trip_count", None)  # a counted loop reads no predicate


def constant_pointers(text: str) -> dict[Place, bool]:
    """Whether each address is given to a pointer to const: a parameter of a function, or a field of a structure."""
    found: dict[Place, bool] = {}
    for function, values in re.findall(r"\b(cf_(?:run|call)_\w+)\((?:context, )?(&\w+, [^;]*)\);", text):
        (declared,) = re.findall(rf"\b{function}\(([^)]*)\);", HEADERS)
        parameters = [one.strip() for one in declared.split(",") if "cf_context" not in one]
        for parameter, value in zip(parameters, values.split(", "), strict=True):
            found |= {place: parameter.startswith("const ") for place in addresses(value)}
    for kind, values in re.findall(r"const (cf_\w+_data) data(?:\[\])? = \{(.*?)\};", text):
        (body,) = re.findall(rf"struct \{{([^}}]*)\}} {kind};", HEADERS)
        lines = [one.strip() for one in body.split(";")]
        fields = {name: line.startswith("const ") for line in lines for name in re.findall(r"\*(\w+)", line)}
        for name, value in re.findall(r"\.(\w+) = ([^,]*)", values):
            found |= dict.fromkeys(addresses(value), fields[name])
    return found


CALLS = [step for step in ALL if constant_pointers(printed(step)) and not step.bodies]


@pytest.mark.parametrize("step", CALLS, ids=name_of)
def test_what_the_runtime_may_write_is_declared_so(step: Step) -> None:
    """The prototypes of the runtime say so on their own."""
    written = places((*step.writes, *step.scratch_buffers))
    for place, is_constant in constant_pointers(printed(step)).items():
        assert is_constant == (place not in written), place


@pytest.mark.parametrize("step", ALL, ids=name_of)
def test_the_report_has_the_edges_of_every_step(step: Step) -> None:
    """From what makes anything that it reads, and to what reads anything that it leaves."""
    for one in walk_steps((step,)):
        for buffer in one.reads:
            made = replace(KERNEL, arguments=(), results=(buffer,))
            assert ((0, 1) in edges(made, step)) == (buffer.space == "arena")
        for buffer in one.writes:
            assert (0, 1) in edges(step, replace(KERNEL, arguments=(buffer,), results=()))


def edges(*steps: Step) -> Iterable[tuple[int, int]]:
    return trace_memory_flow(Program(steps, (), (), (), 0, 0)).edges


def test_a_field_that_does_not_say_how_it_is_used_is_an_error() -> None:
    @dataclass(frozen=True)
    class Forgetful(CallStep):
        target: Buffer

    with pytest.raises(TypeError):
        assert Forgetful("forgetful", (), arena(0, 4)).reads
