"""Ops that become steps of coldforge's own runtime: they stand in the graph as custom calls, which XLA passes on.

Only a rewrite puts one there: ``builder/importers/allowed_ops.py`` refuses a model that brings custom calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

NMS = "coldforge.nms"
COMBINED_NMS = "coldforge.combined_nms"
TREE_SUMS = "coldforge.tree_sums"
TREE_ARRAYS = ("columns", "thresholds", "trees", "small", "large", "leaves", "bases")
"""The operands of TREE_SUMS behind the rows: fields of ``cf_trees_data``, and of PackedTrees."""
STEPS = (NMS, COMBINED_NMS, TREE_SUMS)
"""Names of custom calls. ``builder/compiler/xla/tfcompile.py`` tells XLA of them, and the modules of
``builder/compiler/lower/steps`` make steps of them."""

OP = "XlaCustomCallV2"


def call_runtime_step(
    name: str, config: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[tuple[Any, Sequence[int]]]
) -> Any:
    """Return the results of a custom call, which ``outputs`` gives as dtypes and shapes. ``config``: for JSON."""
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


def is_step(node: Any) -> bool:
    """Return whether a node calls a step of coldforge's runtime."""
    return node.op == OP and node.attr["call_target_name"].s.decode() in STEPS
