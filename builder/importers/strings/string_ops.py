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


def translate_op(op: Any, constants: Mapping[Any, Values], table_of: Callable[[Any], int]) -> Attributes:
    """Return the step in place of the tf.Operation ``op``; ``of`` has the numbers of the op's inputs that it reads.

    ``constants``: values by tensor. ``table_of``: a function from the tensor of a handle to its table's number. Raises
    NotAStepError.
    """
    if op.type == "LookupTableFindV2":
        if op.inputs[2].shape.rank not in (0, None):
            raise NotAStepError("its default is no single value")
        return {"op": op.type, "of": [1, 2], "table": table_of(op.inputs[0])}
    if op.type in _PATTERNS:
        return _translate_regex_op(op, constants)
    if op.type not in _ATTRIBUTES:
        raise NotAStepError("the function does not know it")
    if op.type in _ARITHMETIC and any(t.dtype.is_floating or t.dtype.is_complex for t in op.inputs):
        raise NotAStepError(f"the function has it for whole numbers, and this is {op.inputs[0].dtype.name}")
    attributes = {name: _simplify_value(op.get_attr(name)) for name in _ATTRIBUTES[op.type]}
    return {"op": op.type, "of": [*range(len(op.inputs))], **attributes, **_read_settings(op, constants)}


_PATTERNS = frozenset({"RegexFullMatch", "RegexReplace", "StaticRegexFullMatch", "StaticRegexReplace"})

_ARITHMETIC = frozenset({
    "AddV2", "Bincount", "Cumsum", "DenseBincount", "FloorDiv", "FloorMod", "Max", "Maximum", "Min", "Minimum", "Mul",
    "Neg", "Prod", "RaggedBincount", "RaggedRange", "Range", "Sub", "Sum",
})  # fmt: skip
"""Ops on integers alone, because floats would be rounded in another way than in TensorFlow."""


def _translate_regex_op(op: Any, constants: Mapping[Any, Values]) -> Attributes:
    """Return the step of an op with a regular expression. Raises NotAStepError."""
    static, replaces = op.type.startswith("Static"), op.type.endswith("Replace")

    def text(attribute: str, number: int) -> str:
        if static:
            return bytes(op.get_attr(attribute)).decode()
        if op.inputs[number] not in constants:
            raise NotAStepError(f"its {attribute} is not constant")
        return bytes(constants[op.inputs[number]].item()).decode()

    try:
        pattern = text("pattern", 1)
        translated = translate_pattern(pattern, whole=not replaces)
        step: Attributes = {
            "op": "RegexReplace" if replaces else "RegexFullMatch", "of": [0],
            "pattern": translated.pattern, "cost": translated.cost, "slope": translated.slope,
        }  # fmt: skip
        if replaces:
            step["rewrite"] = parse_rewrite(text("rewrite", 2), translated.groups)
            step["everywhere"] = bool(op.get_attr("replace_global"))
    except UnicodeDecodeError as error:
        raise NotAStepError("its pattern is not UTF-8") from error
    except NotTranslatedError as error:
        raise NotAStepError(f"its pattern {pattern!r} has what coldforge does not translate: {error}") from error
    return step


def _simplify_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return _decode_text(value)
    return [_simplify_value(item) for item in value] if isinstance(value, list | tuple) else value


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise NotAStepError(why)


def _read_settings(op: Any, constants: Mapping[Any, Values]) -> Attributes:
    """Return the attributes that a step has under names of our own.

    Raises NotAStepError if the function does not run the op with its attributes, constants, types and ranks.
    """
    source, result = op.inputs[0].dtype, op.outputs[0].dtype
    ranks = [tensor.shape.rank for tensor in op.inputs]
    match op.type:
        case "AsString":
            _require(source.is_integer or source.is_bool, f"of {source.name}")
            _require(op.get_attr("width") == -1 and not op.get_attr("fill"), "with a width")
        case "Bitcast":
            _require((source.name, result.name) == ("uint8", "int64"), f"from {source.name} to {result.name}")
        case "Cast":
            _require(result.is_integer or result.is_bool or result.is_floating, f"to {result.name}")
            _require(source.is_integer or source.is_bool or result.is_floating, "of a fraction")
            return {"to": "bool" if result.is_bool else "int" if result.is_integer else "float"}
        case "Cumsum":
            _require(ranks[0] in (1, None), _NO_VECTOR)
        case "Fingerprint":
            method = constants.get(op.inputs[1])
            _require(method is not None and method.item() == b"farmhash64", "of another method than farmhash64")
            _require(source.name == "string" and ranks[0] == 1, "of anything but a vector of strings")
        case "GatherV2":
            _require(not op.get_attr("batch_dims"), "with batch_dims")
        case "RaggedTensorToTensor":
            _require(ranks[1] in (1, None) and ranks[2] in (0, None), "its values are no single numbers")
        case "ReduceJoin":
            axes, rank = constants.get(op.inputs[1]), ranks[0]
            if rank is None or axes is None:
                raise NotAStepError("along axes that are not known")
            _require([int(axis) % rank for axis in np.ravel(axes)] == [rank - 1], "along another axis than the last")
        case "Select":
            fits = ranks[0] is not None and ranks[0] in (0, ranks[1])
            _require(fits, "its condition is of another shape than its values")
        case "StringLower" | "StringUpper":
            encoding = op.get_attr("encoding").decode()
            _require(encoding in ("", "utf-8"), f"of {encoding}")
            return {"encoding": encoding} if encoding else {}
        case "StringSplitV2":
            separator = constants.get(op.inputs[1])
            if separator is None:
                raise NotAStepError("its separator is not constant")
            try:
                separator.item().decode()
            except UnicodeDecodeError as error:  # A text that is split at it might not stay UTF-8.
                raise NotAStepError("its separator is not UTF-8") from error
            _require(ranks[0] in (1, None), _NO_VECTOR)
        case "StringToNumber":
            return {"bits": 8 * result.size, "whole": bool(result.is_integer)}
        case "Substr":
            counts_characters = op.get_attr("unit") == b"UTF8_CHAR"
            _require(counts_characters, 'it counts bytes, and may cut a character: give unit="UTF8_CHAR"')
        case "UnicodeDecode" | "UnicodeDecodeWithOffsets":
            _require_utf8(op.get_attr("input_encoding"))
            _require(not op.get_attr("replace_control_characters"), "it replaces control characters")
            _require(ranks[0] in (1, None), _NO_VECTOR)
        case "UnicodeEncode":
            _require_utf8(op.get_attr("output_encoding"))
    return {}


_NO_VECTOR = "its input is no vector"


def _require_utf8(encoding: bytes) -> None:
    name = encoding.decode()
    _require(name.upper() in ("UTF-8", "UTF8"), f"of {name}, and not of UTF-8")


_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "AddV2", "AsString", "Bincount", "Bitcast", "BroadcastTo", "Cast", "ConcatV2", "Equal", "ExpandDims",
            "Fill", "Fingerprint", "FloorDiv", "FloorMod", "GatherV2", "Greater", "GreaterEqual", "Less", "LessEqual",
            "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mul", "Neg", "NotEqual", "OnesLike", "Pad",
            "PadV2", "RaggedRange", "Range", "Rank", "Reshape", "Select", "SelectV2", "Shape", "Size", "Slice",
            "StringLower", "StringStrip", "StringToNumber", "StringUpper", "Sub", "Substr", "Tile", "UnicodeDecode",
            "UnicodeDecodeWithOffsets", "UnicodeEncode", "Where", "ZerosLike",
        ),
        (),
    ),
    **dict.fromkeys(("All", "Any", "Max", "Min", "Prod", "Sum"), ("keep_dims",)),
    "Cumsum": ("exclusive", "reverse"),
    "DenseBincount": ("binary_output",),
    "Pack": ("axis",),
    "RaggedBincount": ("binary_output",),
    "RaggedTensorToTensor": ("row_partition_types",),
    "ReduceJoin": ("separator", "keep_dims"),
    "Squeeze": ("squeeze_dims",),
    "StridedSlice": ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"),
    "StringJoin": ("separator",),
    "StringLength": ("unit",),
    "StringNGrams": ("separator", "ngram_widths", "left_pad", "right_pad", "pad_width", "preserve_short_sequences"),
    "StringSplitV2": ("maxsplit",),
    "StringToHashBucketFast": ("num_buckets",),
    "StringToHashBucketStrong": ("num_buckets", "key"),
}  # fmt: skip
"""The attributes that a step has under the names of the op's own, by op."""

STEPS: frozenset[str] = frozenset(_ATTRIBUTES) | _PATTERNS | ALIASES | {"LookupTableFindV2"}
"""Ops that the function supports; each depends on its inputs alone, and accesses nothing outside of the graph."""

_ON_STRINGS = ("String", "Static", "Regex", "Unicode", "ReduceJoin", "AsString", "Substr")
"""The first letters of ops on strings."""


def ops_of(prepared: bytes) -> list[str]:
    """Return the ops on strings in the file ``model.words``, in order; those of tables with the number of keys."""
    recipe = json.loads(prepared.partition(b"\n")[2])
    return [
        f"{step['op']} of {len(recipe['tables'][step['table']]['keys']):,}" if "table" in step else step["op"]
        for step in recipe["steps"]
        if step["op"].startswith((*_ON_STRINGS, "CountTerms", "Fingerprint", "Lookup"))
    ]


STRING_STEPS = frozenset(op for op in STEPS if op.startswith(_ON_STRINGS)) | {
    "Fingerprint", "HashTableV2", "LookupTableFindV2", "LookupTableSizeV2", "RaggedBincount",
}  # fmt: skip
"""Ops that only a graph with strings may have, and those of its tables."""
