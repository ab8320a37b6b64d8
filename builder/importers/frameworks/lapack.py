"""Replacements for calls of LAPACK's functions, which exist in JAX's process alone, by operations of XLA."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.lax.linalg import _lu_unblocked  # JAX uses it without LAPACK; it is not public.
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func
from jaxlib.mlir.dialects import stablehlo as hlo

_TARGET = re.compile(r"lapack_[sd](\w+)_ffi")


def replace_lapack(module: Any) -> None:
    """Replace the calls of LAPACK that XLA can do without it, in place."""
    with module.context, ir.Location.unknown():
        for call in list(_find_custom_calls(module.operation)):
            target = _TARGET.fullmatch(call.attributes["call_target_name"].value)
            if target and target[1] in _REPLACEMENTS:
                with ir.InsertionPoint(call):
                    results = _REPLACEMENTS[target[1]](module, call)
                for old, new in zip(call.results, results, strict=True):
                    old.replace_all_uses_with(new)
                call.erase()


def _find_custom_calls(operation: Any) -> Iterator[Any]:
    for inner in (inner for region in operation.regions for block in region.blocks for inner in block.operations):
        yield from _find_custom_calls(inner.operation)
        if inner.operation.name == "stablehlo.custom_call":
            yield inner.operation


def _read_letter(call: Any, name: str) -> str:
    """Return the letter that LAPACK gets for an argument."""
    return chr(ir.DictAttr(call.attributes["mhlo.backend_config"])[name].value)


def _make_success(call: Any) -> Any:
    """Make the last result of most functions: 0 for each matrix."""
    kind = call.results[-1].type
    return hlo.constant(ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, 0)))


def _replace_cholesky(_: Any, call: Any) -> Sequence[Any]:
    lower = ir.BoolAttr.get(_read_letter(call, "uplo") == "L")
    return [hlo.cholesky(call.operands[0], lower=lower), _make_success(call)]


def _replace_triangular_solve(_: Any, call: Any) -> Sequence[Any]:
    settings = zip(("side", "uplo", "diag"), "LLU", strict=True)
    left_side, lower, unit = (ir.BoolAttr.get(_read_letter(call, name) == letter) for name, letter in settings)
    transposed = hlo.TransposeAttr.get("NO_TRANSPOSE" if _read_letter(call, "trans_x") == "N" else "TRANSPOSE")
    return [hlo.triangular_solve(*call.operands, left_side, lower, unit, transposed)]


def _replace_lu(module: Any, call: Any) -> Sequence[Any]:
    """Add a function to ``module``, with those that it calls, and call it."""
    matrices = ir.RankedTensorType(call.operands[0].type)
    lowered = jax.jit(_decompose_lu).lower(jax.ShapeDtypeStruct(matrices.shape, f"float{matrices.element_type.width}"))
    prefix = f"lu{len(module.body.operations)}_"
    text = re.sub(r"@(\w+)", rf"@{prefix}\1", str(lowered.compiler_ir("stablehlo")))
    for function in ir.Module.parse(text.replace("func public", "func private")).body.operations:
        function.operation.clone(ip=ir.InsertionPoint(module.body))
    types = [result.type for result in list(call.results)[:2]]
    return [*func.CallOp(types, f"{prefix}main", list(call.operands)).results, _make_success(call)]


def _decompose_lu(a: Any) -> tuple[Any, Any]:
    """Return the LU decomposition of each matrix, and LAPACK's pivots, which count from 1."""
    decompose = _lu_unblocked
    for _ in a.shape[:-2]:
        decompose = jax.vmap(decompose)
    pivots, _, lu = decompose(a)
    return lu, (pivots + 1).astype(jnp.int32)


_REPLACEMENTS: Mapping[str, Callable[[Any, Any], Sequence[Any]]] = {
    "getrf": _replace_lu,
    "potrf": _replace_cholesky,
    "trsm": _replace_triangular_solve,
}
"""Functions of the module and the call to its results, by LAPACK's name without the letter of the type."""
