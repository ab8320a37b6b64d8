"""The package for Node.js and browsers: the WebAssembly modules and predict.mjs with type declarations."""

from __future__ import annotations

from builder.base.errors import UsageError
from builder.base.escape import escape_comment, javascript_string
from builder.release.bindings.binding_files import BindingSources, Files, describe_tensor, fill_template, wrap_items
from builder.release.bindings.describe import BindingDescription, BindingTensor, OutputHead, to_camel_case

ARRAYS = {
    "bool": "Uint8Array", "int8": "Int8Array", "uint8": "Uint8Array", "int16": "Int16Array", "uint16": "Uint16Array",
    "int32": "Int32Array", "uint32": "Uint32Array", "int64": "BigInt64Array", "uint64": "BigUint64Array",
    "float32": "Float32Array", "float64": "Float64Array",
}  # fmt: skip


def make_node_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return ``package.json``, ``predict.d.mts`` and `coldforge wasm`'s files. Raises UsageError without these."""
    if parts.archive:
        raise UsageError("Node.js runs WebAssembly: --static is for C, Rust and Go.")
    if parts.wasm is None:
        raise UsageError(f"there is no WebAssembly module of {description.name}: run `coldforge wasm` first.")
    names = ("predict.mjs", "model.wasm", "model-baseline.wasm", "model.json")
    return {
        "package.json": fill_template(
            "node/package.json",
            npm=description.name.lstrip("-_"),  # A name in npm begins with a letter or digit.
            description=javascript_string(f"{description.title}, compiled by coldforge to WebAssembly"),
        ),
        "predict.d.mts": format_declarations(description),
        **{name: parts.wasm / name for name in names},
    }


def format_declarations(description: BindingDescription) -> str:
    return fill_template(
        "node/predict.d.mts",
        title=escape_comment(description.title),
        feeds="\n".join(_format_member(description, f, f"Given<{ARRAYS[f.spec.dtype]}>") for f in description.feeds),
        fetches="\n".join(_format_member(description, f, ARRAYS[f.spec.dtype]) for f in description.fetches),
        labels="".join(_format_label_type(head) for head in description.heads if head.kind == "classification"),
        outputs="\n".join(
            f"  {javascript_string(head.name)}: {_format_answer_type(head)};" for head in description.heads
        ),
    )


def _format_member(description: BindingDescription, tensor: BindingTensor, kind: str) -> str:
    return f"  /** {describe_tensor(description, tensor)} */\n  {javascript_string(tensor.spec.name)}: {kind};"


def _format_label_type(head: OutputHead) -> str:
    if not head.labelled:
        return f"\nexport type {_name_label_type(head)} = string;\n"
    members = wrap_items([f"| {javascript_string(label)}" for label in head.labels], 2, after="")
    return (
        f"\n/** The labels of output {escape_comment(head.name)}. */\nexport type "
        f"{_name_label_type(head)} =\n{members};\n"
    )


def _name_label_type(head: OutputHead) -> str:
    return f"{to_camel_case(head.identifier)}Label"


def _format_answer_type(head: OutputHead) -> str:
    if head.kind == "classification":
        rows = head.fetch.sized_by or (head.items > 1 and head.labelled)
        return f"Class<{_name_label_type(head)}>[]{'[]' if rows else ''}"
    return "string[]" if head.fetch.spec.dtype in ("int64", "uint64") else "number[]"
