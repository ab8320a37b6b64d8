"""A .tflite graph as a JAX function of its feeds.

Tensors hold what they hold in LiteRT, so a quantised one is an array of integers. An operator of ``integers``
computes with these; any other one gets the numbers that they stand for, and its result is rounded to the grid of its
output. What is known when the model is converted is a NumPy array and is computed here. A resource is the name of a
variable. The states of recurrent operators are variables too, known by their tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.importers.frameworks.graph_values import is_known
from builder.importers.frameworks.tflite.integers import find_integer_operator
from builder.importers.frameworks.tflite.integers.integer_moves import MOVES, has_one_grid
from builder.importers.frameworks.tflite.ops import OPERATORS, REFUSED
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

_VARIABLE_OPERATORS = ("READ_VARIABLE", "ASSIGN_VARIABLE")
_READ = {"CALL_ONCE", "VAR_HANDLE", *_VARIABLE_OPERATORS, *(name for _, name in OPERATORS)}

Variable = str | Tensor
"""The name of a resource, or the tensor that is a state of a recurrent operator."""


@dataclass(frozen=True, eq=False)
class TfliteOperator:
    """An operator of a subgraph: its name in the file, its options, and the numbers of its tensors (-1: none)."""

    name: str
    options: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TfliteSubgraph:
    """A function of a file; ``inputs`` and ``outputs`` are numbers of ``tensors``."""

    tensors: tuple[Tensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def states(self) -> dict[int, Tensor]:
        """The states of recurrent operators, by their numbers."""
        return {i: tensor for i, tensor in enumerate(self.tensors) if tensor.is_variable}


@dataclass(frozen=True, eq=False)
class TfliteGraph:
    """All functions of a file; the first is the model."""

    subgraphs: tuple[TfliteSubgraph, ...]

    def run(self, feeds: Sequence[Any], variables: dict[Variable, Any], number: int = 0) -> list[Any]:
        """Return the outputs of subgraph ``number`` for ``feeds``; what it writes is in ``variables`` then.

        Raises ImportModelError.
        """
        graph = self.subgraphs[number]
        values: dict[int, Any] = {i: tensor.data for i, tensor in enumerate(graph.tensors) if tensor.data is not None}
        values |= dict(zip(graph.inputs, feeds, strict=True))
        values |= {i: variables.get(tensor, tensor.data) for i, tensor in graph.states.items()}
        for operator in graph.operators:
            try:
                results = self._run_operator(operator, graph.tensors, values, variables)
            except ImportModelError:
                raise
            except Exception as error:
                makes = "".join(f", which makes {graph.tensors[i].name!r}" for i in operator.outputs[:1])
                raise ImportModelError(f"{operator.name}{makes}: {describe_error(error)}") from error
            states = [i for i in operator.inputs if i in graph.states]
            values |= dict(zip([*operator.outputs, *states], results, strict=False))
        variables |= {tensor: values[i] for i, tensor in graph.states.items()}
        return [values[i] for i in graph.outputs]

    def list_unsupported(self) -> dict[str, str]:
        """Return the names of the operators that cannot be read, with the reason ("" if there is no special one)."""
        names = sorted({operator.name for graph in self.subgraphs for operator in graph.operators} - _READ)
        return {name: REFUSED.get(name, "") for name in names}

    def read_variables(self, number: int) -> dict[Variable, Any]:
        """Return the values that variables have before the first run of subgraph ``number``."""
        variables: dict[Variable, Any] = {state: state.data for state in self.subgraphs[number].states.values()}
        for operator in self.subgraphs[number].operators:
            if operator.name == "CALL_ONCE":
                for once in list_subgraphs(operator.options):
                    self.run((), variables, once)
        return variables

    def list_written(self, number: int) -> list[Variable]:
        """Return the variables that subgraph ``number`` writes; all, if it writes in a branch or loop."""
        operators = self.subgraphs[number].operators
        if any(self._have_variables(_list_called(item), ("ASSIGN_VARIABLE",)) for item in operators):
            return list(self.read_variables(number))
        handles = {i: _name_variable(item) for item in operators if item.name == "VAR_HANDLE" for i in item.outputs}
        written = {handles.get(i) for item in operators if item.name == "ASSIGN_VARIABLE" for i in item.inputs[:1]}
        return [*sorted(name for name in written if name is not None), *self.subgraphs[number].states.values()]

    def _have_variables(self, numbers: Sequence[int], names: Sequence[str]) -> bool:
        """Say whether operators of these names are in subgraphs, or in those that these call."""
        return any(item.name in names for graph in self._list_reached(numbers) for item in graph.operators)

    def _list_reached(self, numbers: Sequence[int]) -> list[TfliteSubgraph]:
        """Return subgraphs and those that they call."""
        graphs = [self.subgraphs[number] for number in numbers]
        called = [number for graph in graphs for item in graph.operators for number in _list_called(item)]
        return [*graphs, *(self._list_reached(called) if called else ())]

    def _run_operator(
        self,
        operator: TfliteOperator,
        tensors: Sequence[Tensor],
        values: Mapping[int, Any],
        variables: dict[Variable, Any],
    ) -> Sequence[Any]:
        """Return the values of the outputs, and then the new ones of the states that are among the inputs."""
        inputs = [None if i < 0 else tensors[i] for i in operator.inputs]
        outputs = [tensors[i] for i in operator.outputs]
        stored = [None if i < 0 else values[i] for i in operator.inputs]
        match operator.name:
            case "CALL_ONCE":  # ``read_variables`` has run it.
                return ()
            case "VAR_HANDLE":
                return [_name_variable(operator)]
            case "READ_VARIABLE":
                if stored[0] not in variables:
                    raise ImportModelError(f"The model reads the variable {stored[0]!r} before it has a value.")
                return [variables[str(stored[0])]]
            case "ASSIGN_VARIABLE":
                variables[str(stored[0])] = stored[1]
                return ()
        called = _list_called(operator)
        kept = dict(variables) if self._have_variables(called, _VARIABLE_OPERATORS) else {}
        for graph in self._list_reached(called):  # A branch or a loop begins with states of its own.
            kept |= {state: state.data for state in graph.states.values()}
        stored += kept.values()
        run = functools.partial(self._run_called, list(kept))
        if not is_known(*stored):
            results = self._compute(operator, inputs, outputs, stored, run)
        else:
            with jax.ensure_compile_time_eval():
                results = [np.asarray(value) for value in self._compute(operator, inputs, outputs, stored, run)]
        if not kept:
            return results
        new = zip(kept, results[len(outputs) :], strict=True)
        variables |= {variable: value for variable, value in new if variable in variables}
        return results[: len(outputs)]

    def _run_called(self, kept: Sequence[Variable], number: int, values: Sequence[Any]) -> list[Any]:
        """Run a subgraph for an operator, which passes the variables ``kept`` after the inputs and outputs."""
        count = len(values) - len(kept)
        variables = dict(zip(kept, values[count:], strict=True))
        return [*self.run(values[:count], variables, number), *map(variables.__getitem__, kept)]

    def _compute(
        self,
        operator: TfliteOperator,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        stored: Sequence[Any],
        run: Callable[..., Any],
    ) -> Sequence[Any]:
        integer = find_integer_operator(operator.name, inputs, outputs)
        if integer is not None:
            return _list(integer(operator.options, inputs, outputs[0], *stored))
        entry = OPERATORS["", operator.name]
        context = {"outputs": outputs, "run": run}
        keys = {name: context[name] for name in entry.context}
        if "run" in keys:
            return list(_list(entry.compute(operator.options, *stored, **keys)))
        if operator.name in MOVES and has_one_grid([*inputs, *outputs]):
            results = _list(entry.compute(operator.options, *stored, **keys))
            return [_cast(value, tensor) for tensor, value in zip(outputs, results, strict=False)]
        real = [
            value if tensor is None else tensor.to_real(value) for tensor, value in zip(inputs, stored, strict=True)
        ]
        results = _list(entry.compute(operator.options, *real, **keys))
        targets = [*outputs, *(tensor for tensor in inputs if tensor is not None and tensor.is_variable)]
        return [tensor.to_stored(_cast(value, tensor)) for tensor, value in zip(targets, results, strict=False)]


def _name_variable(handle: TfliteOperator) -> str:
    return str((getattr(handle.options, "sharedName", None) or b"").decode(errors="replace"))


def list_subgraphs(options: Any) -> list[int]:
    """Return the numbers of the subgraphs that the options of an operator name."""
    keys = [key for key in getattr(options, "__dict__", {}) if "SubgraphInd" in key]
    return [int(number) for key in keys for number in np.atleast_1d(getattr(options, key))]


def _list_called(operator: TfliteOperator) -> list[int]:
    """Return the numbers of the subgraphs that are part of an operator; CALL_ONCE only has one run before."""
    return list_subgraphs(operator.options) if operator.name != "CALL_ONCE" else []


def _list(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else [result]


def _cast(value: Any, tensor: Tensor) -> Any:
    """Return ``value`` in the type of an output that holds plain numbers."""
    if tensor.is_quantised or tensor.dtype is None or value.dtype == tensor.dtype:
        return value
    return value.astype(tensor.dtype)
