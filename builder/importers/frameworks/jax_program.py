"""A JAX function as a StableHLO program of static shapes, whose weights are arguments.

JAX writes an array that a function closes over into the program, as a constant. As arguments, weights are constants of
the graph instead: they get names, are counted and rounded as those of any other model, and are moved by one ulp where
the sensitivity of an answer is measured.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import export
from jax._src.interpreters.mlir import make_ir_context, refine_polymorphic_shapes
from jax.extend.mlir import serialize_portable_artifact
from jaxlib.mlir import ir

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.importers.frameworks.lapack import replace_lapack
from builder.importers.frameworks.one_hot_inputs import count_symbols
from builder.importers.frameworks.runtime_steps import call_decompositions, call_steps
from builder.importers.loaded import Shape
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.stablehlo import STABLEHLO
from builder.importers.stablehlo_program import RuntimeProgram, StableHloProgram

SMALLEST = 16
"""The least number of elements of a weight; smaller constants are mostly thresholds and paddings."""

_DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i32": np.int32, "i64": np.int64}
_CONSTANT = "stablehlo.constant"


def make_program(
    function: Callable[..., Sequence[Any]], ports: ModelPorts, shapes: Mapping[str, Shape], states: Mapping[str, Array]
) -> StableHloProgram:
    """Return the program of ``function``, which has the ``ports`` and ``states``, for feeds of ``shapes``.

    Raises ImportModelError if the function does not accept them.
    """
    feeds = [jax.ShapeDtypeStruct(shapes[port.name], port.dtype) for port in ports.feeds]
    feeds += [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in states.values()]
    try:
        function, known = _take_weights(function, feeds)
        arguments = [*feeds, *(jax.ShapeDtypeStruct(value.shape, value.dtype) for value in known)]
        exported = export.export(jax.jit(function, keep_unused=True), platforms=["cpu"])(*arguments)
        jax.clear_caches()  # They hold constants, and so do reference cycles.
        gc.collect()
        module = _refine_module(exported)
        symbols = count_symbols(_find_main(module), partial(_read_value, len(feeds), known))
        runtime = _refine_module(exported) if call_decompositions(module) else None
        weights = hoist_weights(module, known)
        serialized = serialize_portable_artifact(module, STABLEHLO)
        steps = _make_runtime_program(runtime, known) if runtime else None
    except Exception as error:
        raise ImportModelError(
            f"The model cannot be written as a program for {dict(shapes)}: {describe_error(error)}"
        ) from error
    return StableHloProgram(
        serialized,
        exported.calling_convention_version,
        {f"weight_{i}": value for i, value in enumerate(weights)},
        ports,
        _make_static(ports.feeds, exported.in_avals),
        _make_static(ports.fetches, exported.out_avals),
        {port.name: symbols[number] for number, port in enumerate(ports.feeds) if number in symbols},
        states,
        steps,
    )


def _take_weights(
    function: Callable[..., Sequence[Any]], feeds: Sequence[Any]
) -> tuple[Callable[..., Sequence[Any]], list[Array]]:
    """Return ``function`` with the weights that it closes over as further arguments, and these weights.

    No program holds a copy of them then. Those of functions that it calls may remain.
    """
    closed = jax.make_jaxpr(function)(*feeds)
    weights = {number: value for number, value in enumerate(map(np.asarray, closed.consts)) if _is_weight(value)}

    def call_with_weights(*arguments: Any) -> Any:
        constants = dict(enumerate(closed.consts)) | dict(zip(weights, arguments[len(feeds) :], strict=True))
        return jax.core.eval_jaxpr(closed.jaxpr, [*constants.values()], *arguments[: len(feeds)])

    return call_with_weights, [*weights.values()]


def _is_weight(value: Array) -> bool:
    large = value.size >= SMALLEST and value.dtype in _DTYPES.values()
    return large and not np.array_equal(value, np.broadcast_to(value.flat[0], value.shape))


def _refine_module(exported: Any) -> Any:
    with make_ir_context():
        module = refine_polymorphic_shapes(exported.mlir_module(serialized=False))  # This also inlines all calls.
    replace_lapack(module)
    return module


def _make_runtime_program(module: Any, known: Sequence[Array]) -> RuntimeProgram:
    call_steps(module)
    weights = hoist_weights(module, known)
    serialized = serialize_portable_artifact(module, STABLEHLO)
    return RuntimeProgram(serialized, {f"weight_{i}": value for i, value in enumerate(weights)})


def _find_main(module: Any) -> Any:
    (main,) = (op for op in module.body.operations if op.attributes["sym_name"].value == "main")
    return main


def hoist_weights(module: Any, known: Sequence[Array]) -> list[Array]:
    """Make the weights of ``module`` the last arguments of its ``main``, in place, and return them in that order.

    A weight is a constant of at least SMALLEST elements that are not all equal. Those ``known`` are the last arguments
    before, and stay if they are used.
    """
    main = _find_main(module)
    block = main.regions[0].blocks[0]
    first = len(block.arguments) - len(known)
    unused = [argument.arg_number for argument in list(block.arguments)[first:] if not list(argument.uses)]
    for number in reversed(unused):
        block.erase_argument(number)
    with module.context, ir.Location.unknown(module.context) as nowhere:
        weights = [(op, value) for op in list(block.operations) if (value := _read_weight(op.operation)) is not None]
        for op, _ in weights:
            result = op.operation.results[0]
            result.replace_all_uses_with(block.add_argument(result.type, nowhere))
            op.operation.erase()
        arguments = [argument.type for argument in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, main.type.results))
        if "arg_attrs" in main.attributes:
            del main.attributes["arg_attrs"]  # The attributes are by argument number, and only JAX uses them.
        module.operation.verify()
    return [*(value for number, value in enumerate(known, first) if number not in unused), *(v for _, v in weights)]


def _read_value(feeds: int, known: Sequence[Array], value: Any) -> Array | None:
    """Return the elements of ``value`` in ``main`` as ``_read_constant`` does, or of an argument after the feeds."""
    if not isinstance(value.owner, ir.Block):
        return _read_constant(value.owner)
    number = value.arg_number - feeds
    return known[number] if number >= 0 else None


def _read_weight(op: Any) -> Array | None:
    values = _read_constant(op)
    return values if values is not None and values.size >= SMALLEST else None


def _read_constant(op: Any) -> Array | None:
    """Return the elements of a constant; None if they are all equal or of a type that is not in ``_DTYPES``."""
    if op.name != _CONSTANT:
        return None
    kind = ir.ShapedType(op.results[0].type)
    dtype = _DTYPES.get(str(kind.element_type))
    if dtype is None:  # The binding has no name for complex attributes.
        return None
    dense = op.attributes["value"]
    if not isinstance(dense, ir.DenseElementsAttr) or dense.is_splat:
        return None
    return np.array(dense, dtype).reshape(kind.shape)


def _make_static(ports: Sequence[PortInfo], avals: Sequence[Any]) -> tuple[PortInfo, ...]:
    static = zip(ports, avals, strict=False)  # The states come after the ports.
    return tuple(PortInfo(port.name, str(aval.dtype), tuple(map(int, aval.shape))) for port, aval in static)
