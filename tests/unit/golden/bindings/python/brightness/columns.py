"""Columns of rows as NumPy arrays: of dicts of arrays, of Arrow's batches and tables, of pandas' data frames.

Arrow and pandas are imported only where they are given. Where memory already holds what is wanted, nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import ModelError

Array = np.ndarray[Any, np.dtype[Any]]


def form(batch: Any) -> str:
    """``dict``, ``pyarrow`` or ``pandas``: what ``batch`` is of. Raises ModelError."""
    library = type(batch).__module__.partition(".")[0]
    if isinstance(batch, Mapping):
        return "dict"
    if library in ("pyarrow", "pandas"):
        return library
    raise ModelError(f"a batch is a dict of arrays, or of Arrow or pandas, not {type(batch).__name__}")


def column(batch: Any, name: str) -> Any:
    """The column ``name``. Raises ModelError."""
    names = batch.schema.names if form(batch) == "pyarrow" else list(batch)
    if name not in names:
        raise ModelError(f"the batch has no column {name}; it has {', '.join(map(str, names)) or 'none'}")
    return batch.column(name) if form(batch) == "pyarrow" else batch[name]


def array(batch: Any, name: str, dtype: str) -> Array:
    """The column ``name`` as numbers, [rows, ...]; a column of bytes as [rows, numbers in each].

    Raises ModelError if it is not of ``dtype``, has rows of several lengths, or rows without a value.
    """
    found = column(batch, name)
    if form(batch) == "pyarrow":
        chunks = [_of_arrow(chunk, name, dtype) for chunk in getattr(found, "chunks", [found])]
        if len({chunk.shape[1:] for chunk in chunks if len(chunk)}) > 1:
            raise ModelError(f"column {name} has rows of several lengths")
        chunks = [chunk for chunk in chunks if len(chunk)] or chunks[:1] or [np.empty(0, dtype)]
        numbers = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    else:
        numbers = _of_objects(np.asarray(found), name, dtype)
    if not numbers.ndim:
        raise ModelError(f"column {name} is one number, and not one for each row")
    if len(numbers) and numbers.dtype != np.dtype(dtype):
        raise ModelError(f"column {name} has {numbers.dtype}, and the model takes {dtype}")
    return np.ascontiguousarray(numbers)


def files(batch: Any, name: str) -> list[bytes]:
    """The column ``name``, of bytes; empty where a row has no value. Raises ModelError."""
    found = column(batch, name)
    cells = found.to_pylist() if form(batch) == "pyarrow" else list(found)
    if not all(cell is None or isinstance(cell, bytes | bytearray | memoryview) for cell in cells):
        raise ModelError(f"column {name} is not of files, which are objects of bytes")
    if getattr(found, "dtype", None) is not None and getattr(found.dtype, "kind", "") == "S":
        raise ModelError(f"column {name} is of NumPy's strings, which lose zeros at the end: make it dtype=object")
    return [bytes(cell or b"") for cell in cells]


def like(batch: Any, columns: Mapping[str, Array], keep: Sequence[str]) -> Any:
    """``columns``, after those of ``batch`` that ``keep`` names, in the form of ``batch``.

    A row of more numbers than one is a list in Arrow, and an array in pandas. Raises ModelError.
    """
    kept = {name: column(batch, name) for name in keep}
    kind = form(batch)
    if kind == "dict":
        return kept | dict(columns)
    if kind == "pandas":
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

        plain = {name: value.to_numpy() for name, value in kept.items()}
        return pandas.DataFrame(plain | {name: _cells(values) for name, values in columns.items()})
    made = kept | {name: _to_arrow(values) for name, values in columns.items()}
    return type(batch).from_arrays(list(made.values()), names=list(made))


def _of_objects(found: Array, name: str, dtype: str) -> Array:
    """An array as it is, or what the cells of an array of objects are together."""
    if found.dtype != object:
        return found
    if not len(found):
        return np.empty(0, dtype)
    if all(isinstance(cell, bytes) for cell in found):
        if len({len(cell) for cell in found}) > 1:
            raise ModelError(f"column {name} has rows of several lengths")
        return _numbers(np.frombuffer(b"".join(found), np.uint8), len(found), name, dtype)
    if not all(isinstance(cell, np.ndarray) for cell in found):
        raise ModelError(f"column {name} has cells that are neither arrays nor bytes")
    if len({cell.shape for cell in found}) > 1:
        raise ModelError(f"column {name} has rows of several lengths")
    # Spark gives an array of arrays as objects of objects.
    return np.stack([_of_objects(cell, name, dtype) for cell in found])


def _of_arrow(chunk: Any, name: str, dtype: str) -> Array:
    import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from pyarrow import types  # type: ignore[import-untyped,import-not-found,unused-ignore]

    rows, shape = len(chunk), [len(chunk)]
    while isinstance(chunk.type, pyarrow.BaseExtensionType):  # a tensor, whose rows are stored as lists
        order = list(getattr(chunk.type, "permutation", None) or [])
        if order != sorted(order):
            raise ModelError(f"column {name} has tensors whose dimensions are not in their order")
        shape = [rows, *getattr(chunk.type, "shape", ())]
        chunk = chunk.storage
    lengths = [rows]
    while types.is_list(chunk.type) or types.is_large_list(chunk.type) or types.is_fixed_size_list(chunk.type):
        _require_values(chunk, name)
        if not rows:
            return np.empty(0, dtype)
        fixed = types.is_fixed_size_list(chunk.type)
        lengths.append(chunk.type.list_size if fixed else _length(chunk.offsets.to_numpy(), name))
        chunk = chunk.flatten()
    _require_values(chunk, name)
    if types.is_binary(chunk.type) or types.is_large_binary(chunk.type) or types.is_fixed_size_binary(chunk.type):
        return _numbers(_stored(chunk, name), rows, name, dtype) if rows else np.empty(0, dtype)
    if not (types.is_integer(chunk.type) or types.is_floating(chunk.type) or types.is_boolean(chunk.type)):
        raise ModelError(f"column {name} has {chunk.type}, and the model takes {dtype}")
    numbers: Array = chunk.to_numpy(zero_copy_only=not types.is_boolean(chunk.type))
    return numbers.reshape(shape if len(shape) > 1 else lengths)


def _require_values(chunk: Any, name: str) -> None:
    if chunk.null_count:
        raise ModelError(f"column {name} has rows without a value")


def _length(offsets: Array, name: str) -> int:
    """Of each row, where all have one."""
    lengths = np.diff(offsets)
    if (lengths != lengths[0]).any():
        raise ModelError(f"column {name} has rows of several lengths")
    return int(lengths[0])


def _stored(chunk: Any, name: str) -> Array:
    """The bytes of rows that are of bytes and of one length."""
    buffers, start, rows = chunk.buffers(), chunk.offset, len(chunk)
    if len(buffers) == 2:  # of a fixed size
        width = chunk.type.byte_width
        return np.frombuffer(buffers[1], np.uint8)[start * width : (start + rows) * width]
    wide = np.int64 if str(chunk.type).startswith("large") else np.int32
    offsets = np.frombuffer(buffers[1], wide)[start : start + rows + 1]
    _length(offsets, name)
    return np.frombuffer(buffers[2] or b"", np.uint8)[offsets[0] : offsets[-1]]


def _numbers(data: Array, rows: int, name: str, dtype: str) -> Array:
    """``data`` as ``rows``, one or more, of as many numbers."""
    each, size = len(data) // rows, np.dtype(dtype).itemsize
    if each % size:
        raise ModelError(f"column {name} has rows of {each} bytes, which are no whole numbers of {dtype}")
    return data.view(dtype).reshape(rows, each // size)


def _cells(values: Array) -> Any:
    """Of a row of several numbers one array; of arrays in arrays lists, as Spark takes them."""
    return values if values.ndim == 1 else list(values) if values.ndim == 2 else values.tolist()


def _to_arrow(values: Array) -> Any:
    import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]

    found = pyarrow.array(values.reshape(-1).tolist() if values.dtype.kind == "U" else values.reshape(-1))
    for axis in range(values.ndim - 1, 0, -1):
        count = int(np.prod(values.shape[:axis]))
        large = len(found) > np.iinfo(np.int32).max
        offsets = np.arange(count + 1, dtype=np.int64 if large else np.int32) * values.shape[axis]
        lists = pyarrow.LargeListArray if large else pyarrow.ListArray
        found = lists.from_arrays(pyarrow.array(offsets.astype(np.int64 if large else np.int32)), found)
    return found
