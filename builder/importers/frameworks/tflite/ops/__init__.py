"""The operators of LiteRT on real numbers as JAX functions, with a module for each family."""

from __future__ import annotations

from builder.importers.frameworks.tflite.ops import (
    aggregation,
    arrangement,
    box_selection,
    lookups,
    pointwise,
    products,
    recurrence,
    resizing,
    subgraph_calls,
)

OPERATORS = {
    **aggregation.OPS, **arrangement.OPS, **box_selection.OPS, **lookups.OPS, **pointwise.OPS, **products.OPS,
    **recurrence.OPS, **resizing.OPS, **subgraph_calls.OPS,
}  # fmt: skip

_RANDOM = "it draws random numbers"
_STRINGS = "it works on strings"
REFUSED = {
    "HASHTABLE": _STRINGS, "HASHTABLE_FIND": _STRINGS, "HASHTABLE_IMPORT": _STRINGS, "HASHTABLE_SIZE": _STRINGS,
    "LSH_PROJECTION": _STRINGS, "SKIP_GRAM": _STRINGS, "MULTINOMIAL": _RANDOM, "RANDOM_STANDARD_NORMAL": _RANDOM,
    "RANDOM_UNIFORM": _RANDOM, "STABLEHLO_RNG_BIT_GENERATOR": _RANDOM,
}  # fmt: skip
"""Builtin operators of LiteRT that are not read, and why."""
