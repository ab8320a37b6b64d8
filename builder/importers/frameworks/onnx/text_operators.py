"""Operators of ONNX on texts, which are numbers with the list of what they stand for (TextCodes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.onnx.text_codes import TextCodes

_MOVES = {
    "ArrayFeatureExtractor", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "Identity", "Reshape", "Slice",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
"""Operators that move elements, whatever these are."""

_READS = {"CategoryMapper", "LabelEncoder", "OneHotEncoder", "Shape", "Size"}
"""Operators whose functions take TextCodes."""


def holds_texts(value: Value) -> bool:
    """Return whether a value is an array of texts."""
    return isinstance(value, TextCodes) or (isinstance(value, np.ndarray) and value.dtype == object)


def compute_on_texts(
    name: str, compute: Callable[..., Any], inputs: Sequence[Value], attributes: Mapping[str, Any]
) -> Any:
    """Return what the operator ``name`` gives for ``inputs`` of which some are texts. Raises ValueError."""
    values = [_encode_texts(value) if holds_texts(value) else value for value in inputs]
    if name in _READS:
        return compute(*values, **attributes)
    if name == "Cast":
        return _cast_texts(values[0], attributes["to"])
    if name == "Equal":
        first, second = values if values[0].compared else reversed(values)
        if second.compared:
            raise ValueError("it compares two inputs that are strings, which is not supported")
        return first.recode_texts(second.texts) == second.codes
    if name not in _MOVES:
        raise ValueError("it reads strings, which is not supported; see `coldforge docs onnx`")
    arrays = [value for value in values if isinstance(value, TextCodes)]
    texts = tuple(dict.fromkeys(text for array in arrays for text in array.texts))
    compared = tuple({id(texts): texts for array in arrays for texts in array.compared}.values())
    codes = [value.extend_texts(texts) if isinstance(value, TextCodes) else value for value in values]
    results = compute(*codes, **attributes)
    if isinstance(results, (list, tuple)):
        return [TextCodes(result, texts, compared) for result in results]
    return TextCodes(results, texts, compared)


def _encode_texts(value: Value) -> TextCodes:
    if isinstance(value, TextCodes):
        return value
    flat = [str(text) for text in value.reshape(-1)]
    texts = tuple(dict.fromkeys(flat))
    numbers = {text: number for number, text in enumerate(texts)}
    return TextCodes(np.array([numbers[text] for text in flat], np.int32).reshape(value.shape), texts)


def _cast_texts(value: TextCodes, to: int) -> Value:
    """Return texts as they are, or the numbers that they write. Raises ValueError if they are any texts."""
    if to == TensorProto.STRING:
        return value
    if value.compared:
        raise ValueError("it reads numbers from strings: convert the model so that it takes numbers")
    dtype = helper.tensor_dtype_to_np_dtype(to)
    numbers = {text: np.asarray(float(text) if dtype.kind == "f" else int(text), dtype) for text in value.texts}
    return value.look_up(numbers, 0, dtype)
