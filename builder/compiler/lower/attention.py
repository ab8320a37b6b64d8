"""Scaled dot-product attention: two products without constant weights and the softmax between them, as one step."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from builder.compiler.lower.geometry import count_flop
from builder.compiler.lower.hlo import Dag, Value, find_scalar
from builder.compiler.lower.masks import FoundMask, find_mask
from builder.compiler.lower.softmax import match_softmax
from builder.compiler.lower.strided import (
    Part,
    Parts,
    compute_dense_strides,
    find_common_index,
    find_strided_view,
    regroup_index,
)

_LARGEST = 256
"""Maximum size of a query, key or value of one head: CF_MOST_HEAD of runtime/fused/fused.h."""

_FEWEST_QUERIES = 4
"""Minimum number of queries worth a step: the kernel has one in every lane, and with fewer most lanes are idle."""


Outer = tuple[int, int, int]
"""Sizes or strides of the dimensions that count matrices."""


@dataclass(frozen=True)
class ValueRows:
    """Rows in the memory of ``base``, with the fields of ``MatrixRows``."""

    base: Value
    first: int
    outer: Outer
    row: int


@dataclass(frozen=True)
class Attention:
    """An attention that ends in ``value``, which is stored in its own order.

    ``inside``: the values computed on the way to it. ``mask_outer``: the mask's strides from matrix to matrix.
    ``safe``: see ``AttentionStep``.
    """

    value: Value
    query: ValueRows
    key: ValueRows
    values: ValueRows
    output: ValueRows
    outer: Outer
    queries: int
    keys: int
    size: int
    value_size: int
    scale: float
    mask: FoundMask | None
    mask_outer: Outer
    safe: bool
    inside: tuple[Value, ...]

    @property
    def outputs(self) -> tuple[Value, ...]:
        return (self.value.base,)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Values that have to be stored before it."""
        bases = [self.query.base, self.key.base, self.values.base]
        if self.mask is not None and self.mask.source is not None:
            bases.append(self.mask.source)
        return tuple(bases)

    @property
    def flop(self) -> int:
        return count_flop(math.prod(self.outer) * self.queries * self.keys, self.size + self.value_size)


@dataclass(frozen=True)
class _Matrix:
    """``factor`` times an operand of a product, with the numbers of a row adjacent in memory."""

    base: Value
    first: int
    outer: Parts
    row: int
    factor: float = 1.0


def find_attentions(dag: Dag, unstored: AbstractSet[Value] = frozenset()) -> list[Attention]:
    """Find every live attention whose operands can be read where they are stored; ``unstored`` values cannot."""
    stored = {output.base for output in dag.outputs}
    matches = [_match_attention(value, dag, stored, unstored) for value in dag.live if value.op == "dot"]
    return [attention for attention in matches if attention is not None]


def _match_attention(
    product: Value, dag: Dag, stored: AbstractSet[Value], unstored: AbstractSet[Value]
) -> Attention | None:
    """Match the attention that ends with ``product``, the product of weights, on the left, and values."""
    numbers = product.instruction.dot_dimension_numbers
    outer = _count_outer(product)
    weights, values = product.operands[:2]
    if outer is None or list(numbers.lhs_contracting_dimensions) != [outer + 1]:
        return None
    softmax = match_softmax(weights.base)
    if softmax is None or not weights.row_major:
        return None
    *rest, queries, keys = weights.dims
    if softmax.source.dims[-1] != keys:
        return None
    scores = _match_scores(softmax.source, (math.prod(rest), queries, keys), unstored)
    if scores is None:
        return None
    first, scale, mask, passed = scores
    first_numbers = first.instruction.dot_dimension_numbers
    if first.elements != weights.elements or first.dims[-2:] != (queries, keys) or _count_outer(first) is None:
        return None
    query = _view_matrix(
        first.operands[0], first_numbers.lhs_batch_dimensions, first_numbers.lhs_contracting_dimensions, unstored
    )
    key = _view_matrix(
        first.operands[1], first_numbers.rhs_batch_dimensions, first_numbers.rhs_contracting_dimensions, unstored
    )
    # The values are summed over the dimension of their rows.
    inner = [
        axis
        for axis in range(len(values.dims))
        if axis not in (*numbers.rhs_batch_dimensions, *numbers.rhs_contracting_dimensions)
    ]
    value = _view_matrix(values, numbers.rhs_batch_dimensions, inner, unstored)
    end, skipped = _find_last_copy(product, dag, stored)
    output = _locate_output(end, product)
    if query is None or key is None or value is None or output is None or value.factor != 1:
        return None
    scale *= query.factor * key.factor
    size = first.operands[0].dims[first_numbers.lhs_contracting_dimensions[0]]
    value_size = product.dims[-1]
    matrices = (query, key, value, output)
    count = math.prod(rest)
    common = find_common_index([*(m.outer for m in matrices), mask.outer if mask is not None else ((count, 0),)])
    if common is None or len(common[0]) > 3 or max(size, value_size) > _LARGEST or queries < _FEWEST_QUERIES:
        return None
    sizes, strides = common
    padded = [_pad_to_three(s, 0) for s in strides]
    rows = [ValueRows(m.base, m.first, s, m.row) for m, s in zip(matrices, padded, strict=False)]
    return Attention(
        end,
        rows[0],
        rows[1],
        values=rows[2],
        output=rows[3],
        outer=_pad_to_three(sizes, 1),
        queries=queries,
        keys=keys,
        size=size,
        value_size=value_size,
        scale=scale,
        mask=mask,
        mask_outer=padded[4],
        safe=softmax.safe,
        inside=(*skipped, weights, *softmax.inside, softmax.source, *passed, first),
    )


def _pad_to_three(numbers: tuple[int, ...], fill: int) -> Outer:
    first, second, third = (fill,) * (3 - len(numbers)) + numbers
    return first, second, third


def _count_outer(product: Value) -> int | None:
    """Count the dimensions of a float32 product before its rows and columns; return None for an unsupported product."""
    numbers = product.instruction.dot_dimension_numbers
    count = len(product.dims) - 2
    leading = list(range(count))
    simple = list(numbers.lhs_batch_dimensions) == leading and len(numbers.lhs_contracting_dimensions) == 1
    if count < 1 or not simple or not product.row_major or product.dtype != "float32" or len(product.operands) != 2:
        return None
    return count if all(len(o.dims) == count + 2 and o.dtype == "float32" for o in product.operands) else None


def _view_matrix(value: Value, outer: list[int], inner: list[int], unstored: AbstractSet[Value]) -> _Matrix | None:
    """View ``value`` with dimension ``inner`` along its rows; its rows are the one remaining dimension."""
    view = find_strided_view(value, unstored)
    if view is None or len(inner) != 1 or view.base.dtype != "float32" or view.base.is_constant:
        return None
    rows = next(axis for axis in range(len(value.dims)) if axis not in (*outer, *inner))
    parts = [_get_single_stride(view.dims[axis]) for axis in (rows, inner[0])]
    if parts[0] is None or parts[1] not in (0, 1):
        return None
    if parts[1] == 0 and value.dims[inner[0]] > 1:
        return None
    across = tuple(part for axis in outer for part in view.dims[axis])
    return _Matrix(view.base, view.first, across, parts[0], view.factor)


def _get_single_stride(parts: Parts) -> int | None:
    """Return the stride of an index that has one part, 0 if it has none, and None if it has more."""
    wanted = [part for part in parts if part[0] != 1]
    return None if len(wanted) > 1 else wanted[0][1] if wanted else 0


def _match_scores(
    value: Value, sizes: tuple[int, int, int], unstored: AbstractSet[Value]
) -> tuple[Value, float, FoundMask | None, tuple[Value, ...]] | None:
    """Return the product behind the scores, its factor, the mask and the values between, or None."""
    if not value.row_major:
        return None
    if value.op == "dot":
        return value, 1.0, None, ()
    if value.op == "bitcast":
        inner = _match_scores(value.operands[0], sizes, unstored)
        return None if inner is None else (*inner[:3], (value, *inner[3]))
    if value.op in ("multiply", "divide"):
        for source, other in (value.operands, value.operands[::-1] if value.op == "multiply" else value.operands):
            factor = find_scalar(other)
            inner = _match_scores(source, sizes, unstored) if factor else None
            if factor and inner is not None and inner[2] is None:
                return inner[0], inner[1] * (factor if value.op == "multiply" else 1 / factor), None, (value, *inner[3])
        return None
    if value.op == "add":
        for source, other in (value.operands, value.operands[::-1]):
            inner = _match_scores(source, sizes, unstored)
            mask = find_mask("added", other, 0.0, sizes, unstored) if inner is not None and inner[2] is None else None
            if inner is not None and mask is not None:
                return inner[0], inner[1], mask, (value, *inner[3])
        return None
    if value.op == "select":
        return _match_selected_scores(value, sizes, unstored)
    return None


def _match_selected_scores(
    value: Value, sizes: tuple[int, int, int], unstored: AbstractSet[Value]
) -> tuple[Value, float, FoundMask | None, tuple[Value, ...]] | None:
    condition, yes, no = value.operands
    inverted = find_scalar(no) is None
    source, fill = (no, find_scalar(yes)) if inverted else (yes, find_scalar(no))
    inner = _match_scores(source, sizes, unstored)
    if inner is None or inner[2] is not None or fill is None:
        return None
    mask = find_mask("chosen", condition, fill, sizes, unstored, inverted=inverted)
    return None if mask is None else (inner[0], inner[1], mask, (value, *inner[3]))


def _find_last_copy(product: Value, dag: Dag, stored: AbstractSet[Value]) -> tuple[Value, tuple[Value, ...]]:
    """Find the last copy that only reorders the product, and the values that need not be stored because of it."""
    end, skipped, passed, at = product, tuple[Value, ...](), list[Value](), product
    while at.base not in stored and len(dag.users[at]) == 1 and dag.users[at][0].op in ("bitcast", "transpose", "copy"):
        passed.append(at)
        at = dag.users[at][0]
        if at.op == "copy":
            end, skipped = at, tuple(passed)
    return end, skipped


def _locate_output(end: Value, product: Value) -> _Matrix | None:
    """Locate the product's rows in ``end``."""
    if end is product:
        *outer, rows, _ = zip(product.dims, compute_dense_strides(product), strict=True)
        return _Matrix(end, 0, tuple(outer), rows[1])
    view = find_strided_view(end, frozenset())
    if view is None or view.base is not product.base:
        return None
    parts_by_stride: list[tuple[int, Part]] = []  # an index's stride in the product, and its part in ``end``
    for parts, stride in zip(view.dims, compute_dense_strides(end), strict=True):
        for size, inner in reversed(parts):
            parts_by_stride.append((inner, (size, stride)))
            stride *= size
    in_order = [part for _, part in sorted((f for f in parts_by_stride if f[1][0] != 1), key=lambda f: -f[0])]
    dims = regroup_index(in_order, product.dims)
    if dims is None:
        return None
    row, number = _get_single_stride(dims[-2]), _get_single_stride(dims[-1])
    if row is None or number not in (0, 1):
        return None
    return _Matrix(end, 0, tuple(part for dim in dims[:-2] for part in dim), row)
