"""Scaled dot-product attention: two products without constant weights and the softmax between them, as one step."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from builder.compiler.lower.hlo import Dag, Value, find_scalar
from builder.compiler.lower.layers import get_op_name
from builder.compiler.lower.masks import MatchedMask, find_mask
from builder.compiler.lower.reductions import match_softmax
from builder.compiler.lower.steps.attention_step import AttentionStep, MatrixRows
from builder.compiler.lower.steps.base import UNPLACED
from builder.compiler.lower.strided import (
    Part,
    Parts,
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
class Attention:
    """An attention that ends in ``value``, which is stored in its own order.

    ``step``: its step, over buffers that have no place yet. ``sources``: what each buffer that it reads holds: a value,
    or the bytes of a new constant. ``inside``: the values computed on the way.
    """

    value: Value
    step: AttentionStep
    sources: tuple[Value | bytes, ...]
    inside: tuple[Value, ...]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that it stores, as ``base``."""
        return (self.value.base,)


@dataclass(frozen=True)
class _Scores:
    """Scores that are ``scale`` times a product, masked; ``passed``: the values from the product to them."""

    product: Value
    scale: float = 1.0
    mask: MatchedMask | None = None
    passed: tuple[Value, ...] = ()


@dataclass(frozen=True)
class _Matrix:
    """``factor`` times an operand of a product, with the numbers of a row adjacent in memory."""

    base: Value
    first: int
    outer: Parts
    row: int
    factor: float = 1.0

    def place_rows(self, strides: Outer) -> MatrixRows:
        """Return the rows in a buffer that has no place yet; ``strides``: from matrix to matrix."""
        return MatrixRows(UNPLACED, self.first, strides, self.row)


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
    first, mask = scores.product, scores.mask
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
    size = first.operands[0].dims[first_numbers.lhs_contracting_dimensions[0]]
    value_size = product.dims[-1]
    matrices = (query, key, value, output)
    across_mask = mask.outer if mask is not None else ((math.prod(rest), 0),)
    common = find_common_index([*(m.outer for m in matrices), across_mask])
    if common is None or len(common[0]) > 3 or max(size, value_size) > _LARGEST or queries < _FEWEST_QUERIES:
        return None
    sizes, (*strides, mask_strides) = common
    rows = [m.place_rows(_pad_to_three(s, 0)) for m, s in zip(matrices, strides, strict=True)]
    step = AttentionStep(
        end.instruction.name,
        rows[0],
        rows[1],
        value=rows[2],
        output=rows[3],
        outer=_pad_to_three(sizes, 1),
        queries=queries,
        keys=keys,
        size=size,
        value_size=value_size,
        scale=scores.scale * (query.factor * key.factor),
        mask=None if mask is None else mask.place_elements(_pad_to_three(mask_strides, 0)),
        safe=softmax.safe,
        layer=get_op_name(end.instruction),
    )
    masks = () if mask is None or mask.source is None else (mask.source,)
    inside = (*skipped, weights, *softmax.inside, softmax.source, *scores.passed, first)
    return Attention(end, step, (query.base, key.base, value.base, *masks), inside)


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


def _match_scores(value: Value, sizes: tuple[int, int, int], unstored: AbstractSet[Value]) -> _Scores | None:
    """Match ``value`` as the scores of a product, multiplied by numbers and then masked; None for anything else."""
    if not value.row_major:
        return None
    sources: tuple[Value, ...] = ()
    match value.op:
        case "dot":
            return _Scores(value)
        case "bitcast" | "divide":
            sources = value.operands[:1]
        case "multiply" | "add":
            sources = value.operands
        case "select":
            sources = value.operands[2:] if find_scalar(value.operands[2]) is None else value.operands[1:2]
    for source in sources:
        inner = _match_scores(source, sizes, unstored)
        scores = None if inner is None else _apply_to_scores(value, source, inner, sizes, unstored)
        if scores is not None:
            return replace(scores, passed=(value, *scores.passed))
    return None


def _apply_to_scores(
    value: Value, source: Value, scores: _Scores, sizes: tuple[int, int, int], unstored: AbstractSet[Value]
) -> _Scores | None:
    """Apply the operation of ``value`` to its operand ``source``, which is ``scores``; None if a step cannot do so."""
    if value.op == "bitcast":
        return scores
    if scores.mask is not None:
        return None
    if value.op == "select":
        condition, yes, no = value.operands
        fill = find_scalar(yes if source is no else no)
        mask = fill is not None and find_mask("chosen", condition, fill, sizes, unstored, inverted=source is no)
        return replace(scores, mask=mask) if mask else None
    other = value.operands[1 if source is value.operands[0] else 0]
    if value.op == "add":
        mask = find_mask("added", other, 0.0, sizes, unstored)
        return replace(scores, mask=mask) if mask else None
    factor = find_scalar(other)
    if not factor:
        return None
    return replace(scores, scale=scores.scale * (factor if value.op == "multiply" else 1 / factor))


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
        *outer, rows, _ = zip(product.dims, product.strides, strict=True)
        return _Matrix(end, 0, tuple(outer), rows[1])
    view = find_strided_view(end, frozenset())
    if view is None or view.base is not product.base:
        return None
    parts_by_stride: list[tuple[int, Part]] = []  # an index's stride in the product, and its part in ``end``
    for parts, stride in zip(view.dims, end.strides, strict=True):
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
