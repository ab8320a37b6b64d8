"""Products of restored integers that are rounded again, as the operators on integers that they stand for.

Quantisers write DequantizeLinear before and QuantizeLinear after each layer (QDQ). Such a layer's sum of products is
exact in int32, and so is computed there, as ONNX Runtime does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

_INTEGER = {"Conv": ("", "QLinearConv"), "Gemm": ("com.microsoft", "QGemm"), "MatMul": ("", "QLinearMatMul")}
_BYTES = (np.int8, np.uint8)


def join_quantised(graph: GraphProto) -> list[NodeProto]:
    """Return the nodes of ``graph``; what makes the input of a replaced QuantizeLinear stays, as others may use it."""
    makers = {name: node for node in graph.node for name in node.output}
    small = {t.name: numpy_helper.to_array(t) for t in graph.initializer if np.prod(t.dims) <= 1 << 16}
    return [_join_node(node, makers, small) or node for node in graph.node]


def _join_node(node: NodeProto, makers: Mapping[str, NodeProto], known: Mapping[str, Any]) -> NodeProto | None:
    """Return the operator on integers that ``node`` is the end of, or None."""
    if node.op_type != "QuantizeLinear" or len(node.input) < 3:
        return None
    zero, product = known.get(node.input[2]), makers.get(node.input[0])
    if product is not None and product.op_type == "Relu" and zero is not None and zero == np.iinfo(zero.dtype).min:
        product = makers.get(product.input[0])  # Cutting off at the least integer does the same.
    if product is None or product.op_type not in _INTEGER:
        return None
    sources = [makers[name] for name in product.input if name in makers]
    grids = [list(source.input) for source in sources if source.op_type == "DequantizeLinear" and len(source.input) > 2]
    if len(grids) < len(product.input) or any(name not in known for grid in grids for name in grid[1:3]):
        return None
    if zero is None or any(known[grid[2]].dtype not in _BYTES for grid in (*grids[:2], node.input)):
        return None
    keys, kernel = ({a.name: helper.get_attribute_value(a) for a in part.attribute} for part in (product, sources[1]))
    outputs = 0 if product.op_type == "Conv" or keys.get("transB") else 1
    if keys.pop("beta", 1) != 1 or (known[grids[1][1]].size > 1 and kernel.get("axis", 1) != outputs):
        return None
    if any(
        known[zero].any() or not np.allclose(known[scale], known[grids[0][1]] * known[grids[1][1]], rtol=1e-6, atol=0)
        for _, scale, zero in grids[2:]
    ):
        return None  # The bias has another scale than the products, and is none of the integers that are added.
    bias, result = [grid[0] for grid in grids[2:]], [*node.input[1:3]]
    ends = [*(bias or [""]), *result] if product.op_type == "Gemm" else [*result, *bias]
    domain, name = _INTEGER[product.op_type]
    return helper.make_node(name, [*grids[0], *grids[1], *ends], node.output, node.name, domain=domain, **keys)
