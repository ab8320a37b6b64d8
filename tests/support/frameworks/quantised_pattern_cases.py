"""Layers between DequantizeLinear and QuantizeLinear; prints those for which another operator on integers is found.

It runs in the environment of ONNX's models.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from builder.importers.frameworks.onnx.quantised_patterns import join_quantised

GRIDS = {"x": (0.5, np.uint8(3)), "w": (0.25, np.int8(0)), "b": (0.125, np.int32(0)), "y": (2.0, np.uint8(0))}


def find_operator(
    operator: str = "Conv",
    *,
    zeros: dict[str, Any] | None = None,
    bias_scale: float = 0.125,
    restored: str = "xwb",
    between: str = "",
    **attributes: Any,
) -> str:
    """Return the operator that the last node becomes; ``restored``: the inputs that DequantizeLinear makes."""
    grids = GRIDS | {"b": (bias_scale, GRIDS["b"][1])}
    scale: Any
    grids |= {name: (grids[name][0], zero) for name, zero in (zeros or {}).items()}
    nodes, initializers, inputs = [], [], []
    for name, (scale, zero) in grids.items():
        values = {f"{name}_scale": np.float32(scale), f"{name}_zero": zero}
        initializers += [numpy_helper.from_array(np.asarray(value), key) for key, value in values.items()]
        if name in restored:
            nodes.append(helper.make_node("DequantizeLinear", [name, *values], [f"{name}_float"]))
        if name != "y" and (name != "b" or operator != "MatMul"):
            inputs.append(f"{name}_float" if name in restored else name)
    nodes.append(helper.make_node(operator, inputs, ["sum"], **attributes))
    if between:
        nodes.append(helper.make_node(between, ["sum"], ["between"]))
    nodes.append(helper.make_node("QuantizeLinear", [nodes[-1].output[0], "y_scale", "y_zero"], ["y"]))
    joined = join_quantised(helper.make_graph(nodes, "layer", [], [], initializers))[-1]
    return f"{joined.op_type} {' '.join(joined.input)}"


SUM, RESULT = "x x_scale x_zero w w_scale w_zero", "y_scale y_zero"
NOT = "QuantizeLinear sum " + RESULT
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, f"QLinearConv {SUM} {RESULT} b"),
    ({"operator": "MatMul"}, f"QLinearMatMul {SUM} {RESULT}"),
    ({"operator": "Gemm"}, f"QGemm {SUM} b {RESULT}"),
    ({"between": "Relu"}, f"QLinearConv {SUM} {RESULT} b"),
    ({"between": "Relu", "zeros": {"y": np.uint8(9)}}, f"QuantizeLinear between {RESULT}"),
    ({"between": "Tanh"}, f"QuantizeLinear between {RESULT}"),
    ({"operator": "Add"}, NOT),
    ({"bias_scale": 0.25}, NOT),
    ({"restored": "xw"}, NOT),
    ({"zeros": {"x": np.int16(0)}}, NOT),
    ({"operator": "Gemm", "beta": 0.5}, NOT),
    ({"operator": "Gemm", "transB": 1}, f"QGemm {SUM} b {RESULT}"),
]

if __name__ == "__main__":
    for options, expected in CASES:
        if (found := find_operator(**options)) != expected:
            print(f"{options}: {found}")
    print(f"{len(CASES)} run")
