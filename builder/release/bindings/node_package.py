"""Node.js and browsers: the WebAssembly modules and predict.mjs as a package with type declarations."""

from __future__ import annotations

from builder.base.errors import UsageError
from builder.base.escape import comment, javascript_string
from builder.release.bindings.binding_files import Files, Parts, about, fill, wrapped
from builder.release.bindings.describe import Description, Head, Tensor, camel

ARRAYS = {
    "bool": "Uint8Array", "int8": "Int8Array", "uint8": "Uint8Array", "int16": "Int16Array", "uint16": "Uint16Array",
    "int32": "Int32Array", "uint32": "Uint32Array", "int64": "BigInt64Array", "uint64": "BigUint64Array",
    "float32": "Float32Array", "float64": "Float64Array",
}  # fmt: skip


def files(description: Description, parts: Parts) -> Files:
    """``package.json``, ``predict.d.mts`` and what `coldforge wasm` made. Raises UsageError if that is missing."""
    if parts.archive:
        raise UsageError("Node.js runs WebAssembly: --static is for C, Rust and Go.")
    if parts.wasm is None:
        raise UsageError(f"there is no WebAssembly module of {description.name}: run `coldforge wasm` first.")
    names = ("predict.mjs", "model.wasm", "model-baseline.wasm", "model.json")
    return {
        "package.json": fill(
            "node/package.json",
            npm=description.name.lstrip("-_"),  # npm's names begin with a letter or digit
            description=javascript_string(f"{description.title}, compiled by coldforge to WebAssembly"),
        ),
        "predict.d.mts": declarations(description),
        **{name: parts.wasm / name for name in names},
    }


def declarations(description: Description) -> str:
    return fill(
        "node/predict.d.mts",
        title=comment(description.title),
        feeds="\n".join(_member(description, f, f"Given<{ARRAYS[f.spec.dtype]}>") for f in description.feeds),
        fetches="\n".join(_member(description, f, ARRAYS[f.spec.dtype]) for f in description.fetches),
        labels="".join(_labels(head) for head in description.heads if head.kind == "classification"),
        outputs="\n".join(f"  {javascript_string(head.name)}: {_answer(head)};" for head in description.heads),
    )


def _member(description: Description, tensor: Tensor, kind: str) -> str:
    return f"  /** {about(description, tensor)} */\n  {javascript_string(tensor.spec.name)}: {kind};"


def _labels(head: Head) -> str:
    if not head.labelled:
        return f"\nexport type {_type(head)} = string;\n"
    members = wrapped([f"| {javascript_string(label)}" for label in head.labels], 2, after="")
    return f"\n/** The labels of output {comment(head.name)}. */\nexport type {_type(head)} =\n{members};\n"


def _type(head: Head) -> str:
    return f"{camel(head.identifier)}Label"


def _answer(head: Head) -> str:
    if head.kind == "classification":
        rows = head.fetch.sized_by or (head.items > 1 and head.labelled)
        return f"Class<{_type(head)}>[]{'[]' if rows else ''}"
    return "string[]" if head.fetch.spec.dtype in ("int64", "uint64") else "number[]"
