"""Operators of the domain com.microsoft, which ONNX Runtime's optimiser and quantiser write into models.

Specification: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.array_functions import scale_negative
from builder.importers.frameworks.graph_values import Value, read_array
from builder.importers.frameworks.onnx.ops.convolution import convolve_images
from builder.importers.frameworks.onnx.ops.elementwise import compute_gelu, hard_sigmoid
from builder.importers.frameworks.onnx.ops.image_pooling import average_pool, global_average
from builder.importers.frameworks.onnx.ops.linear import (
    multiply_and_add,
    multiply_integers,
    rotate_positions,
    scale_by,
    split_heads,
    subtract_zero_point,
)
from builder.importers.frameworks.onnx.ops.normalisation import layer_normalise, normalise_axis, rms_normalise
from builder.importers.frameworks.onnx.ops.quantised import (
    quantise_dynamically,
    quantise_linear,
    restore_linear,
    restore_triples,
    round_values,
)
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()
MICROSOFT = "com.microsoft"

_define = functools.partial(OPS.define, domain=MICROSOFT)


def _add(x: Value, bias: Value) -> Value:
    return x if bias is None else x + bias


OPS.enter_all(
    {
        "BiasGelu": lambda x, bias: compute_gelu(x + bias),
        "DequantizeLinear": restore_linear,
        "FastGelu": lambda x, bias=None: compute_gelu(_add(x, bias), approximate="tanh"),
        "Gelu": compute_gelu,
        "QuantizeLinear": quantise_linear,
        "QuickGelu": lambda x, *, alpha=1.702: x * jax.nn.sigmoid(scale_by(x, alpha)),
    },
    MICROSOFT,
)


@_define("FusedMatMul", "TransposeMatMul")
def fused_product(a: Value, b: Value, *, alpha: float = 1.0, **keys: Any) -> Value:
    """Return alpha times the product of matrices.

    ``transA``: the last two dimensions are exchanged. ``transBatchA``: before, the first one becomes the last but one.
    """
    moved = []
    for x, side in ((a, "A"), (b, "B")):
        x = jnp.moveaxis(x, 0, -2) if keys.get(f"transBatch{side}") else x
        moved.append(jnp.swapaxes(x, -1, -2) if keys.get(f"trans{side}") else x)
    return scale_by(jnp.matmul(*moved), alpha)


_ACTIVATIONS: dict[str, Callable[..., Value]] = {
    "": lambda x: x, "Relu": jax.nn.relu, "Tanh": jnp.tanh, "Sigmoid": jax.nn.sigmoid, "LeakyRelu": scale_negative,
    "Clip": jnp.clip, "HardSigmoid": lambda x, a, b: hard_sigmoid(x, alpha=a, beta=b),
    "HardSwish": lambda x, *_: x * hard_sigmoid(x, alpha=1 / 6, beta=0.5),
}  # fmt: skip


@_define("FusedConv")
def fused_convolution(x: Value, kernel: Value, bias: Value = None, addend: Value = None, **keys: Any) -> Value:
    """Return an activation of a convolution plus another input."""
    activate, parameters = _ACTIVATIONS[keys.pop("activation", "")], keys.pop("activation_params", ())
    total = _add(convolve_images(x, kernel, bias, **keys), addend)
    return activate(total, *parameters).astype(total.dtype)


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
    return _ACTIVATIONS[activation](multiply_and_add(a, b, c, **keys), *parameters)


@_define("SkipLayerNormalization")
def skip_layer_normalise(
    x: Value, skip: Value, scale: Value, shift: Value = None, bias: Value = None, *, epsilon: float = 1e-12
) -> list[Value]:
    """Return the layer normalisation of ``x`` plus ``skip`` and a bias, its mean and deviation, and that sum."""
    total = _add(x + skip, bias)
    return [*layer_normalise(total, scale, shift, epsilon=epsilon, outputs=3), total]


@_define("SkipSimplifiedLayerNormalization")
def skip_rms_normalise(
    x: Value, skip: Value, scale: Value, bias: Value = None, *, epsilon: float = 1e-5
) -> list[Value]:
    """Return the RMS normalisation of ``x`` plus ``skip`` and a bias, and as fourth output that sum."""
    total = _add(x + skip, bias)
    return [rms_normalise(total, scale, epsilon=epsilon), None, None, total]


@_define("EmbedLayerNormalization")
def embed_and_normalise(ids: Value, segments: Value, *inputs: Value, epsilon: float = 1e-12, **_: Any) -> list[Value]:
    """Return the normalised sum of the embeddings of words, positions and segments, the lengths, and the sum."""
    words, positions, segment_table, scale, shift, mask, position_ids = (*inputs, None, None)[:7]
    places = jnp.arange(np.shape(ids)[1])[None] if position_ids is None else position_ids
    total = jnp.take(words, ids, 0, mode="clip") + jnp.take(positions, places, 0, mode="clip")
    if segments is not None:
        total = total + jnp.take(segment_table, segments, 0, mode="clip")
    lengths = jnp.zeros(np.shape(ids)[0], np.int32) if mask is None else jnp.sum(mask, 1, dtype=np.int32)
    return [layer_normalise(total, scale, shift, epsilon=epsilon, outputs=1)[0], lengths, total]


@dataclass(frozen=True)
class AttentionRule:
    """The attributes of MultiHeadAttention that decide how scores become weights."""

    scale: float | None
    unidirectional: int
    fill: float

    def attend(self, heads: Sequence[Value], mask: Value, bias: Value) -> Value:
        """Return the attention [n, t, heads × d] of queries, keys and values [n, heads, t, d]."""
        query, key, value = heads
        scores = scale_by(jnp.einsum("nhtd,nhsd->nhts", query, key), self.scale or 1 / np.sqrt(query.shape[-1]))
        rows, columns = scores.shape[-2:]
        if mask is not None:
            scores = scores + jnp.where(_make_mask(mask, rows, columns), 0, np.asarray(self.fill, scores.dtype))
        if self.unidirectional:
            past = np.tri(rows, columns, columns - rows, dtype=bool)
            scores = jnp.where(past, scores, np.asarray(-np.inf, scores.dtype))
        result = jnp.einsum("nhts,nhsd->nhtd", jax.nn.softmax(_add(scores, bias), -1), value)
        return result.transpose(0, 2, 1, 3).reshape(result.shape[0], rows, -1)


def _read_rule(keys: dict[str, Any]) -> AttentionRule:
    return AttentionRule(keys.get("scale"), keys.get("unidirectional", 0), keys.get("mask_filter_value", -10000.0))


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


@_define("Attention")
def attend_packed(x: Value, weights: Value, *inputs: Value, num_heads: int, **keys: Any) -> Any:
    """Return the attention of ``x`` [n, t, d], whose queries, keys and values are made by one matrix, and the cache."""
    bias, mask, past, attention_bias = (*inputs, None, None, None, None)[:4]
    sizes = keys.get("qkv_hidden_sizes") or [np.shape(weights)[1] // 3] * 3
    joined = _add(jnp.matmul(x, weights), bias)
    query, key, value = (split_heads(part, num_heads) for part in jnp.split(joined, np.cumsum(sizes)[:2], -1))
    if past is not None:
        key, value = (jnp.concatenate([old, new], 2) for old, new in zip(past, (key, value), strict=True))
    result = _read_rule(keys).attend((query, key, value), mask, attention_bias)
    return result, jnp.stack([key, value]) if key.shape == value.shape else None


@_define("MultiHeadAttention")
def multi_head_attention(query: Value, key: Value, value: Value, *inputs: Value, num_heads: int, **keys: Any) -> Any:
    """Return the attention of queries [n, t, d] to keys and values, and these with what the cache held."""
    bias, mask, attention_bias, past_key, past_value = (*inputs, None, None, None, None, None)[:5]
    biases = [None] * 3 if bias is None else jnp.split(bias, np.cumsum([np.shape(query)[-1]] * 2))
    query, key, value = (
        split_heads(_add(x, own), num_heads) if np.ndim(x) == 3 else jnp.asarray(x)
        for x, own in zip((query, key, value), biases, strict=True)
    )
    if past_key is not None:
        key, value = jnp.concatenate([past_key, key], 2), jnp.concatenate([past_value, value], 2)
    return _read_rule(keys).attend((query, key, value), mask, attention_bias), key, value


@_define("RotaryEmbedding")
def rotate_heads(x: Value, positions: Value, cosines: Value, sines: Value, **keys: Any) -> Value:
    """Return heads rotated by their positions [n, t], or by those from one offset on."""
    length = np.shape(x)[-2]
    where = positions if np.ndim(positions) == 2 else (jnp.reshape(positions, ()) + jnp.arange(length))[None]
    heads = keys.get("num_heads") or (np.shape(x)[-1] // (2 * np.shape(cosines)[-1]) if np.ndim(x) == 3 else 0)
    where = jnp.broadcast_to(where, (np.shape(x)[0], length))
    return rotate_positions(x, cosines, sines, where, **{**keys, "num_heads": heads})


def _pool_channels(pool: Callable[..., Value], x: Value, *, channels_last: int = 0, **keys: Any) -> Value:
    return jnp.moveaxis(pool(jnp.moveaxis(x, -1, 1), **keys), 1, -1) if channels_last else pool(x, **keys)


_QUANTISED: dict[str, tuple[int, Callable[..., Value]]] = {
    "QLinearAdd": (2, jnp.add),
    "QLinearAveragePool": (1, functools.partial(_pool_channels, average_pool)),
    "QLinearGlobalAveragePool": (1, functools.partial(_pool_channels, global_average)),
    "QLinearLeakyRelu": (1, lambda x, *, alpha=0.01: scale_negative(x, alpha)),
    "QLinearMul": (2, jnp.multiply),
    "QLinearSigmoid": (1, jax.nn.sigmoid),
    "QLinearSoftmax": (1, lambda x, **keys: normalise_axis(jax.nn.softmax, x, **keys)),
}
"""The function that an operator computes of the numbers for integers, and the number of its inputs."""


def _apply(count: int, function: Callable[..., Value], *inputs: Value, **keys: Any) -> Value:
    result = function(*restore_triples(inputs[: 3 * count]), **keys)
    scale, zero = (*inputs[3 * count :], None)[:2]
    return quantise_linear(result, scale, np.zeros((), inputs[0].dtype) if zero is None else zero)


OPS.enter_all({name: functools.partial(_apply, *entry) for name, entry in _QUANTISED.items()}, MICROSOFT)


@_define("QLinearConcat")
def concatenate_quantised(scale: Value, zero: Value, *inputs: Value, axis: int) -> Value:
    """Return triples of an input, its scale and its zero point one after the other along ``axis``."""
    return quantise_linear(jnp.concatenate(restore_triples(inputs), axis), scale, zero)


@_define("QLinearWhere")
def select_quantised(condition: Value, *inputs: Value) -> Value:
    """Return the first triple's numbers where the condition holds, and the second one's elsewhere."""
    return quantise_linear(jnp.where(condition, *restore_triples(inputs[:6])), *inputs[6:])


@_define("QGemm")
def multiply_and_add_quantised(*inputs: Value, alpha: float = 1.0, transA: int = 0, transB: int = 0) -> Value:
    """Return alpha a b + c of 8-bit integers, rounded to the scale and zero point of the result if it has them."""
    a, a_scale, a_zero, b, b_scale, b_zero, c, *result_grid = (*inputs, None)[: max(len(inputs), 7)]
    left, right = subtract_zero_point(a, a_zero, -1), subtract_zero_point(b, b_zero, -2 if transB else -1)
    product = _add(jnp.matmul(left.T if transA else left, right.T if transB else right), c).astype(np.float32)
    factor = np.float32(alpha) * jnp.asarray(a_scale) * jnp.asarray(b_scale)
    if not result_grid:
        return product * factor
    scale, zero = result_grid
    return round_values(product * (factor / scale), zero, zero.dtype)


@_define("MatMulIntegerToFloat")
def multiply_to_float(a: Value, b: Value, a_scale: Value, b_scale: Value, *rest: Value) -> Value:
    """Return the product of matrices of 8-bit integers as floats."""
    a_zero, b_zero, bias = (*rest, None, None, None)[:3]
    product = multiply_integers(a, b, a_zero, b_zero).astype(np.float32)
    return _add(product * (jnp.asarray(a_scale) * jnp.asarray(b_scale)), bias)


@_define("DynamicQuantizeMatMul")
def multiply_dynamically(a: Value, b: Value, b_scale: Value, b_zero: Value = None, bias: Value = None) -> Value:
    """Return the product of ``a``, rounded to the 8 bits that its own range has, and of an 8-bit matrix."""
    rounded, scale, zero = quantise_dynamically(a)
    return multiply_to_float(rounded, b, scale, b_scale, zero, b_zero, bias)


@_define("MatMulNBits")
def multiply_packed(a: Value, packed: Value, scales: Value, *rest: Value, K: int, N: int, **keys: Any) -> Value:
    """Return the product of ``a`` and the known matrix [N, K] whose blocks of 4 or other bits have a scale each."""
    zeros, groups, bias = (*rest, None, None, None)[:3]
    if groups is not None:
        raise ValueError("the order of its groups (g_idx) is not supported")
    bits, size = keys.get("bits", 4), keys["block_size"]
    blocks = -(-K // size)

    def unpack(data: Any, count: int) -> Any:
        parts = read_array(data).reshape(N, -1)[..., None] >> (np.arange(8 // bits, dtype=np.uint8) * bits)
        return (parts & (2**bits - 1)).reshape(N, -1)[:, :count].astype(np.float32)

    values, offset = unpack(packed, blocks * size).reshape(N, blocks, size), np.float32(2 ** (bits - 1))
    if zeros is not None:
        offset = unpack(zeros, blocks) if zeros.dtype == np.uint8 else read_array(zeros)
        offset = offset.reshape(N, blocks, 1)
    matrix = (values - offset) * read_array(scales).reshape(N, blocks, 1).astype(np.float32)
    return _add(jnp.matmul(a, matrix.reshape(N, -1)[:, :K].T.astype(a.dtype)), bias)
