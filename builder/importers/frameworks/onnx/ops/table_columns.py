"""Operators of ai.onnx.ml on the columns of a table: scaling, imputing, encoding, choosing and joining them.

Specification: https://onnx.ai/onnx/operators/index.html#ai-onnx-ml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.array_functions import count_below
from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.onnx.text_codes import TextCodes
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()
_ML = "ai.onnx.ml"


@OPS.define("Scaler", domain=_ML)
def scale_columns(x: Value, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)) -> Value:
    """Return (x - offset) scale in float32, with a number for all columns or one for each."""
    return (_as_float(x) - np.array(offset, np.float32)) * np.array(scale, np.float32)


@OPS.define("Normalizer", domain=_ML)
def normalise_rows(x: Value, *, norm: str = "MAX") -> Value:
    """Return each row divided by its largest number or its norm, unless that is 0."""
    x = _as_float(x)
    match norm:
        case "MAX":
            size = jnp.max(x, -1, keepdims=True)
        case "L1":
            size = jnp.sum(jnp.abs(x), -1, keepdims=True)
        case _:
            size = jnp.sqrt(jnp.sum(x * x, -1, keepdims=True))
    return jnp.where(size == 0, x, x / jnp.where(size == 0, 1, size))


@OPS.define("Imputer", domain=_ML)
def impute_values(
    x: Value,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Value:
    """Return ``x`` with the values of its columns in place of one that stands for a missing number."""
    if imputed_value_int64s:
        return jnp.where(x == replaced_value_int64, np.array(imputed_value_int64s, x.dtype), x)
    replaced = np.float32(replaced_value_float)
    missing = jnp.isnan(x) if np.isnan(replaced) else x == replaced
    return jnp.where(missing, np.array(imputed_value_floats, x.dtype), x)


@OPS.define("Binarizer", domain=_ML)
def binarise_values(x: Value, *, threshold: float = 0.0) -> Value:
    """Return 1 where ``x`` is above the threshold, and 0 elsewhere."""
    return (x > np.asarray(threshold, x.dtype)).astype(x.dtype)


@OPS.define("ArrayFeatureExtractor", domain=_ML)
def choose_columns(x: Value, columns: Value) -> Value:
    """Return columns of ``x``: the elements of its last dimension at these places. A single dimension is one row."""
    x = jnp.asarray(x)
    chosen = jnp.take(x, jnp.reshape(columns, -1), -1, mode="clip")
    return chosen[None] if x.ndim == 1 else chosen


@OPS.define("FeatureVectorizer", domain=_ML)
def join_columns(*inputs: Value, inputdimensions: Sequence[int] = ()) -> Value:
    """Return the columns of all inputs in float32, with as many of each as it is said to have: cut, or zeros added."""
    parts = []
    for number, x in enumerate(inputs):
        rows = jnp.reshape(x, (np.shape(x)[0], -1) if np.ndim(x) > 1 else (1, -1)).astype(np.float32)
        width = inputdimensions[number] if inputdimensions else rows.shape[1]
        parts.append(jnp.pad(rows[:, :width], [(0, 0), (0, max(0, width - rows.shape[1]))]))
    return jnp.concatenate(parts, 1)


@OPS.define("OneHotEncoder", domain=_ML)
def encode_categories(
    x: Value, *, cats_int64s: Sequence[int] = (), cats_strings: Sequence[str] = (), zeros: int = 1
) -> Value:
    """Return float32 1 at the place of each element's category along a new last dimension, and 0 elsewhere.

    An element of no category has zeros alone; where ``zeros`` is 0, ONNX Runtime refuses it instead.
    """
    del zeros
    if isinstance(x, TextCodes):
        places = x.recode_texts(cats_strings)
        return (places[..., None] == np.arange(len(cats_strings))).astype(np.float32)
    known = np.array(cats_int64s, np.int64)
    last = np.array([known.tolist().index(value) == i for i, value in enumerate(known.tolist())])
    return ((jnp.asarray(x).astype(np.int64)[..., None] == known) & last).astype(np.float32)


_KINDS: Mapping[str, tuple[Any, Any]] = {
    "strings": (str, "_Unused"),
    "int64s": (np.int64, -1),
    "floats": (np.float32, -0.0),
}
"""The type of the numbers of an attribute of LabelEncoder, by how its name ends, and the default's default."""


@OPS.define("LabelEncoder", domain=_ML)
def encode_labels(x: Value, *, classes_strings: Sequence[str] = (), **attributes: Any) -> Value:
    """Return for each element the value of its key, or the default.

    In version 1, ``classes_strings`` are the keys or values, and their numbers the others.
    """
    if classes_strings:
        numbers = np.arange(len(classes_strings))
        pair = (numbers, np.array(classes_strings, object))
        keys, values = reversed(pair) if isinstance(x, TextCodes) else pair
        default = (
            attributes.get("default_int64", -1)
            if isinstance(x, TextCodes)
            else attributes.get("default_string", "_Unused")
        )
        return map_values(x, keys, values, default)
    keys, _ = _read_list(attributes, "keys")
    values, default = _read_list(attributes, "values")
    given = attributes.get("default_tensor")
    return map_values(x, keys, values, default if given is None else given.reshape(-1)[0])


@OPS.define("CategoryMapper", domain=_ML)
def map_categories(
    x: Value,
    *,
    cats_int64s: Sequence[int],
    cats_strings: Sequence[str],
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Value:
    """Return the number of each string, or the string of each number."""
    numbers, texts = np.array(cats_int64s, np.int64), np.array(cats_strings, object)
    if isinstance(x, TextCodes):
        return map_values(x, texts, numbers, default_int64)
    return map_values(x, numbers, texts, default_string)


@OPS.define("ZipMap", domain=_ML)
def drop_names(x: Value, **_: Any) -> Value:
    """Return the scores that the operator gives names to; they are the output's labels."""
    return x


def map_values(x: Value, keys: Any, values: Any, default: Any) -> Value:
    """Return for each element of ``x`` the one of ``values`` whose key it is, or the default; of equal keys the first.

    NaN is a key like another.
    """
    texts: tuple[str, ...] = ()
    if values.dtype == object:  # Texts become numbers.
        texts = tuple(dict.fromkeys([*values.tolist(), default]))
        values, default = np.array([texts.index(text) for text in values], np.int32), texts.index(default)
    if isinstance(x, TextCodes):
        table = dict(zip(reversed(keys.tolist()), reversed(values.tolist()), strict=True))
        found = x.look_up(table, default, values.dtype)
    else:
        keys, first = np.unique(keys, return_index=True)  # NaN comes last.
        places = jnp.minimum(count_below(keys, x), len(keys) - 1)
        same = jnp.asarray(keys)[places] == x
        if keys.dtype.kind == "f" and np.isnan(keys[-1]):
            same |= jnp.isnan(x)
            places = jnp.where(jnp.isnan(x), len(keys) - 1, places)
        found = jnp.where(same, jnp.asarray(values[first])[places], np.asarray(default, values.dtype))
    return TextCodes(found, texts) if texts else found


def _read_list(attributes: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """Return the keys or values of LabelEncoder, and the default of their type."""
    tensor = attributes.get(f"{name}_tensor")
    if tensor is not None:
        flat = tensor.reshape(-1)
        return flat, "_Unused" if flat.dtype == object else flat.dtype.type(-1 if flat.dtype.kind == "i" else -0.0)
    for kind, (dtype, default) in _KINDS.items():
        if f"{name}_{kind}" in attributes:
            values = np.array(attributes[f"{name}_{kind}"], object if dtype is str else dtype)
            return values, attributes.get(f"default_{kind[:-1]}", default)
    raise ValueError(f"it has no {name}")


def _as_float(x: Value) -> Value:
    return jnp.asarray(x).astype(np.float32)
