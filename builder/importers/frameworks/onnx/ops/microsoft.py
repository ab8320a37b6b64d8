"""Operators of the domain com.microsoft, which ONNX Runtime's optimiser and quantiser write into models.

Specification: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.graph_values import Value, read_array
from builder.importers.frameworks.onnx.ops.convolution import convolve_images
from builder.importers.frameworks.onnx.ops.elementwise import compute_gelu, hard_sigmoid, leaky_relu
from builder.importers.frameworks.onnx.ops.image_pooling import average_pool, global_average
from builder.importers.frameworks.onnx.ops.linear import (
    multiply_and_add,
    rotate_positions,
    split_heads,
    subtract_zero_point,
)
from builder.importers.frameworks.onnx.ops.normalisation import layer_normalise, normalise_axis, rms_normalise
from builder.importers.frameworks.onnx.ops.quantised import quantise_dynamically, quantise_linear, restore_linear
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()
MICROSOFT = "com.microsoft"

_define = functools.partial(OPS.define, domain=MICROSOFT)

OPS.enter("QuantizeLinear", quantise_linear, MICROSOFT)
OPS.enter("DequantizeLinear", restore_linear, MICROSOFT)
OPS.enter("Gelu", compute_gelu, MICROSOFT)


def _add(x: Value, bias: Value) -> Value:
    return x if bias is None else x + bias


@_define("BiasGelu")
def bias_gelu(x: Value, bias: Value) -> Value:
    """Return the GELU of ``x`` plus a bias."""
    return compute_gelu(x + bias)


@_define("FastGelu")
def fast_gelu(x: Value, bias: Value = None) -> Value:
    """Return the approximation by tanh of the GELU of ``x`` plus a bias."""
    return compute_gelu(_add(x, bias), approximate="tanh")


@_define("QuickGelu")
def quick_gelu(x: Value, *, alpha: float = 1.702) -> Value:
    """Return x sigmoid(alpha x)."""
    return x * jax.nn.sigmoid(np.asarray(alpha, x.dtype) * x)


def _transpose_operand(x: Value, rows: int, batch: int) -> Value:
    """Return ``x`` with its last two dimensions exchanged (``rows``) or its first made its last but one (``batch``)."""
    x = jnp.moveaxis(x, 0, -2) if batch else x
    return jnp.swapaxes(x, -1, -2) if rows else x


@_define("FusedMatMul", "TransposeMatMul")
def fused_product(
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """Return alpha times the product of matrices that may be transposed."""
    product = jnp.matmul(_transpose_operand(a, transA, transBatchA), _transpose_operand(b, transB, transBatchB))
    return product if alpha == 1 else product * np.asarray(alpha, product.dtype)


_ACTIVATIONS: dict[str, Callable[..., Value]] = {
    "Relu": jax.nn.relu, "Tanh": jnp.tanh, "Sigmoid": jax.nn.sigmoid, "LeakyRelu": lambda x, a: leaky_relu(x, alpha=a),
    "Clip": lambda x, low, high: jnp.clip(x, low, high),
    "HardSigmoid": lambda x, a, b: hard_sigmoid(x, alpha=a, beta=b),
    "HardSwish": lambda x, *_: x * hard_sigmoid(x, alpha=1 / 6, beta=0.5),
}  # fmt: skip


@_define("FusedConv")
def fused_convolution(
    x: Value,
    kernel: Value,
    bias: Value = None,
    addend: Value = None,
    *,
    activation: str = "",
    activation_params: Any = (),
    **keys: Any,
) -> Value:
    """Return an activation of a convolution plus another input."""
    total = _add(convolve_images(x, kernel, bias, **keys), addend)
    return _ACTIVATIONS[activation](total, *activation_params).astype(total.dtype) if activation else total


@_define("NhwcFusedConv")
def fused_convolution_channels_last(
    x: Value, kernel: Value, bias: Value = None, addend: Value = None, **keys: Any
) -> Value:
    """Return an activation of a convolution of [n, h, w, c] plus another input."""
    moved = [None if value is None else jnp.moveaxis(value, -1, 1) for value in (x, addend)]
    return jnp.moveaxis(fused_convolution(moved[0], kernel, bias, moved[1], **keys), 1, -1)


@_define("FusedGemm")
def fused_gemm(a: Value, b: Value, c: Value = None, *, activation: str = "", **keys: Any) -> Value:
    """Return an activation of alpha a b + beta c."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    parameters = [keys.pop(name) for name in names if name in keys]
    product = multiply_and_add(a, b, c, **keys)
    return _ACTIVATIONS[activation](product, *parameters) if activation else product


@_define("SkipLayerNormalization")
def skip_layer_normalise(
    x: Value, skip: Value, scale: Value, shift: Value = None, bias: Value = None, *, epsilon: float = 1e-12
) -> list[Value]:
    """Return the layer normalisation of ``x`` plus ``skip`` and a bias, its mean and deviation, and that sum."""
    total = _add(x + skip, bias)
    return [*layer_normalise(total, scale, shift, epsilon=epsilon, outputs=3), total]


OPS.enter(
    "SimplifiedLayerNormalization",
    lambda x, scale, *, axis=-1, epsilon=1e-5, stash_type=1: rms_normalise(x, scale, axis=axis, epsilon=epsilon),
)  # ONNX Runtime writes it without a domain.


@_define("SkipSimplifiedLayerNormalization")
def skip_rms_normalise(
    x: Value, skip: Value, scale: Value, bias: Value = None, *, epsilon: float = 1e-5
) -> list[Value]:
    """Return the RMS normalisation of ``x`` plus ``skip`` and a bias, and as fourth output that sum."""
    total = _add(x + skip, bias)
    return [rms_normalise(total, scale, epsilon=epsilon), None, None, total]


@_define("EmbedLayerNormalization")
def embed_and_normalise(
    ids: Value,
    segments: Value,
    words: Value,
    positions: Value,
    segment_table: Value,
    scale: Value,
    shift: Value,
    mask: Value = None,
    position_ids: Value = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 1,
) -> list[Value]:
    """Return the normalised sum of the embeddings of words, positions and segments, the lengths, and the sum."""
    places = jnp.arange(np.shape(ids)[1])[None] if position_ids is None else position_ids
    total = jnp.take(words, ids, 0, mode="clip") + jnp.take(positions, places, 0, mode="clip")
    if segments is not None:
        total = total + jnp.take(segment_table, segments, 0, mode="clip")
    batch = np.shape(ids)[0]
    lengths = jnp.zeros(batch, np.int32) if mask is None else jnp.sum(mask, 1, dtype=np.int32)
    return [layer_normalise(total, scale, shift, epsilon=epsilon, outputs=1)[0], lengths, total]


def _make_mask(mask: Value, rows: int, columns: int) -> Value:
    """Return where to attend [n, 1 or heads, t, s], from the lengths [n], or from a mask of 2, 3 or 4 dimensions."""
    mask = jnp.asarray(mask)
    match mask.ndim:
        case 1:
            return (jnp.arange(columns)[None] < mask[:, None])[:, None, None]
        case 2:
            return (mask != 0)[:, None, None]
        case 3:
            return (mask != 0)[:, None]
        case _:
            return mask[:, :, columns - rows : columns, :columns] != 0


def _attend(
    query: Value,
    key: Value,
    value: Value,
    mask: Value,
    bias: Value,
    *,
    scale: float | None,
    unidirectional: int,
    fill: float,
) -> Value:
    """Return the attention [n, t, heads × d] of heads [n, heads, t, d]."""
    factor = scale or 1 / np.sqrt(query.shape[-1])
    scores = jnp.einsum("nhtd,nhsd->nhts", query, key) * np.asarray(factor, query.dtype)
    rows, columns = scores.shape[-2:]
    if mask is not None:
        scores = scores + jnp.where(_make_mask(mask, rows, columns), 0, np.asarray(fill, scores.dtype))
    if unidirectional:
        scores = jnp.where(np.tri(rows, columns, columns - rows, dtype=bool), scores, np.asarray(-np.inf, scores.dtype))
    weights = jax.nn.softmax(_add(scores, bias), -1)
    heads = jnp.einsum("nhts,nhsd->nhtd", weights, value)
    return heads.transpose(0, 2, 1, 3).reshape(heads.shape[0], rows, -1)


@_define("Attention")
def attend_packed(
    x: Value,
    weights: Value,
    bias: Value = None,
    mask: Value = None,
    past: Value = None,
    attention_bias: Value = None,
    *,
    num_heads: int,
    qkv_hidden_sizes: Any = None,
    unidirectional: int = 0,
    scale: float | None = None,
    mask_filter_value: float = -10000.0,
    **_: Any,
) -> Any:
    """Return the attention of ``x`` [n, t, d], whose queries, keys and values are made by one matrix, and the cache."""
    sizes = qkv_hidden_sizes or [np.shape(weights)[1] // 3] * 3
    joined = _add(jnp.matmul(x, weights), bias)
    query, key, value = (split_heads(part, num_heads) for part in jnp.split(joined, np.cumsum(sizes)[:2], -1))
    if past is not None:
        key, value = (jnp.concatenate([old, new], 2) for old, new in zip(past, (key, value), strict=True))
    result = _attend(
        query, key, value, mask, attention_bias, scale=scale, unidirectional=unidirectional, fill=mask_filter_value
    )
    return result, jnp.stack([key, value]) if key.shape == value.shape else None


@_define("MultiHeadAttention")
def multi_head_attention(
    query: Value,
    key: Value,
    value: Value,
    bias: Value = None,
    mask: Value = None,
    attention_bias: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    *,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
    mask_filter_value: float = -10000.0,
) -> tuple[Value, Value, Value]:
    """Return the attention of queries [n, t, d] to keys and values, and these with what the cache held."""
    parts = [query, key, value]
    if bias is not None:
        ends = np.cumsum([np.shape(query)[-1], np.shape(query)[-1]])
        parts = [_add(x, b) if np.ndim(x) == 3 else x for x, b in zip(parts, jnp.split(bias, ends), strict=True)]
    query, key, value = (split_heads(x, num_heads) if np.ndim(x) == 3 else jnp.asarray(x) for x in parts)
    if past_key is not None:
        key, value = jnp.concatenate([past_key, key], 2), jnp.concatenate([past_value, value], 2)
    keys: dict[str, Any] = {"scale": scale, "unidirectional": unidirectional, "fill": mask_filter_value}
    result = _attend(query, key, value, mask, attention_bias, **keys)
    return result, key, value


@_define("RotaryEmbedding")
def rotate_heads(
    x: Value,
    positions: Value,
    cosines: Value,
    sines: Value,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    **_: Any,
) -> Value:
    """Return heads rotated by their positions [n, t], or by those from one offset on."""
    length = np.shape(x)[-2]
    where = positions if np.ndim(positions) == 2 else (jnp.reshape(positions, ()) + jnp.arange(length))[None]
    where = jnp.broadcast_to(where, (np.shape(x)[0], length))
    heads = num_heads or (np.shape(x)[-1] // (2 * np.shape(cosines)[-1]) if np.ndim(x) == 3 else 0)
    return rotate_positions(
        x,
        cosines,
        sines,
        where,
        interleaved=interleaved,
        num_heads=heads,
        rotary_embedding_dim=rotary_embedding_dim,
    )


def _move_channels(x: Value, to_last: bool) -> Value:
    return jnp.moveaxis(x, 1, -1) if to_last else jnp.moveaxis(x, -1, 1)


def _pool_channels(pool: Callable[..., Value], x: Value, *, channels_last: int = 0, **keys: Any) -> Value:
    return _move_channels(pool(_move_channels(x, False), **keys), True) if channels_last else pool(x, **keys)


_UNARY: dict[str, Callable[..., Value]] = {
    "QLinearAveragePool": functools.partial(_pool_channels, average_pool),
    "QLinearGlobalAveragePool": functools.partial(_pool_channels, global_average),
    "QLinearLeakyRelu": leaky_relu,
    "QLinearSigmoid": jax.nn.sigmoid,
}
_BINARY: dict[str, Callable[[Value, Value], Value]] = {"QLinearAdd": jnp.add, "QLinearMul": jnp.multiply}


def _apply_unary(
    function: Callable[..., Value],
    x: Value,
    x_scale: Value,
    x_zero: Value,
    scale: Value,
    zero: Value = None,
    **keys: Any,
) -> Value:
    return quantise_linear(function(restore_linear(x, x_scale, x_zero), **keys), scale, _like(zero, x))


def _apply_binary(
    function: Callable[[Value, Value], Value],
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    scale: Value,
    zero: Value = None,
) -> Value:
    result = function(restore_linear(a, a_scale, a_zero), restore_linear(b, b_scale, b_zero))
    return quantise_linear(result, scale, _like(zero, a))


def _like(zero: Value, x: Value) -> Value:
    """Return the zero point, or a zero of the type of ``x``."""
    return np.zeros((), x.dtype) if zero is None else zero


for _name, _unary in _UNARY.items():
    OPS.enter(_name, functools.partial(_apply_unary, _unary), MICROSOFT)
for _name, _binary in _BINARY.items():
    OPS.enter(_name, functools.partial(_apply_binary, _binary), MICROSOFT)


@_define("QLinearSoftmax")
def softmax_quantised(
    x: Value, x_scale: Value, x_zero: Value, scale: Value, zero: Value, *, axis: int = -1, opset: Any = 13
) -> Value:
    """Return the softmax along ``axis``; before opset 13, along all dimensions from ``axis`` on together."""
    values = normalise_axis(jax.nn.softmax, restore_linear(x, x_scale, x_zero), axis=axis, opset=opset)
    return quantise_linear(values, scale, zero)


@_define("QLinearConcat")
def concatenate_quantised(scale: Value, zero: Value, *inputs: Value, axis: int) -> Value:
    """Return triples of an input, its scale and its zero point one after the other along ``axis``."""
    parts = [restore_linear(*inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    return quantise_linear(jnp.concatenate(parts, axis), scale, zero)


@_define("QLinearWhere")
def select_quantised(
    condition: Value,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    """Return ``a`` where the condition holds, and ``b`` elsewhere."""
    chosen = jnp.where(condition, restore_linear(a, a_scale, a_zero), restore_linear(b, b_scale, b_zero))
    return quantise_linear(chosen, scale, zero)


@_define("QGemm")
def multiply_and_add_quantised(
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    c: Value = None,
    scale: Value = None,
    zero: Value = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """Return alpha a b + c of 8-bit integers, rounded to the scale and zero point of the result if it has them."""
    left, right = subtract_zero_point(a, a_zero, -1), subtract_zero_point(b, b_zero, -2 if transB else -1)
    product = _add(jnp.matmul(left.T if transA else left, right.T if transB else right), c)
    result = product.astype(np.float32) * (np.float32(alpha) * jnp.asarray(a_scale) * jnp.asarray(b_scale))
    return result if scale is None else quantise_linear(result, scale, zero)


@_define("MatMulIntegerToFloat")
def multiply_to_float(
    a: Value, b: Value, a_scale: Value, b_scale: Value, a_zero: Value = None, b_zero: Value = None, bias: Value = None
) -> Value:
    """Return the product of matrices of 8-bit integers as floats."""
    product = jnp.matmul(subtract_zero_point(a, a_zero, -2), subtract_zero_point(b, b_zero, -1))
    return _add(product.astype(np.float32) * (jnp.asarray(a_scale) * jnp.asarray(b_scale)), bias)


@_define("DynamicQuantizeMatMul")
def multiply_dynamically(a: Value, b: Value, b_scale: Value, b_zero: Value = None, bias: Value = None) -> Value:
    """Return the product of ``a``, rounded to the 8 bits that its own range has, and of an 8-bit matrix."""
    rounded, scale, zero = quantise_dynamically(a)
    return multiply_to_float(rounded, b, scale, b_scale, zero, b_zero, bias)


@_define("MatMulNBits")
def multiply_packed(
    a: Value,
    packed: Value,
    scales: Value,
    zeros: Value = None,
    groups: Value = None,
    bias: Value = None,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int,
    **_: Any,
) -> Value:
    """Return the product of ``a`` and the known matrix [N, K] whose blocks of ``bits`` have a scale each."""
    if groups is not None:
        raise ValueError("the order of its groups (g_idx) is not supported")
    per_byte, blocks = 8 // bits, -(-K // block_size)

    def unpack(data: Any, count: int) -> Any:
        parts = read_array(data).reshape(N, -1)[..., None] >> (np.arange(per_byte, dtype=np.uint8) * bits)
        return (parts & (2**bits - 1)).reshape(N, -1)[:, :count]

    values = unpack(packed, blocks * block_size).reshape(N, blocks, block_size).astype(np.float32)
    if zeros is None:
        offset: Any = 2 ** (bits - 1)
    elif read_array(zeros).dtype == np.uint8:
        offset = unpack(zeros, blocks).astype(np.float32)[..., None]
    else:
        offset = read_array(zeros).reshape(N, blocks, 1)
    matrix = (values - offset) * read_array(scales).reshape(N, blocks, 1).astype(np.float32)
    return _add(jnp.matmul(a, matrix.reshape(N, -1)[:, :K].T.astype(a.dtype)), bias)
