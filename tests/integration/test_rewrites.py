"""Every rewritten op against TensorFlow's own kernel, over drawn shapes, types and attributes, before it is compiled.

What XLA then makes of it, the zoo tests: tests/support/zoo/rewritten.py.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tests.support.zoo  # noqa: F401  TensorFlow is to answer here as it does in a build
from builder.base.tf import import_tensorflow, reference_session
from builder.importers.rewrite import inline_calls
from builder.importers.rewrites import REWRITES
from builder.importers.rewrites.apply_rewrites import needs_rewriting, rewrite_ops
from builder.importers.rewrites.layout import choose_cpu_rewrite

pytestmark = pytest.mark.integration

Array = npt.NDArray[Any]
Rng = np.random.Generator
Arguments = Mapping[str, Any]
"""Of one of ``tf.raw_ops``: arrays, or lists of them, are fed; ``Known`` values are constants; the rest attributes."""

DRAWS = 4


@dataclass(frozen=True)
class Known:
    """A value that the graph holds."""

    value: Any
    dtype: str = "int32"

    @property
    def array(self) -> Array:
        return np.asarray(self.value, self.dtype)


@dataclass(frozen=True)
class Drawn:
    """How an op is drawn, and how far it may be off: ``ulps`` of the largest number of the answer in its dtype.

    ``outputs``: numbers of those that TensorFlow sets; all of them, if None. ``draws``: how many; loops take long.
    """

    draw: Callable[[Rng], Arguments]
    ulps: float = 0.0
    outputs: tuple[int, ...] | None = None
    draws: int = DRAWS


def normal(rng: Rng, *shape: int, dtype: str = "float32") -> Array:
    return rng.normal(size=shape).astype(dtype)


def whole(rng: Rng, low: int, high: int, *shape: int, dtype: str = "int32") -> Array:
    return rng.integers(low, high, shape).astype(dtype)


EXTREMES = (np.nan, np.inf, -np.inf, -0.0, 0.0, 300.0, 3e9, -3e9, 1e19, -1e19)


def extreme(rng: Rng, *shape: int, dtype: str = "float32", of: Sequence[float] = EXTREMES) -> Array:
    """Draw normal numbers, a third of which are replaced by such that ops treat differently."""
    drawn = np.where(rng.uniform(size=shape) < 0.33, rng.choice(of, shape), rng.normal(size=shape))
    with np.errstate(over="ignore"):
        return drawn.astype(import_tensorflow().as_dtype(dtype).as_numpy_dtype)


def image(rng: Rng, *, channels: int | None = None) -> Array:
    """One to three pictures of any number type."""
    shape = (*rng.integers((1, 1, 1), (4, 18, 18)), channels or rng.integers(1, 5))
    dtype = rng.choice(["float32", "uint8", "int32", "float64", "float16"])
    return normal(rng, *shape, dtype=dtype) if dtype.startswith("float") else whole(rng, 0, 256, *shape, dtype=dtype)


def size(rng: Rng) -> Known:
    return Known(rng.integers(1, 40, 2))


def resize(rng: Rng) -> Arguments:
    align, half = ((True, False), (False, True), (False, False))[rng.integers(3)]
    return {"images": image(rng), "size": size(rng), "align_corners": align, "half_pixel_centers": half}


def resize_area(rng: Rng) -> Arguments:
    return {"images": image(rng), "size": size(rng), "align_corners": bool(rng.integers(2))}


def resize_threefold(rng: Rng) -> Arguments:
    arguments = {**resize(rng), "align_corners": False}
    return {**arguments, "size": Known(np.array(arguments["images"].shape[1:3]) * rng.choice([3, 5, 7]))}


def scale_and_translate(rng: Rng) -> Arguments:
    kernels = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")
    return {
        "images": image(rng),
        "size": size(rng),
        "scale": Known(rng.uniform(0.3, 3.0, 2), "float32"),
        "translation": Known(rng.uniform(-3, 3, 2), "float32"),
        "kernel_type": str(rng.choice(kernels)),
        "antialias": bool(rng.integers(2)),
    }


def crop_and_resize(rng: Rng) -> Arguments:
    pictures, boxes = image(rng), int(rng.integers(1, 7))
    return {
        "image": pictures,
        "boxes": rng.uniform(-0.3, 1.3, (boxes, 4)).astype("float32"),
        "box_ind": whole(rng, 0, len(pictures), boxes),
        "crop_size": Known(rng.integers(1, 12, 2)),
        "method": str(rng.choice(["bilinear", "nearest"])),
        "extrapolation_value": 2.5,
    }


def transform(rng: Rng) -> Arguments:
    pictures = image(rng)
    moves = np.tile([1, 0, 0, 0, 1, 0, 0, 0], (rng.choice([1, len(pictures)]), 1)) + rng.normal(0, 0.4, 8)
    moves[:, [2, 5]] += rng.uniform(-20, 20, 2)
    moves[:, 6:] = rng.choice([0.0, 0.003], 2)
    return {
        "images": pictures,
        "transforms": moves.astype("float32"),
        "output_shape": size(rng),
        "interpolation": str(rng.choice(["BILINEAR", "NEAREST"])),
        "fill_mode": str(rng.choice(["CONSTANT", "REFLECT", "WRAP", "NEAREST"])),
    }


def transform_filled(rng: Rng) -> Arguments:
    return {**transform(rng), "fill_value": Known(7.5, "float32")}


def max_pool_with_argmax(rng: Rng) -> Arguments:
    window, strides = rng.integers(1, 4, 2).tolist(), rng.integers(1, 4, 2).tolist()
    return {
        "input": whole(rng, -3, 4, *rng.integers((1, 4, 4, 1), (3, 10, 10, 4))).astype("float32"),
        "ksize": [1, *window, 1],
        "strides": [1, *strides, 1],
        "padding": str(rng.choice(["SAME", "VALID"])),
        "include_batch_in_index": bool(rng.integers(2)),
        "Targmax": import_tensorflow().dtypes.as_dtype(rng.choice(["int32", "int64"])),
    }


def dilation(rng: Rng) -> Arguments:
    dtype, channels = str(rng.choice(["float32", "int32", "uint8"])), int(rng.integers(1, 4))
    return {
        "input": whole(rng, 0, 100, *rng.integers((1, 6, 6), (3, 12, 12)), channels, dtype=dtype),
        "filter": whole(rng, 0, 9, *rng.integers(1, 4, 2), channels, dtype=dtype),
        "strides": [1, *rng.integers(1, 4, 2).tolist(), 1],
        "rates": [1, *rng.integers(1, 3, 2).tolist(), 1],
        "padding": str(rng.choice(["SAME", "VALID"])),
    }


def volume_patches(rng: Rng) -> Arguments:
    return {
        "input": normal(rng, *rng.integers((1, 3, 3, 3, 1), (3, 7, 7, 7, 3))),
        "ksizes": [1, *rng.integers(1, 4, 3).tolist(), 1],
        "strides": [1, *rng.integers(1, 4, 3).tolist(), 1],
        "padding": str(rng.choice(["SAME", "VALID"])),
    }


def segment(rng: Rng) -> Arguments:
    ids, inner = np.sort(rng.integers(0, 6, 9)), rng.integers(1, 4, rng.integers(0, 3))
    dtype = rng.choice(["float32", "float64", "int32"])
    return {"data": (normal(rng, 9, *inner) * 4).astype(dtype), "segment_ids": Known(ids)}


def sparse_segment(rng: Rng) -> Arguments:
    ids = Known(np.sort(rng.integers(0, 6, 9)))
    return {"data": normal(rng, 7, 3), "indices": whole(rng, 0, 7, 9), "segment_ids": ids}


def sparse_segment_counted(rng: Rng) -> Arguments:
    arguments = sparse_segment(rng)
    return {**arguments, "segment_ids": arguments["segment_ids"].array, "num_segments": Known(8)}


def places(rng: Rng, shape: tuple[int, ...], count: int = 6) -> Array:
    """[count, axes]: different places, in order."""
    numbers = np.sort(rng.choice(int(np.prod(shape)), count, replace=False))
    return np.stack(np.unravel_index(numbers, shape), axis=1).astype("int64")


def sparse(rng: Rng, *, names: tuple[str, str, str] = ("sp_indices", "sp_values", "sp_shape")) -> dict[str, Any]:
    shape = (3, 4) if rng.integers(2) else (3, 2, 4)
    return dict(zip(names, (places(rng, shape), normal(rng, 6), Known(shape, "int64")), strict=True))


def sparse_matmul(rng: Rng) -> Arguments:
    left, right = bool(rng.integers(2)), bool(rng.integers(2))
    inner = 4 if left else 5
    return {
        "a_indices": places(rng, (4, 5)),
        "a_values": normal(rng, 6),
        "a_shape": Known([4, 5], "int64"),
        "b": normal(rng, *((3, inner) if right else (inner, 3))),
        "adjoint_a": left,
        "adjoint_b": right,
    }


def sparse_add(rng: Rng) -> Arguments:
    arguments = sparse(rng, names=("a_indices", "a_values", "a_shape"))
    return {**arguments, "b": normal(rng, *arguments["a_shape"].value)}


def sparse_elementwise(rng: Rng) -> Arguments:
    arguments = sparse(rng)
    shape = arguments["sp_shape"].value
    return {**arguments, "dense": normal(rng, *((shape, (4,), (3, *[1] * (len(shape) - 1)))[rng.integers(3)]))}


def sparse_reduce(rng: Rng) -> Arguments:
    arguments = sparse(rng, names=("input_indices", "input_values", "input_shape"))
    axes = ([0], [1], [-1], [0, 1])[rng.integers(4)]
    return {**arguments, "reduction_axes": Known(axes), "keep_dims": bool(rng.integers(2))}


def sparse_reshape(rng: Rng) -> Arguments:
    arguments = sparse(rng, names=("input_indices", "values", "input_shape"))
    del arguments["values"]
    return {**arguments, "new_shape": Known(([-1, 6], [2, -1, 2], [12, -1])[rng.integers(3)], "int64")}


def sparse_reorder(rng: Rng) -> Arguments:
    arguments = sparse(rng, names=("input_indices", "input_values", "input_shape"))
    return {**arguments, "input_indices": rng.permutation(arguments["input_indices"])}


def ragged_to_tensor(rng: Rng) -> Arguments:
    inner = tuple(rng.integers(1, 4, rng.integers(0, 2)))
    splits = np.concatenate([[0], np.sort(rng.integers(0, 8, 4)), [7 if rng.integers(2) else 8]])
    splits = np.minimum(splits, 7)
    if rng.integers(2):
        rows = np.repeat(np.arange(5), np.diff(splits))
        partitions, kinds = [np.int64(5), rows], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]
    else:
        partitions, kinds = [splits], ["ROW_SPLITS"]
    if rng.integers(2):
        shape = rng.integers(1, 8, 2)
        tensors: list[Any] = [np.asarray(p, "int64") for p in partitions]
    else:
        shape, tensors = np.array([-1, -1]), [Known(p, "int64") for p in partitions]
    return {
        "shape": Known([*shape, *inner], "int64"),
        "values": normal(rng, int(splits[-1]), *inner),
        "default_value": np.float32(9.5),
        "row_partition_tensors": tensors,
        "row_partition_types": kinds,
    }


def ragged_twice_to_tensor(rng: Rng) -> Arguments:
    outer = np.concatenate([[0], np.sort(rng.integers(0, 5, 2)), [4]])
    splits = np.concatenate([[0], np.sort(rng.integers(0, 8, 3)), [7]])
    return {
        "shape": Known(rng.integers(1, 5, 3), "int64"),
        "values": normal(rng, 7),
        "default_value": np.float32(9.5),
        "row_partition_tensors": [outer, splits],
        "row_partition_types": ["ROW_SPLITS", "ROW_SPLITS"],
    }


def ragged_to_sparse(rng: Rng) -> Arguments:
    splits = [np.concatenate([[0], np.sort(rng.integers(0, 8, 3)), [7]])]
    if rng.integers(2):
        splits.insert(0, np.array([0, 1, 1, 4]))
    inner = rng.integers(1, 3, rng.integers(0, 2))
    return {
        "rt_nested_splits": [Known(split, "int64") for split in splits],
        "rt_dense_values": normal(rng, 7, *inner),
    }


def ragged_to_tensor_as_it_comes(rng: Rng) -> Arguments:
    """The longest row decides the size."""
    splits = np.concatenate([[0], np.sort(rng.integers(0, 8, 4)), [7]])
    fixed = rng.integers(2)
    return {
        "shape": Known([-1, -1, 3] if fixed else -1, "int64"),
        "values": normal(rng, 7, 3),
        "default_value": np.float32(9.5),
        "row_partition_tensors": [np.minimum(splits, 7)],
        "row_partition_types": ["ROW_SPLITS"],
    }


def ragged_to_sparse_as_it_comes(rng: Rng) -> Arguments:
    arguments = ragged_to_sparse(rng)
    return {**arguments, "rt_nested_splits": [split.array for split in arguments["rt_nested_splits"]]}


def ragged_rows(rng: Rng) -> Arguments:
    arguments = ragged_to_sparse(rng)
    splits, shape = arguments["rt_nested_splits"], rng.integers(1, 4, rng.integers(1, 3))
    return {
        "params_nested_splits": splits if rng.integers(2) else [split.array for split in splits],
        "params_dense_values": arguments["rt_dense_values"],
        "indices": whole(rng, 0, len(splits[0].value) - 1, *shape),
        "OUTPUT_RAGGED_RANK": len(splits) + len(shape) - 1,
    }


def ragged_range(rng: Rng) -> Arguments:
    dtype = str(rng.choice(["int32", "int64", "float32"]))
    return {
        "starts": Known(rng.integers(-3, 3, 4), dtype),
        "limits": Known(rng.integers(-3, 9, 4), dtype),
        "deltas": Known(rng.integers(1, 4), dtype),
    }


def empty_rows(rng: Rng) -> Arguments:
    arguments = sparse(rng, names=("indices", "values", "dense_shape"))
    return {**arguments, "dense_shape": Known([7, *arguments["dense_shape"].value[1:]], "int64"), "default_value": 2.5}


def ctc(rng: Rng) -> Arguments:
    classes = int(rng.integers(2, 5))
    return {
        "inputs": np.round(normal(rng, 9, 3, classes), 1),
        "sequence_length": whole(rng, 0, 10, 3),
        "merge_repeated": bool(rng.integers(2)),
        "blank_index": int(rng.choice([-1, 0, classes - 1])),
    }


def sparse_cross(rng: Rng) -> Arguments:
    """Dense columns alone, as Keras' HashedCrossing has them."""
    tf, low, high = import_tensorflow(), -(2**62), 2**62
    return {
        "indices": [],
        "values": [],
        "shapes": [],
        "dense_inputs": [
            whole(rng, low, high, 5, int(rng.integers(1, 4)), dtype="int64") for _ in range(rng.integers(1, 4))
        ],
        "hashed_output": True,
        "num_buckets": int(rng.choice([0, 7, 10**6])),
        "hash_key": int(rng.integers(2**62)),
        "out_type": tf.int64,
        "internal_type": tf.int64,
    }


def unique_with_counts(rng: Rng) -> Arguments:
    dtype = import_tensorflow().dtypes.as_dtype(rng.choice(["int32", "int64"]))
    return {"x": whole(rng, 0, 5, 9, dtype=str(rng.choice(["int32", "float32"]))), "out_idx": dtype}


def unique_with_counts_2(rng: Rng) -> Arguments:
    return {**unique_with_counts(rng), "axis": np.array([0] * rng.integers(2), "int64")}


def tridiagonal(rng: Rng) -> Arguments:
    rows, batch = int(rng.integers(1, 8)), rng.integers(1, 3, rng.integers(0, 3))
    dtype = str(rng.choice(["float32", "float64"]))
    return {
        "diagonals": normal(rng, *batch, 3, rows, dtype=dtype),
        "rhs": normal(rng, *batch, rows, 2, dtype=dtype),
        "partial_pivoting": True,
    }


def matrix(rng: Rng) -> Arguments:
    rows, batch = int(rng.integers(1, 7)), rng.integers(1, 4, rng.integers(0, 3))
    return {"input": normal(rng, *batch, rows, rows, dtype=str(rng.choice(["float32", "float64"])))}


def cell(rng: Rng) -> dict[str, Any]:
    return {
        "cs_prev": normal(rng, 2, 4),
        "h_prev": normal(rng, 2, 4),
        "w": normal(rng, 7, 16),
        "wci": normal(rng, 4),
        "wcf": normal(rng, 4),
        "wco": normal(rng, 4),
        "b": normal(rng, 16),
        "cell_clip": float(rng.choice([-1.0, 0.3, 3.0])),
        "use_peephole": bool(rng.integers(2)),
    }


def lstm_cell(rng: Rng) -> Arguments:
    return {**cell(rng), "x": normal(rng, 2, 3), "forget_bias": float(rng.normal())}


def block_lstm_2(rng: Rng) -> Arguments:
    return {**cell(rng), "x": normal(rng, 5, 2, 3), "seq_len_max": np.int64(rng.integers(1, 6))}


def block_lstm(rng: Rng) -> Arguments:
    return {**block_lstm_2(rng), "forget_bias": float(rng.normal())}


def gru_cell(rng: Rng) -> Arguments:
    return {
        "x": normal(rng, 2, 3),
        "h_prev": normal(rng, 2, 4),
        "w_ru": normal(rng, 7, 8),
        "w_c": normal(rng, 7, 4),
        "b_ru": normal(rng, 8),
        "b_c": normal(rng, 4),
    }


def nth_element(rng: Rng) -> Arguments:
    values = (normal(rng, 3, 7) * 3).astype(str(rng.choice(["float32", "int32"])))
    return {"input": values, "n": np.int32(rng.integers(7)), "reverse": bool(rng.integers(2))}


def in_top_k(rng: Rng) -> Arguments:
    """Half of the rows finite, of which some numbers are equal."""
    predictions = np.round(normal(rng, 10, 6), 1)
    predictions[5:] = extreme(rng, 5, 6)
    return {"predictions": predictions, "targets": whole(rng, -1, 7, 10), "k": int(rng.integers(1, 7))}


def in_top_k_2(rng: Rng) -> Arguments:
    dtype = str(rng.choice(["int32", "int64"]))
    arguments = in_top_k(rng)
    return {**arguments, "targets": arguments["targets"].astype(dtype), "k": np.asarray(arguments["k"], dtype)}


def top_k(rng: Rng) -> Arguments:
    """Of numbers that are often equal; TensorFlow does not say where NaN comes."""
    dtype = str(rng.choice(["float32", "float64", "float16", "bfloat16"]))
    return {
        "input": extreme(rng, 3, 9, dtype=dtype, of=(0.0, -0.0, 1.0, np.inf, -np.inf)),
        "k": Known(rng.integers(1, 10)),
        "index_type": rng.choice([np.int16, np.int32, np.int64]),
    }


def arg_extreme(rng: Rng) -> Arguments:
    """A column with nothing but NaN, and one without another number than an infinite one."""
    values = extreme(rng, 5, 9, dtype=str(rng.choice(["float32", "float64", "float16", "bfloat16"])))
    values[:, 0], values[:, 1], values[:, 2] = np.nan, -np.inf, np.inf
    return {"input": values, "dimension": Known(rng.integers(2)), "output_type": rng.choice([np.int32, np.int64])}


def bucketize(rng: Rng) -> Arguments:
    return {
        "input": extreme(rng, 9, dtype=str(rng.choice(["float32", "float64"]))),
        "boundaries": [-1.0, 0.0, 0.5, 1e9],
    }


def upper_bound(rng: Rng) -> Arguments:
    dtype = str(rng.choice(["float32", "float64"]))
    return {
        "sorted_inputs": np.sort(extreme(rng, 3, 6, dtype=dtype, of=(0.0, np.inf, -np.inf))),
        "values": extreme(rng, 3, 9, dtype=dtype),
        "out_type": rng.choice([np.int32, np.int64]),
    }


def cast(rng: Rng) -> Arguments:
    dtype = str(rng.choice(["float32", "float64", "float16", "bfloat16"]))
    return {"x": extreme(rng, 40, dtype=dtype), "DstT": rng.choice([np.int32, np.int64, np.uint32])}


def absolute(rng: Rng) -> Arguments:
    dtype = rng.choice([np.int8, np.int16, np.int32, np.int64])
    ends = np.iinfo(dtype)
    return {"x": np.append(rng.integers(ends.min, ends.max, 9, dtype), [ends.min, ends.max, 0]).astype(dtype)}


def probability(rng: Rng) -> Arguments:
    """Also in both tails, at both ends, and outside of them."""
    dtype = str(rng.choice(["float32", "float64"]))
    small = 10 ** rng.uniform(-37, -1, 20)
    return {"x": np.concatenate([rng.uniform(0, 1, 20), small, 1 - small, [0, 1, -0.1, 1.1, np.nan]]).astype(dtype)}


def histogram(rng: Rng) -> Arguments:
    dtype = str(rng.choice(["float32", "float64", "int32", "int64"]))
    ends = np.array([-3, rng.integers(1, 6)]).astype(dtype)
    return {"values": (normal(rng, 9, 9) * 4).astype(dtype), "value_range": ends, "nbins": Known(rng.integers(1, 20))}


def unravel_index(rng: Rng) -> Arguments:
    dtype = str(rng.choice(["int32", "int64"]))
    return {"indices": whole(rng, 0, 60, *([7] * rng.integers(2)), dtype=dtype), "dims": Known([3, 4, 5], dtype)}


def euclidean_norm(rng: Rng) -> Arguments:
    axes = Known(([0], [1, 2], [-1], [])[rng.integers(4)])
    return {"input": normal(rng, 3, 4, 5), "axis": axes, "keep_dims": bool(rng.integers(2))}


def spectrogram(rng: Rng) -> Arguments:
    window = int(rng.integers(8, 70))
    return {
        "input": normal(rng, 150, int(rng.integers(1, 3))),
        "window_size": window,
        "stride": int(rng.integers(3, window)),
        "magnitude_squared": bool(rng.integers(2)),
    }


def mfcc(rng: Rng) -> Arguments:
    return {
        "spectrogram": rng.uniform(0, 4, (1, 3, 257)).astype("float32"),
        "sample_rate": Known(rng.choice([8000, 16000])),
        "lower_frequency_limit": float(rng.uniform(20, 200)),
        "upper_frequency_limit": float(rng.uniform(2000, 4000)),
        "filterbank_channel_count": int(rng.integers(10, 30)),
        "dct_coefficient_count": int(rng.integers(1, 10)),
    }


def passed_on(rng: Rng) -> Arguments:
    return {"tensor": normal(rng, 3), "message": "not finite"}


def counted(rng: Rng, name: str = "arr") -> Arguments:
    values = whole(rng, 0, 9, *rng.integers(1, 6, rng.integers(1, 3)))
    weights = normal(rng, *(values.shape if rng.integers(2) else (0,)))
    return {name: values, "size": Known(rng.integers(1, 12)), "weights": weights}


def counted_densely(rng: Rng) -> Arguments:
    return {**counted(rng, "input"), "binary_output": bool(rng.integers(2))}


def volume_convolved(rng: Rng) -> Arguments:
    return {
        "input": normal(rng, *rng.integers((1, 3, 3, 3), (3, 8, 8, 8)), 3),
        "filter": Known(normal(rng, *rng.integers(1, 4, 2), 2, 3, 4), "float32"),
        "strides": [1, *rng.integers(1, 3, 3).tolist(), 1],
        "padding": str(rng.choice(["SAME", "VALID"])),
    }


def seeded(rng: Rng) -> Arguments:
    return {"shape": Known(rng.integers(1, 9, rng.integers(1, 4))), "seed": whole(rng, -(2**31), 2**31, 2)}


def keyed(rng: Rng) -> Arguments:
    arguments = {name: rng.integers(0, 2**63, n).astype("uint64") for name, n in (("key", 1), ("counter", 2))}
    return {"shape": seeded(rng)["shape"], **arguments, "alg": Known(rng.choice([1, 3]))}


OPS: dict[str, Drawn] = {
    "Abs": Drawn(absolute),
    "ArgMax": Drawn(arg_extreme),
    "ArgMin": Drawn(arg_extreme),
    "AudioSpectrogram": Drawn(spectrogram, ulps=4),
    "Bincount": Drawn(counted, ulps=4),
    "BesselI0": Drawn(lambda rng: {"x": normal(rng, 40) * 6}, ulps=8),
    "BesselI1": Drawn(lambda rng: {"x": normal(rng, 40, dtype="float64") * 6}, ulps=8),
    "BlockLSTM": Drawn(block_lstm, ulps=32, outputs=(1, 6), draws=2),
    "BlockLSTMV2": Drawn(block_lstm_2, ulps=32, outputs=(1, 6), draws=2),
    "Bucketize": Drawn(bucketize),
    "CTCGreedyDecoder": Drawn(ctc, ulps=4),
    "Cast": Drawn(cast),
    "CheckNumerics": Drawn(passed_on),
    "CheckNumericsV2": Drawn(passed_on),
    "Conv3D": Drawn(volume_convolved, ulps=16),
    "CropAndResize": Drawn(crop_and_resize),
    "DenseBincount": Drawn(counted_densely, ulps=4),
    "Dilation2D": Drawn(dilation),
    "EuclideanNorm": Drawn(euclidean_norm, ulps=4),
    "ExtractVolumePatches": Drawn(volume_patches),
    "GRUBlockCell": Drawn(gru_cell, ulps=16),
    "GuaranteeConst": Drawn(lambda rng: {"input": normal(rng, 3)}),
    "HistogramFixedWidth": Drawn(histogram),
    "ImageProjectiveTransformV2": Drawn(transform),
    "ImageProjectiveTransformV3": Drawn(transform_filled),
    "InTopK": Drawn(in_top_k),
    "InTopKV2": Drawn(in_top_k_2),
    "LSTMBlockCell": Drawn(lstm_cell, ulps=16),
    "LogMatrixDeterminant": Drawn(matrix, ulps=256, draws=2),
    "Lu": Drawn(matrix, ulps=256, draws=2),
    "MatrixDeterminant": Drawn(matrix, ulps=256, draws=2),
    "MaxPoolWithArgmax": Drawn(max_pool_with_argmax),
    "Mfcc": Drawn(mfcc, ulps=8),
    "Ndtri": Drawn(probability, ulps=4),
    "NthElement": Drawn(nth_element),
    "Print": Drawn(lambda rng: {"input": normal(rng, 3), "data": [normal(rng, 2)], "first_n": 0}),
    "RaggedGather": Drawn(ragged_rows),
    "RaggedRange": Drawn(ragged_range),
    "RaggedTensorToSparse": Drawn(ragged_to_sparse),
    "RaggedTensorToTensor": Drawn(ragged_to_tensor),
    "ResizeArea": Drawn(resize_area, ulps=8),
    "ResizeBicubic": Drawn(resize, ulps=8),
    "ResizeBilinear": Drawn(resize_threefold),
    "ScaleAndTranslate": Drawn(scale_and_translate, ulps=8),
    **{f"Segment{kind}": Drawn(segment, ulps=4) for kind in ("Max", "Mean", "Min", "Prod", "Sum")},
    **{f"SparseDenseCwise{kind}": Drawn(sparse_elementwise) for kind in ("Add", "Div", "Mul")},
    "SparseCross": Drawn(sparse_cross),
    "SparseFillEmptyRows": Drawn(empty_rows),
    "SparseReduceMax": Drawn(sparse_reduce),
    "SparseReduceSum": Drawn(sparse_reduce, ulps=4),
    "SparseReorder": Drawn(sparse_reorder),
    "SparseReshape": Drawn(sparse_reshape),
    **{f"SparseSegment{kind}": Drawn(sparse_segment, ulps=4) for kind in ("Mean", "SqrtN", "Sum")},
    **{
        f"SparseSegment{kind}WithNumSegments": Drawn(sparse_segment_counted, ulps=4)
        for kind in ("Mean", "SqrtN", "Sum")
    },
    "SparseSoftmax": Drawn(sparse, ulps=4),
    "SparseTensorDenseAdd": Drawn(sparse_add),
    "SparseTensorDenseMatMul": Drawn(sparse_matmul, ulps=4),
    "StatelessRandomNormal": Drawn(seeded, ulps=4),
    "StatelessRandomNormalV2": Drawn(keyed, ulps=4),
    "StatelessRandomUniform": Drawn(seeded),
    "StatelessRandomUniformV2": Drawn(keyed),
    "TopKV2": Drawn(top_k),
    "TridiagonalSolve": Drawn(tridiagonal, ulps=256),
    "UniqueWithCounts": Drawn(unique_with_counts),
    "UniqueWithCountsV2": Drawn(unique_with_counts_2),
    "UnravelIndex": Drawn(unravel_index),
    "UpperBound": Drawn(upper_bound),
}


def test_every_rewrite_is_drawn() -> None:
    # Steps of the runtime, which TensorFlow cannot run, sizes that XLA alone bounds, and lists, which no fetch is: in
    # the zoo.
    compiled = re.compile("NonMaxSuppression|CombinedNonMaxSuppression|SparseToDense$|Unique$|TensorList")
    assert set(OPS) == {op for op in REWRITES if not compiled.match(op)}


@pytest.mark.parametrize("op", OPS)
def test_answers_as_tensorflow_does(op: str) -> None:
    assert_same(op, OPS[op])


@pytest.mark.parametrize(
    ("op", "draw"),
    [
        ("RaggedTensorToTensor", ragged_twice_to_tensor),
        ("RaggedTensorToTensor", ragged_to_tensor_as_it_comes),
        ("RaggedTensorToSparse", ragged_to_sparse_as_it_comes),
    ],
)
def test_ragged_rows_that_are_fed_or_of_ragged_rows(op: str, draw: Callable[[Rng], Arguments]) -> None:
    assert_same(op, Drawn(draw))


def test_a_resize_that_xla_gets_right_stays_as_it_is() -> None:
    arguments = {"images": np.zeros((1, 4, 6, 1), "float32"), "size": Known([8, 3]), "half_pixel_centers": True}
    definition, _, _ = graph_of("ResizeBilinear", [arguments])
    assert needs_rewriting(definition)
    assert not rewrite_ops(definition).changed


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("Abs", {"x": np.ones(3, "float32")}),
        ("ArgMax", {"input": np.ones((2, 3), "int32"), "dimension": Known(1)}),
        ("Bucketize", {"input": np.ones(3, "int32"), "boundaries": [0.0, 2.0]}),
        ("Cast", {"x": np.ones(3, "int32"), "DstT": np.int64}),
        ("Cast", {"x": np.ones(3, "float32"), "DstT": np.uint8}),
        ("TopKV2", {"input": np.ones((2, 3), "int32"), "k": Known(2)}),
    ],
)
def test_types_that_xla_gets_right_stay_as_they_are(op: str, arguments: Arguments) -> None:
    definition, _, _ = graph_of(op, [arguments])
    assert not needs_rewriting(definition)


def test_a_size_is_computed_beside_ops_that_tensorflow_cannot_run() -> None:
    """Channels first, which it has no kernel for."""
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [1, 4, 6, 8])
        tf.nn.depth_to_space(x, 2, "NCHW")
        tf.raw_ops.ResizeBicubic(images=x, size=tf.cumsum([3, 2]))
        found = rewrite_ops(graph.as_graph_def())
    assert (found.changed, found.refused) == (True, ())


@pytest.mark.parametrize(
    ("op", "arguments", "reason"),
    [
        (
            "SegmentSum",
            {"data": np.ones(3, "float32"), "segment_ids": np.array([0, 0, 1])},
            "input 1 is not a constant",
        ),
        ("MatrixDeterminant", {"input": np.ones((2, 2), "complex64")}, "its matrix is complex"),
        (
            "MaxPoolWithArgmax",
            {
                "input": np.ones((1, 40, 40, 1), "float32"),
                "ksize": [1, 40, 40, 1],
                "strides": [1] * 4,
                "padding": "VALID",
            },
            "its window has 1600 places",
        ),
    ],
)
def test_says_why_it_cannot(op: str, arguments: Arguments, reason: str) -> None:
    definition, _, _ = graph_of(op, [arguments])
    ((path, refused, why),) = rewrite_ops(definition).refused
    assert (path, refused) == ("node_0", op)
    assert reason in why


def channels_first(rng: Rng) -> dict[str, Arguments]:
    """Arguments by op."""
    x, taps = normal(rng, 2, 4, *rng.integers(7, 12, 2)), normal(rng, *rng.integers(1, 4, 2), 4, 3)
    stride, rate, padding = int(rng.integers(1, 4)), int(rng.integers(1, 3)), str(rng.choice(["SAME", "VALID"]))
    moves = {"strides": [1, 1, stride, stride], "padding": padding, "data_format": "NCHW"}
    window = {"ksize": [1, 1, *rng.integers(1, 4, 2).tolist()], **moves, "strides": [1, 1, stride, 2]}
    sizes = np.array([2, 3, *(n * 2 + 1 for n in x.shape[2:])])
    around = {**moves, "padding": "EXPLICIT", "explicit_paddings": [0, 0, 0, 0, *rng.integers(0, 3, 4).tolist()]}
    blocks, deep = normal(rng, 1, 8, 4, 6), normal(rng, 1, 3, 5, 6, 7)
    deep_moves = {"strides": [1, 1, 1, stride, 2], "padding": padding, "data_format": "NCDHW"}
    return {
        "Conv2D": {"input": x, "filter": taps, **moves, "dilations": [1, 1, rate, 1]},
        "Conv2D padded": {"input": x, "filter": taps, **around},
        "Conv2DBackpropInput": {
            "input_sizes": Known(sizes),
            "filter": normal(rng, 3, 3, 3, 4),
            "out_backprop": x,
            **moves,
            "strides": [1, 1, 2, 2],
            "padding": "VALID",
        },
        "DepthwiseConv2dNative": {"input": x, "filter": taps, **moves, "dilations": [1, 1, 2, rate]},
        "DepthwiseConv2dNative last": {
            "input": x,
            "filter": normal(rng, 3, 2, x.shape[3], 1),
            "strides": [1] * 4,
            "padding": padding,
            "dilations": [1, rate, 2, 1],
        },
        "MaxPool": {"input": x, **window},
        "AvgPool": {"value": x, **window},
        "DepthToSpace": {"input": blocks, "block_size": 2, "data_format": "NCHW"},
        "SpaceToDepth": {"input": blocks, "block_size": 2, "data_format": "NCHW"},
        "Conv3D": {"input": deep, "filter": normal(rng, 2, 3, 2, 3, 4), **deep_moves},
        "MaxPool3D": {"input": deep, "ksize": [1, 1, 2, 3, 2], **deep_moves},
        "AvgPool3D": {"input": deep, "ksize": [1, 1, 2, 3, 2], **deep_moves},
    }


def test_layouts_that_tensorflow_has_no_kernel_for_answer_as_xla_does() -> None:
    for name, arguments in channels_first(np.random.default_rng(0)).items():
        op = name.split()[0]
        definition, feeds, fetches = graph_of(op, [arguments])
        found = rewrite_ops(definition, choose_cpu_rewrite)
        assert (found.changed, found.refused) == (True, ())
        ((got,),) = run(inline_calls(found.definition, [*feeds, *fetches[0]]), feeds, fetches)

        assert_near(got, by_xla(op, arguments), ulps=16)


def by_xla(op: str, arguments: Arguments) -> Array:
    tf = import_tensorflow()
    fed = [value for value in arguments.values() if isinstance(value, np.ndarray)]

    @tf.function(jit_compile=True, autograph=False)
    def compiled(*tensors: Any) -> Any:
        left = iter(tensors)
        given = {
            key: next(left) if isinstance(value, np.ndarray) else getattr(value, "array", value)
            for key, value in arguments.items()
        }
        return getattr(tf.raw_ops, op)(**given)

    return np.asarray(compiled(*fed))


def assert_same(op: str, drawn: Drawn) -> None:
    """In one graph for all draws, as it is and rewritten."""
    rngs = (np.random.default_rng([zlib.crc32(op.encode()), number]) for number in range(drawn.draws))
    definition, feeds, fetches = graph_of(op, [drawn.draw(rng) for rng in rngs])
    found = rewrite_ops(definition)
    assert found.refused == ()
    assert found.changed
    fetches = [[tensors[i] for i in drawn.outputs or range(len(tensors))] for tensors in fetches]
    # Inlined, as in a build: TensorFlow optimises functions that it calls, and divides by a constant otherwise.
    rewritten = inline_calls(found.definition, [*feeds, *(name for tensors in fetches for name in tensors)])
    for wanted, got in zip(run(definition, feeds, fetches), run(rewritten, feeds, fetches), strict=True):
        for want, answer in zip(wanted, got, strict=True):
            assert (want.dtype, want.shape) == (answer.dtype, answer.shape)
            assert_near(answer, want, drawn.ulps)


def assert_near(got: Array, want: Array, ulps: float) -> None:
    if want.dtype.kind != "f" or ulps == 0:
        np.testing.assert_array_equal(got, want)
        return
    peak = np.abs(want[np.isfinite(want)]).max(initial=0.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=ulps * peak * np.finfo(want.dtype).eps)


def graph_of(op: str, draws: list[Arguments]) -> tuple[Any, dict[str, Array], list[list[str]]]:
    """One node for each draw, the feeds of all, and the names of the outputs of each."""
    tf = import_tensorflow()
    feeds: dict[str, Array] = {}

    def tensor(value: Any) -> Any:
        match value:
            case Known():
                return tf.constant(value.array)
            case np.ndarray() | np.generic():
                placeholder = tf.compat.v1.placeholder(value.dtype, value.shape)
                feeds[placeholder.name] = np.asarray(value)
                return placeholder
            case [Known() | np.ndarray(), *_]:
                return [tensor(one) for one in value]
        return value

    fetches = []
    with tf.Graph().as_default() as graph:
        for number, arguments in enumerate(draws):
            given = {name: tensor(value) for name, value in arguments.items()}
            getattr(tf.raw_ops, op)(**given, name=f"node_{number}")
            node = graph.get_operation_by_name(f"node_{number}")
            fetches.append([output.name for output in node.outputs])
        return graph.as_graph_def(), feeds, fetches


def run(definition: Any, feeds: Mapping[str, Array], fetches: list[list[str]]) -> list[list[Array]]:
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        with reference_session(graph) as session:
            return list(session.run(fetches, feeds))
