"""A graph that is built in seconds."""

from __future__ import annotations

SMALL_GRAPH = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 1 } dim { size: 4 } } } } }
node { name: "w" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 4 } dim { size: 2 } }
    float_val: [0.5, -1.0, 2.0, 0.25, -0.75, 1.5, 1.0, 3.0] } } } }
node { name: "product" op: "MatMul" input: "x" input: "w" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "y" op: "Softmax" input: "product" attr { key: "T" value { type: DT_FLOAT } } }
"""
"""From x of [1, 4] to y of [1, 2], as text, so that no TensorFlow is needed to write it."""
