"""A program of torch.export as a JAX function: torchax's operators, and ours where they are faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.export.graph_signature import InputKind

from builder.frameworks.operators import decompositions, improve
from builder.frameworks.overloads import import_torchax

_STATES = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def as_jax(program: Any) -> Callable[..., list[Any]]:
    """The function of its feeds that gives its fetches; weights are constants in it."""
    torchax = import_torchax()
    program = program.run_decompositions(decompositions())
    program = program.run_decompositions(torchax.decompositions.DECOMPOSITIONS)
    environment = torchax.torchax.default_env()  # which also fills the table of operators
    improve(torchax.ops_registry.all_aten_ops, torchax.ops_registry.Operator)
    states = environment.t2j_copy(_states(program))

    def function(*feeds: Any) -> list[Any]:
        return list(torchax.JaxInterpreter(program.graph_module).run(*states, *feeds, enable_io_processing=False))

    return function


def _states(program: Any) -> Sequence[Any]:
    """Parameters, buffers and constants, in the order in which the graph takes them, before its feeds."""
    held = {**program.state_dict, **program.constants}
    return [held[spec.target] for spec in program.graph_signature.input_specs if spec.kind in _STATES]
