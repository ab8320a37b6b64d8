"""Steps that the function runs (handler/text/words.py) in place of ops on strings and between strings and numbers.

Each op is translated alone, with its attributes. An op that is not known here, or not with these attributes, is refused
by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from builder.importers.strings.regex import NotTranslatedError, parse_rewrite, translate_pattern

KIND = "words"

Values = np.ndarray[Any, Any]
Attributes = dict[str, Any]

ALIASES = frozenset({"EnsureShape", "Identity", "PreventGradient", "Snapshot", "StopGradient"})
"""Ops that return their input."""


class NotAStepError(Exception):
    """The reason why the function cannot run an op."""


@dataclass
class Recipe:
    """The contents of the file ``model.words``; inputs, constants and results of steps are numbered in this order."""

    inputs: list[Attributes]
    constants: list[Attributes] = field(default_factory=list)
    tables: list[Attributes] = field(default_factory=list)
    steps: list[Attributes] = field(default_factory=list)
    outputs: list[Attributes] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)
    tokens: Attributes | None = None

    def to_bytes(self) -> bytes:
        """Return the file, with the same bytes for the same recipe."""
        head = json.dumps({"kind": KIND})
        fields = {key: value for key, value in vars(self).items() if value is not None}
        return f"{head}\n{json.dumps(fields, separators=(',', ':'))}\n".encode("ascii")


def join_recipes(files: Mapping[str, bytes]) -> bytes:
    """Return the file of a model with several signatures, a line for each; ``files``: by name of the signature."""
    head = json.dumps({"kind": KIND, "signatures": list(files)}).encode("ascii")
    return b"\n".join([head, *(data.partition(b"\n")[2].rstrip(b"\n") for data in files.values()), b""])


def encode_constant(value: Any) -> Attributes:
    """Return the entry of a tensor that steps read."""
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        return {"shape": list(array.shape), "strings": [_decode_text(text) for text in array.ravel().tolist()]}
    return {"shape": list(array.shape), "numbers": array.ravel().tolist()}


def encode_table(keys: Values, values: Values) -> Attributes:
    """Return the entry of a table of words or numbers. Raises NotAStepError if it has a key twice."""
    key_list, entries = keys.tolist(), values.tolist()
    if len(set(key_list)) != len(key_list):
        raise NotAStepError("its table has a key twice")
    strings, string_values = keys.dtype.kind in "OS", values.dtype.kind in "OS"
    result: Attributes = {"strings": strings, "keys": [*map(_decode_text, key_list)] if strings else key_list}
    if not string_values and entries and entries == list(range(entries[0], entries[0] + len(entries))):
        return result | {"first": entries[0]}
    return result | {
        "string_values": string_values, "values": [*map(_decode_text, entries)] if string_values else entries,
    }  # fmt: skip


def _decode_text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class StringStep:
    """A step of the function; ``of``: the numbers of the op's inputs that the step reads."""

    op: str
    of: tuple[int, ...]
    attributes: Attributes


Known = Callable[[Any], Any]
"""A function from a tensor to its value if it is constant, else to None."""


def translate_op(op: Any, known: Known, table_of: Callable[[Any], int]) -> StringStep:
    """Return the step in place of the tf.Operation ``op``.

    ``table_of``: a function from the tensor of a handle to its table's number. Raises NotAStepError.
    """
    if op.type == "LookupTableFindV2":
        if op.inputs[2].shape.rank not in (0, None):
            raise NotAStepError("its default is no single value")
        return StringStep(op.type, (1, 2), {"table": table_of(op.inputs[0])})
    if op.type in _PATTERNS:
        return _translate_regex_op(op, known)
    if op.type not in _ATTRIBUTES:
        raise NotAStepError("the function does not know it")
    if op.type in _ARITHMETIC and any(t.dtype.is_floating or t.dtype.is_complex for t in op.inputs):
        raise NotAStepError(f"the function has it for whole numbers, and this is {op.inputs[0].dtype.name}")
    return StringStep(op.type, tuple(range(len(op.inputs))), _ATTRIBUTES[op.type](op, known))


_PATTERNS = frozenset({"RegexFullMatch", "RegexReplace", "StaticRegexFullMatch", "StaticRegexReplace"})

_ARITHMETIC = frozenset({
    "AddV2", "Bincount", "Cumsum", "DenseBincount", "FloorDiv", "FloorMod", "Max", "Maximum", "Min", "Minimum", "Mul",
    "Neg", "Prod", "RaggedBincount", "RaggedRange", "Range", "Sub", "Sum",
})  # fmt: skip
"""Ops on integers alone, because floats would be rounded in another way than in TensorFlow."""


def _translate_regex_op(op: Any, known: Known) -> StringStep:
    """Return the step of an op with a regular expression. Raises NotAStepError."""
    static, replaces = op.type.startswith("Static"), op.type.endswith("Replace")

    def text(attribute: str, number: int) -> str:
        value = op.get_attr(attribute) if static else known(op.inputs[number])
        if value is None:
            raise NotAStepError(f"its {attribute} is not constant")
        return bytes(value if static else np.asarray(value).item()).decode()

    pattern = text("pattern", 1)
    try:
        translated = translate_pattern(pattern, whole=not replaces)
        attributes: Attributes = {"pattern": translated.pattern, "cost": translated.cost, "slope": translated.slope}
        if replaces:
            attributes["rewrite"] = parse_rewrite(text("rewrite", 2), translated.groups)
            attributes["everywhere"] = bool(op.get_attr("replace_global"))
    except UnicodeDecodeError as error:
        raise NotAStepError("its pattern is not UTF-8") from error
    except NotTranslatedError as error:
        raise NotAStepError(f"its pattern {pattern!r} has what coldforge does not translate: {error}") from error
    return StringStep("RegexReplace" if replaces else "RegexFullMatch", (0,), attributes)


def _translate_plain(op: Any, known: Known) -> Attributes:
    return {}


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise NotAStepError(why)


def _copy_attributes(*names: str) -> Callable[[Any, Known], Attributes]:
    """Return a function that copies attributes (numbers, bools and strings) under their own names."""

    def attributes(op: Any, known: Known) -> Attributes:
        return {name: _simplify_value(op.get_attr(name)) for name in names}

    return attributes


def _simplify_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return _decode_text(value)
    return [_simplify_value(item) for item in value] if isinstance(value, list | tuple) else value


def _translate_cast(op: Any, known: Known) -> Attributes:
    to = op.outputs[0].dtype
    _require(to.is_integer or to.is_bool or to.is_floating, f"to {to.name}")
    _require(op.inputs[0].dtype.is_integer or op.inputs[0].dtype.is_bool or to.is_floating, "of a fraction")
    return {"to": "bool" if to.is_bool else "int" if to.is_integer else "float"}


def _require_vector(op: Any, known: Known) -> Attributes:
    _require(op.inputs[0].shape.rank in (1, None), "its input is no vector")
    return {}


def _translate_cumsum(op: Any, known: Known) -> Attributes:
    return _require_vector(op, known) | _copy_attributes("exclusive", "reverse")(op, known)


def _translate_gather(op: Any, known: Known) -> Attributes:
    _require(not op.get_attr("batch_dims"), "with batch_dims")
    return {}


def _translate_select(op: Any, known: Known) -> Attributes:
    ranks = [tensor.shape.rank for tensor in op.inputs]
    _require(ranks[0] is not None and ranks[0] in (0, ranks[1]), "its condition is of another shape than its values")
    return {}


def _translate_ragged_to_tensor(op: Any, known: Known) -> Attributes:
    ranks = op.inputs[1].shape.rank, op.inputs[2].shape.rank
    _require(ranks[0] in (1, None) and ranks[1] in (0, None), "its values are no single numbers")
    return _copy_attributes("row_partition_types")(op, known)


def _translate_split(op: Any, known: Known) -> Attributes:
    separator = known(op.inputs[1])
    _require(separator is not None, "its separator is not constant")
    _require_utf8(np.asarray(separator).item(), "its separator")
    return _require_vector(op, known) | _copy_attributes("maxsplit")(op, known)


def _require_utf8(text: bytes, what: str) -> None:
    """Raise NotAStepError if a text that is cut or joined at ``text`` might not stay UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise NotAStepError(f"{what} is not UTF-8") from error


def _translate_unicode(op: Any, known: Known) -> Attributes:
    way = "input_encoding" if op.type.startswith("UnicodeDecode") else "output_encoding"
    encoding = op.get_attr(way).decode()
    _require(encoding.upper() in ("UTF-8", "UTF8"), f"of {encoding}, and not of UTF-8")
    if way == "input_encoding":
        _require(not op.get_attr("replace_control_characters"), "it replaces control characters")
        return _require_vector(op, known)
    return {}


def _translate_case(op: Any, known: Known) -> Attributes:
    encoding = op.get_attr("encoding").decode()
    _require(encoding in ("", "utf-8"), f"of {encoding}")
    return {"encoding": encoding} if encoding else {}


def _translate_substr(op: Any, known: Known) -> Attributes:
    _require(op.get_attr("unit") == b"UTF8_CHAR", 'it counts bytes, and may cut a character: give unit="UTF8_CHAR"')
    return {}


def _translate_as_string(op: Any, known: Known) -> Attributes:
    dtype = op.inputs[0].dtype
    _require(dtype.is_integer or dtype.is_bool, f"of {dtype.name}")
    _require(op.get_attr("width") == -1 and not op.get_attr("fill"), "with a width")
    return {}


def _translate_fingerprint(op: Any, known: Known) -> Attributes:
    method = known(op.inputs[1])
    _require(method is not None and np.asarray(method).item() == b"farmhash64", "of another method than farmhash64")
    _require(
        op.inputs[0].dtype.name == "string" and op.inputs[0].shape.rank == 1, "of anything but a vector of strings"
    )
    return {}


def _translate_bitcast(op: Any, known: Known) -> Attributes:
    names = [tensor.dtype.name for tensor in (op.inputs[0], op.outputs[0])]
    _require(names == ["uint8", "int64"], f"from {names[0]} to {names[1]}")
    return {}


def _translate_to_number(op: Any, known: Known) -> Attributes:
    dtype = op.outputs[0].dtype
    return {"bits": 8 * dtype.size, "whole": bool(dtype.is_integer)}


def _translate_reduce_join(op: Any, known: Known) -> Attributes:
    axes, rank = known(op.inputs[1]), op.inputs[0].shape.rank
    _require(rank is not None and axes is not None, "along axes that are not known")
    _require([int(axis) % rank for axis in np.ravel(axes)] == [rank - 1], "along another axis than the last")
    return _copy_attributes("separator", "keep_dims")(op, known)


_REDUCE = _copy_attributes("keep_dims")
_MASKS = _copy_attributes("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")

_ATTRIBUTES: Mapping[str, Callable[[Any, Known], Attributes]] = {
    **dict.fromkeys(
        (
            "AddV2", "Bincount", "BroadcastTo", "ConcatV2", "Equal", "ExpandDims", "Fill", "FloorDiv", "FloorMod",
            "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum",
            "Minimum", "Mul", "Neg", "NotEqual", "OnesLike", "Pad", "PadV2", "RaggedRange", "Range", "Rank", "Reshape",
            "SelectV2", "Shape", "Size", "Slice", "StringStrip", "Sub", "Tile", "Where", "ZerosLike",
        ),
        _translate_plain,
    ),
    **dict.fromkeys(("All", "Any", "Max", "Min", "Prod", "Sum"), _REDUCE),
    "AsString": _translate_as_string,
    "Bitcast": _translate_bitcast,
    "Cast": _translate_cast,
    "Cumsum": _translate_cumsum,
    "Fingerprint": _translate_fingerprint,
    "DenseBincount": _copy_attributes("binary_output"),
    "GatherV2": _translate_gather,
    "Pack": _copy_attributes("axis"),
    "RaggedBincount": _copy_attributes("binary_output"),
    "RaggedTensorToTensor": _translate_ragged_to_tensor,
    "ReduceJoin": _translate_reduce_join,
    "Select": _translate_select,
    "Squeeze": _copy_attributes("squeeze_dims"),
    "StridedSlice": _MASKS,
    "StringJoin": _copy_attributes("separator"),
    "StringLength": _copy_attributes("unit"),
    "StringLower": _translate_case,
    "StringNGrams": _copy_attributes(
        "separator", "ngram_widths", "left_pad", "right_pad", "pad_width", "preserve_short_sequences"
    ),
    "StringSplitV2": _translate_split,
    "StringToHashBucketFast": _copy_attributes("num_buckets"),
    "StringToHashBucketStrong": _copy_attributes("num_buckets", "key"),
    "StringToNumber": _translate_to_number,
    "StringUpper": _translate_case,
    "Substr": _translate_substr,
    "UnicodeDecode": _translate_unicode,
    "UnicodeDecodeWithOffsets": _translate_unicode,
    "UnicodeEncode": _translate_unicode,
}  # fmt: skip

STEPS: frozenset[str] = frozenset(_ATTRIBUTES) | _PATTERNS | ALIASES | {"LookupTableFindV2"}
"""Ops that the function supports; each depends on its inputs alone, and accesses nothing outside of the graph."""

_SAID = ("String", "Fingerprint", "Regex", "Unicode", "ReduceJoin", "AsString", "Substr", "Lookup")


def ops_of(prepared: bytes) -> list[str]:
    """Return the ops on strings in the file ``model.words``, in order; those of tables with the number of keys."""
    recipe = json.loads(prepared.partition(b"\n")[2])
    return [
        f"{step['op']} of {len(recipe['tables'][step['table']]['keys']):,}" if "table" in step else step["op"]
        for step in recipe["steps"]
        if step["op"].startswith(_SAID)
    ]


STRING_STEPS = frozenset(
    op for op in STEPS if op.startswith(("String", "Static", "Regex", "Unicode", "ReduceJoin", "AsString", "Substr"))
) | {"Fingerprint", "HashTableV2", "LookupTableFindV2", "LookupTableSizeV2", "RaggedBincount"}
"""Ops that only a graph with strings may have, and those of its tables."""
