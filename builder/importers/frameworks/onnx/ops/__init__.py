"""The operators of ONNX as JAX functions, with a module for each family."""

from __future__ import annotations

from builder.importers.frameworks.onnx.ops import (
    control_flow,
    convolution,
    elementwise,
    image_pooling,
    image_sampling,
    indexing,
    linear,
    microsoft,
    normalisation,
    quantised,
    recurrent,
    reduction,
    shaping,
    support_vectors,
    table_columns,
    tree_ensembles,
)

OPERATORS = {
    **control_flow.OPS, **convolution.OPS, **elementwise.OPS, **image_pooling.OPS, **image_sampling.OPS,
    **indexing.OPS, **linear.OPS, **microsoft.OPS, **normalisation.OPS, **quantised.OPS, **recurrent.OPS,
    **reduction.OPS, **shaping.OPS, **support_vectors.OPS, **table_columns.OPS,
    **tree_ensembles.OPS,
}  # fmt: skip
