"""Rewrites a JAX function of images with channels first so that its convolutions have channels last.

PyTorch's networks are channels first, and kernels for a CPU are channels last. This is an interpreter of the function's
jaxpr that gives the same values. The result of a convolution stays channels last, together with the permutation that
restores its order. Operations on elements, on windows or along one dimension use it as it is; a transposition only
changes the permutation; for any other operation the order is restored. So images are transposed at the beginning and,
at most, at the end. Values that depend on weights alone, with their transpositions, are calculated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core

Order = tuple[int, ...]
"""The dimension of the value for each dimension of an array."""

NHWC: Order = (0, 2, 3, 1)
"""The order of an array [n, h, w, c] whose value is [n, c, h, w]."""

_LAST = ("NHWC", "HWIO", "NHWC")
_SMALL = 4096
"""The number of elements by which a constant may be larger than its inputs."""

_ELEMENTWISE = frozenset(
    {"abs", "add", "add_any", "and", "cbrt", "ceil", "clamp", "convert_element_type", "copy", "cos", "div", "eq", "erf"}
    | {"erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p"}
    | {"logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "round", "rsqrt", "select_n"}
    | {"sign", "sin", "sqrt", "square", "stop_gradient", "sub", "tanh", "xor"}
)
_CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2"})
_WINDOW = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
_BY_DIMENSION: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("reduce_window", "reduce_window_max", "reduce_window_min", "reduce_window_sum"), _WINDOW),
    "broadcast_in_dim": ("shape",),
    "pad": ("padding_config",),
    "slice": ("start_indices", "limit_indices", "strides"),
}
"""The parameters that have a value for each dimension, by the name of the operation."""


@dataclass(frozen=True)
class ReorderedArray:
    """A value whose ``array`` has its dimensions in another ``order``."""

    array: Any
    order: Order

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.array.shape[self.order.index(dim)] for dim in range(len(self.order)))


Value = Any
"""An array, or a ReorderedArray."""

Rule = Callable[[Any, list[Value]], list[Value] | None]
"""A function to the results of an equation if a value is a ReorderedArray, or None if their order must be restored."""


def make_channels_last(function: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """Return ``function`` of arrays with its 2-D convolutions channels last, and the same arguments and results."""

    def rewritten(*feeds: Any) -> list[Any]:
        closed = jax.make_jaxpr(function)(*feeds)
        return [_restore_order(value) for value in _evaluate_jaxpr(closed.jaxpr, closed.consts, feeds)]

    return rewritten


def _evaluate_jaxpr(jaxpr: Any, constants: Sequence[Value], arguments: Sequence[Value]) -> list[Value]:
    computed: dict[Any, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
    computed |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Value:
        return variable.val if isinstance(variable, core.Literal) else computed[variable]

    for equation in jaxpr.eqns:
        results = _apply_equation(equation, [read(variable) for variable in equation.invars])
        computed |= dict(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _apply_equation(equation: Any, inputs: list[Value]) -> list[Value]:
    name = equation.primitive.name
    if name in _CALLS:
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        return _evaluate_jaxpr(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
    if _is_constant(equation, inputs):
        with jax.ensure_compile_time_eval():
            return _bind_primitive(equation, inputs)
    if name == "conv_general_dilated" and _is_image_convolution(equation):
        return [_apply_convolution(inputs, equation.params)]
    if name == "transpose":
        return [_transpose_value(inputs[0], equation.params["permutation"])]
    if any(isinstance(value, ReorderedArray) for value in inputs):
        rule = _apply_elementwise if name in _ELEMENTWISE else _RULES.get(name)
        if rule and (results := rule(equation, inputs)) is not None:
            return results
    return _bind_primitive(equation, [_restore_order(value) for value in inputs])


def _bind_primitive(equation: Any, inputs: Sequence[Any], **changed: Any) -> list[Any]:
    results = equation.primitive.bind(*inputs, **{**equation.params, **changed})
    return list(results) if equation.primitive.multiple_results else [results]


def _is_constant(equation: Any, inputs: Sequence[Value]) -> bool:
    """Return whether it depends on weights alone, and its result is not larger: no mask or table is expanded."""
    if not inputs or any(isinstance(value, (ReorderedArray, jax.core.Tracer)) for value in inputs):
        return False
    size = sum(math.prod(variable.aval.shape) for variable in equation.outvars)
    return bool(size <= sum(math.prod(jnp.shape(value)) for value in inputs) + _SMALL)


def _restore_order(value: Value) -> Any:
    if not isinstance(value, ReorderedArray):
        return value
    return lax.transpose(value.array, [value.order.index(dim) for dim in range(len(value.order))])


def _reorder_array(value: Value, order: Order) -> Any:
    """Return the array of ``value`` in ``order``."""
    if isinstance(value, ReorderedArray) and value.order == order:
        return value.array
    plain = _restore_order(value)
    if isinstance(plain, jax.core.Tracer):
        return lax.transpose(plain, order)
    with jax.ensure_compile_time_eval():
        return lax.transpose(jnp.asarray(plain), order)


def _wrap_array(array: Any, order: Sequence[int]) -> Value:
    return array if list(order) == sorted(order) else ReorderedArray(array, tuple(order))


def _transpose_value(value: Value, permutation: Sequence[int]) -> Value:
    """Transpose without moving data: dimension ``i`` of the result is dimension ``permutation[i]`` of the value."""
    array, order = (value.array, value.order) if isinstance(value, ReorderedArray) else (value, range(len(permutation)))
    return _wrap_array(array, [list(permutation).index(dim) for dim in order])


def _is_image_convolution(equation: Any) -> bool:
    """Return whether it is a convolution with channels first and two dimensions, in any order of the kernel."""
    numbers = equation.params["dimension_numbers"]
    specs = (tuple(numbers.lhs_spec), tuple(numbers.out_spec))
    return bool(specs == ((0, 1, 2, 3), (0, 1, 2, 3)) and equation.params["batch_group_count"] == 1)


def _apply_convolution(inputs: Sequence[Value], parameters: Mapping[str, Any]) -> ReorderedArray:
    out, into, height, width = parameters["dimension_numbers"].rhs_spec
    image = lax.conv_general_dilated(
        _reorder_array(inputs[0], NHWC),
        _reorder_array(inputs[1], (height, width, into, out)),
        parameters["window_strides"],
        parameters["padding"],
        parameters["lhs_dilation"],
        parameters["rhs_dilation"],
        _LAST,
        parameters["feature_group_count"],
        precision=parameters["precision"],
        preferred_element_type=parameters["preferred_element_type"],
    )
    return ReorderedArray(image, NHWC)


def _bind_reordered(equation: Any, inputs: Sequence[Any], order: Order, **changed: Any) -> list[Value]:
    """Return the results of an equation whose inputs, as its results, have their dimensions in ``order``."""
    return [ReorderedArray(array, order) for array in _bind_primitive(equation, inputs, **changed)]


def _find_order(inputs: Sequence[Value]) -> Order:
    return next(value.order for value in inputs if isinstance(value, ReorderedArray))


def _apply_elementwise(equation: Any, inputs: list[Value]) -> list[Value]:
    """Apply an equation whose operands have the same number of dimensions, or none."""
    order = _find_order(inputs)
    arrays = [
        _reorder_array(value, order) if isinstance(value, ReorderedArray) or jnp.ndim(value) else value
        for value in inputs
    ]
    return _bind_reordered(equation, arrays, order)


def _apply_by_dimension(equation: Any, inputs: list[Value]) -> list[Value] | None:
    """Apply an equation of one array, and perhaps of scalars, with parameters that have a value for each dimension."""
    value, *scalars = inputs
    if not isinstance(value, ReorderedArray) or any(
        isinstance(other, ReorderedArray) or jnp.ndim(other) for other in scalars
    ):
        return None
    parameters = {key: equation.params.get(key) for key in _BY_DIMENSION[equation.primitive.name]}
    changed = {key: tuple(sizes[dim] for dim in value.order) for key, sizes in parameters.items() if sizes is not None}
    return _bind_reordered(equation, [value.array, *scalars], value.order, **changed)


def _apply_broadcast(equation: Any, inputs: list[Value]) -> list[Value] | None:
    """Broadcast to as many dimensions, some of which were 1."""
    rank = len(equation.params["shape"])
    same = tuple(equation.params["broadcast_dimensions"]) == tuple(range(rank)) and len(inputs[0].order) == rank
    return _apply_by_dimension(equation, inputs) if same else None


def _apply_reduction(equation: Any, inputs: list[Value]) -> list[Value] | None:
    (value,) = inputs
    axes = equation.params["axes"]
    array = _bind_primitive(equation, [value.array], axes=tuple(sorted(value.order.index(axis) for axis in axes)))[0]
    rest = [dim for dim in value.order if dim not in axes]
    return [_wrap_array(array, [sorted(rest).index(dim) for dim in rest])]


def _apply_concatenate(equation: Any, inputs: list[Value]) -> list[Value]:
    order = _find_order(inputs)
    arrays = [_reorder_array(value, order) for value in inputs]
    return _bind_reordered(equation, arrays, order, dimension=order.index(equation.params["dimension"]))


def _apply_split(equation: Any, inputs: list[Value]) -> list[Value]:
    (value,) = inputs
    return _bind_reordered(equation, [value.array], value.order, axis=value.order.index(equation.params["axis"]))


def _apply_reshape(equation: Any, inputs: list[Value]) -> list[Value] | None:
    """Reshape if the old dimensions of each new one are neighbours in the array as in the value, else return None."""
    value, *rest = inputs
    shape = equation.outvars[0].aval.shape
    groups = None if rest or 0 in shape else _group_dimensions(value.shape, shape)
    if groups is None:
        return None
    order: list[int] = []
    stored = [dim for dim in value.order if value.shape[dim] != 1]
    while stored:
        old, new = next(group for group in groups if stored[0] in group[0])
        if stored[: len(old)] != old:
            return None
        stored = stored[len(old) :]
        order += new
    for dim in (dim for dim, size in enumerate(shape) if size == 1):
        order.insert(sum(other < dim for other in order) if order == sorted(order) else len(order), dim)
    return [_wrap_array(lax.reshape(value.array, [shape[dim] for dim in order]), order)]


def _group_dimensions(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """Return the smallest runs of dimensions of ``old`` and ``new`` with as many elements, without those of size 1."""
    groups: list[tuple[list[int], list[int]]] = []
    rest = [[dim for dim, size in enumerate(shape) if size != 1] for shape in (old, new)]
    while rest[0] and rest[1]:
        a, b = [rest[0].pop(0)], [rest[1].pop(0)]
        while (sizes := (math.prod(old[dim] for dim in a), math.prod(new[dim] for dim in b)))[0] != sizes[1]:
            mine, theirs = (a, rest[0]) if sizes[0] < sizes[1] else (b, rest[1])
            if not theirs:
                return None
            mine.append(theirs.pop(0))
        groups.append((a, b))
    return None if rest[0] or rest[1] else groups


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_BY_DIMENSION, _apply_by_dimension),
    **dict.fromkeys(
        ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"), _apply_reduction
    ),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _apply_reshape),
    "broadcast_in_dim": _apply_broadcast,
    "concatenate": _apply_concatenate,
    "split": _apply_split,
}
