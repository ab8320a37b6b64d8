"""Converts a program of torch.export to a JAX function, with torchax's operators and our own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import torch
from torch import _ops
from torch.export.graph_signature import InputKind

from builder.importers.frameworks.torch_operators import improve_operators, make_decompositions

_STATES = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def convert_to_jax(program: Any) -> Callable[..., list[Any]]:
    """Return the function from the program's feeds to its fetches, with weights as constants."""
    torchax = _import_torchax()
    program = program.run_decompositions(make_decompositions())
    program = program.run_decompositions(torchax.decompositions.DECOMPOSITIONS)
    environment = torchax.torchax.default_env()  # This also fills the table of operators.
    improve_operators(torchax.ops_registry.all_aten_ops, torchax.ops_registry.Operator)
    values = {**program.state_dict, **program.constants}
    inputs = program.graph_signature.input_specs  # Parameters, buffers and constants are before the feeds.
    states = environment.t2j_copy([values[spec.target] for spec in inputs if spec.kind in _STATES])

    class Interpreter(torchax.JaxInterpreter):  # type: ignore[misc, name-defined]
        def run_node(self, node: Any) -> Any:
            return _in_declared_type(super().run_node(node), node.meta.get("val"))

    def function(*feeds: Any) -> list[Any]:
        return list(Interpreter(program.graph_module).run(*states, *feeds, enable_io_processing=False))

    return function


def _in_declared_type(value: Any, declared: Any) -> Any:
    """Return ``value`` of a node in PyTorch's type if JAX's rules of promotion gave another one."""
    if isinstance(declared, (tuple, list)) and isinstance(value, (tuple, list)):
        return [_in_declared_type(item, other) for item, other in zip(value, declared, strict=False)]
    if isinstance(declared, torch.Tensor) and isinstance(value, jax.Array):
        return value.astype(str(declared.dtype).removeprefix("torch."))
    return value


class _AbsentOperator:
    """A placeholder for an operator that this PyTorch does not have: it can be named, but not called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, part: str) -> _AbsentOperator:
        if part.startswith("__"):
            raise AttributeError(part)
        return _AbsentOperator(f"{self.name}.{part}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"PyTorch has no {self.name}.")


def _import_torchax() -> Any:
    """Import and return the module ``torchax.export``.

    torchax makes its table of operators when it is imported, and its last release (0.0.13) names overloads that PyTorch
    has dropped since, all of named tensors. A program that was exported by this PyTorch cannot have one of those.
    """
    with _name_absent(_ops.OpOverloadPacket), _name_absent(_ops._OpNamespace):
        return importlib.import_module("torchax.export")


@contextmanager
def _name_absent(kind: Any) -> Iterator[None]:
    """Give an ``_AbsentOperator`` in place of an AttributeError for missing names of a ``kind``, in this context."""
    own: Callable[[Any, str], Any] = kind.__getattr__

    def lenient(self: Any, name: str) -> Any:
        try:
            return own(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return _AbsentOperator(f"{self}.{name}")

    kind.__getattr__ = lenient
    try:
        yield
    finally:
        kind.__getattr__ = own
