"""Places in the arena and the weights, and batches, for programs that a test puts together by hand."""

from __future__ import annotations

from dataclasses import replace

from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.microbatch import make_batch_program
from builder.compiler.lower.program import BoundPort, Program, Weight
from builder.compiler.lower.steps.base import Buffer, View, align_offset
from builder.config.tensor import TensorSpec
from builder.importers.graph import GraphPort


class Places:
    """Hands out 64-byte aligned places in the arena and the weights."""

    def __init__(self) -> None:
        self.arena, self.weights, self.constants = 0, 0, list[Weight]()

    def buffer(self, size: int) -> Buffer:
        found = Buffer("arena", self.arena, size)
        self.arena += align_offset(size)
        return found

    def picture(self, side: int, halo: int, channels: int) -> View:
        width = side + 2 * halo
        buffer = self.buffer(4 * width * width * channels)
        return View(buffer, (halo * width + halo) * channels, width * width * channels, width * channels, channels)

    def constant(self, data: bytes) -> Buffer:
        found = Buffer("weights", self.weights, len(data))
        self.constants.append(Weight(self.weights, data))
        self.weights += align_offset(len(data))
        return found


def batch_of(program: Program, parts: int) -> Program:
    """``program``, which is for one input, run for each of so many."""

    def of_all(ports: tuple[BoundPort, ...]) -> list[GraphPort]:
        return [GraphPort(replace(port.spec, shape=(parts, *port.spec.shape[1:])), "") for port in ports]

    return make_batch_program(program, of_all(program.feeds), of_all(program.fetches), parts)


def ports_of(dag: Dag) -> tuple[tuple[BoundPort, ...], tuple[BoundPort, ...]]:
    """The feeds and fetches of a graph that a test wrote, in no place yet."""

    def port(name: str, value: Value) -> BoundPort:
        spec = TensorSpec(name, value.dtype, value.dims)
        return BoundPort(spec, Buffer("arena", 0, spec.size))

    feeds = tuple(port(f"x{i}", value) for i, value in sorted(dag.parameters.items()))
    return feeds, tuple(port(f"y{i}", value) for i, value in enumerate(dag.outputs))
