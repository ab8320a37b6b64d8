"""A program of torch.export as a JAX function: torchax's operators, and ours where these are missing or slower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import torch
from torch.export.graph_signature import InputKind

from builder.importers.frameworks.torch_operators import improve_operators, make_decompositions
from builder.importers.frameworks.torch_overloads import import_torchax

_STATES = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def convert_to_jax(program: Any) -> Callable[..., list[Any]]:
    """The function of its feeds that gives its fetches; weights are constants in it."""
    torchax = import_torchax()
    program = program.run_decompositions(make_decompositions())
    program = program.run_decompositions(torchax.decompositions.DECOMPOSITIONS)
    environment = torchax.torchax.default_env()  # which also fills the table of operators
    improve_operators(torchax.ops_registry.all_aten_ops, torchax.ops_registry.Operator)
    states = environment.t2j_copy(_list_states(program))

    class Interpreter(torchax.JaxInterpreter):  # type: ignore[misc, name-defined]
        def run_node(self, node: Any) -> Any:
            return _in_declared_type(super().run_node(node), node.meta.get("val"))

    def function(*feeds: Any) -> list[Any]:
        return list(Interpreter(program.graph_module).run(*states, *feeds, enable_io_processing=False))

    return function


def _in_declared_type(value: Any, declared: Any) -> Any:
    """``value`` of a node in the type that PyTorch has for it, where JAX's rules of promotion gave another."""
    if isinstance(declared, (tuple, list)) and isinstance(value, (tuple, list)):
        return [_in_declared_type(one, other) for one, other in zip(value, declared, strict=False)]
    if isinstance(declared, torch.Tensor) and isinstance(value, jax.Array):
        return value.astype(str(declared.dtype).removeprefix("torch."))
    return value


def _list_states(program: Any) -> Sequence[Any]:
    """Parameters, buffers and constants, in the order in which the graph takes them, before its feeds."""
    held = {**program.state_dict, **program.constants}
    return [held[spec.target] for spec in program.graph_signature.input_specs if spec.kind in _STATES]
