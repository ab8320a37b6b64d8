"""Steps of coldforge's runtime in a StableHLO program, where they are composite operations.

A composite (https://openxla.org/stablehlo/spec#composite) has a function that computes the same, its decomposition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from builder.importers.rewrites.custom_steps import STEPS

_COMPOSITE, _CUSTOM_CALL = "stablehlo.composite", "stablehlo.custom_call"
_RETURNS_STATUS = 2
"""The ``api_version`` of custom calls whose ``backend_config`` is text."""


def call_decompositions(module: Any) -> bool:
    """Call the decomposition in the place of each step in ``module``; return whether there was any step."""
    steps = list(_find_steps(module))
    for step in steps:
        types = [result.type for result in step.results]
        with module.context, ir.Location.unknown(module.context), ir.InsertionPoint(step):
            call = func.CallOp(types, str(step.attributes["decomposition"].value), list(step.operands))
        _replace_operation(step, call.results)
    return bool(steps)


def call_steps(module: Any) -> None:
    """Call the runtime in the place of each step in ``module``, and remove decompositions with their constants.

    The step's configuration says how many of its last operands are the step's own: JAX puts constants of the
    decomposition in front of them.
    """
    steps = list(_find_steps(module))
    names = {str(step.attributes["decomposition"].value) for step in steps}
    for step in steps:
        config = json.loads(str(step.attributes["composite_attributes"]["config"].value))
        operands = list(step.operands)[-config.pop("operands") :]
        types = [result.type for result in step.results]
        with module.context, ir.Location.unknown(module.context), ir.InsertionPoint(step):
            call = ir.Operation.create(
                _CUSTOM_CALL,
                types,
                operands,
                {
                    "call_target_name": step.attributes["name"],
                    "backend_config": ir.StringAttr.get(json.dumps(config, sort_keys=True)),
                    "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _RETURNS_STATUS),
                    "operand_layouts": _make_layouts([operand.type for operand in operands]),
                    "result_layouts": _make_layouts(types),
                },
            )
        _replace_operation(step, call.results)
    for function in list(module.body.operations):
        if function.attributes["sym_name"].value in names:
            function.operation.erase()
            continue
        for op in list(function.regions[0].blocks[0].operations):
            if op.operation.name == "stablehlo.constant" and not list(op.operation.results[0].uses):
                op.operation.erase()


def _find_steps(parent: Any) -> Iterator[Any]:
    """Give the composites in an operation's regions that are steps."""
    for region in parent.operation.regions:
        for block in region.blocks:
            for op in block.operations:
                if op.operation.name == _COMPOSITE and op.attributes["name"].value in STEPS:
                    yield op.operation
                yield from _find_steps(op)


def _replace_operation(op: Any, results: Sequence[Any]) -> None:
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _make_layouts(types: Sequence[Any]) -> Any:
    """Return an attribute that says of each tensor that it is row-major."""
    orders = [", ".join(map(str, reversed(range(ir.ShapedType(kind).rank)))) for kind in types]
    layouts = [
        f"dense<[{order}]> : tensor<{order.count(',') + 1}xindex>" if order else "dense<> : tensor<0xindex>"
        for order in orders
    ]
    return ir.Attribute.parse(f"[{', '.join(layouts)}]")
