"""Ops that become steps of coldforge's own runtime: they stand in the graph as custom calls, which XLA passes on.

Only a rewrite puts one there: ``builder/importers/allowed_ops.py`` refuses a model that brings custom calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

NMS = "coldforge.nms"
COMBINED_NMS = "coldforge.combined_nms"
STEPS = (NMS, COMBINED_NMS)
"""Names of custom calls. ``builder/compiler/xla/custom_calls.py`` tells XLA of them, and the modules of
``builder/compiler/lower/steps`` make steps of them."""

OP = "XlaCustomCallV2"


def call_runtime_step(
    name: str, config: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[tuple[Any, Sequence[int]]]
) -> Any:
    """The tensors that a custom call gives: of ``outputs``, each a dtype and a shape. ``config``: for JSON."""
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    dtypes, shapes = zip(*outputs, strict=True)
    return gen_xla_ops.xla_custom_call_v2(
        operands=list(inputs),
        call_target_name=name,
        backend_config=json.dumps(config, sort_keys=True),
        has_side_effect=False,
        result_dtypes=list(dtypes),
        result_shapes=[list(shape) for shape in shapes],
    )


def cut_vector(tensor: Any, size: Any) -> Any:
    """The first ``size`` of a vector, which its compiled form says beside the whole vector.

    Slicing would not do: XLA wants to know what a slice's bound is made of, and asks custom calls in vain.
    """
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    return gen_xla_ops.xla_set_dynamic_dimension_size(tensor, dim_index=0, size=size)


def is_step(node: Any) -> bool:
    """Tell whether a node calls a step of ours."""
    return node.op == OP and node.attr["call_target_name"].s.decode() in STEPS
