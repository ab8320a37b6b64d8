"""model.h: the ABI's fixed text, and the flat run() of one model."""

from __future__ import annotations

from collections.abc import Mapping

from builder.base.escape import escape_comment
from builder.base.project import RUNTIME
from builder.compiler.lower.program import BoundPort, Program
from builder.config import Variant
from builder.config.tensor import c_identifier

_MARK = "/*@FLAT@*/\n"

C_TYPES = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
}


def format_header(program: Program, others: Mapping[Variant, Program] | None = None) -> str:
    """Format model.h for this model: the ABI, byte sizes as macros, and the prototype of run().

    ``others``: the programs of the model's other batches and sizes.
    """
    text = (RUNTIME / "abi" / "model.h").read_text()
    before, after = text.split(_MARK)
    rows = [
        f"#define CF_{kind}_{c_identifier(p.spec.name).upper()}_SIZE {p.spec.size}u /* {_describe_port(p)} */"
        for kind, ports in (("FEED", program.feeds), ("FETCH", program.fetches))
        for p in ports
    ]
    if program.states:
        names = escape_comment(", ".join(state.spec.name for state in program.states))
        rows.append(f"#define CF_STATE_SIZE {program.state_size}u /* {names} */")
    note = (
        f"/* This model's tensors.{_describe_batches(others or {})} */\n"
        + "\n".join([*rows, *_describe_sizes(others or {})])
        + "\n\n/* One inference in one call, on a model opened at the first call and shared by all callers, who\n"
        " * wait for each other. Sizes are bytes. Returns a cf_status. */\n"
    )
    return f"{before}\n{note}{_format_prototype(program)};\n\n{after.lstrip()}"


def _describe_batches(others: Mapping[Variant, Program]) -> str:
    batches = list(dict.fromkeys(v.batch for v in others if not v.size and not v.signature))
    return f" It runs {' or '.join(map(str, batches))} items at once as well: sizes say how many." if batches else ""


def _describe_sizes(others: Mapping[Variant, Program]) -> list[str]:
    """Format comments with the ports of the model's other sizes and signatures, for the first batch."""
    smallest = min((v.batch for v in others if v.size or v.signature), default=0)
    rows: dict[str, list[str]] = {}
    for variant, other in others.items():
        if variant.batch == smallest and (variant.size or variant.signature):
            title = (
                f"Signature {variant.of}, after cf_set_signature" if variant.of else "Other sizes, for cf_run and run"
            )
            ports = (
                f"{p.spec.name} {_describe_port(p)} of {p.spec.size} bytes" for p in (*other.feeds, *other.fetches)
            )
            rows.setdefault(escape_comment(title), []).append(f" *   {escape_comment(', '.join(ports))}")
    return [line for title, lines in rows.items() for line in (f"/* {title}:", *lines, " */")]


def format_flat_run(program: Program) -> str:
    """Format the definition of run() in program.c."""
    feeds, fetches = (
        ", ".join(f"{{{name}, {name}_size}}" for name in (_name_argument(kind, port) for port in ports))
        for kind, ports in (("feed", program.feeds), ("fetch", program.fetches))
    )
    return (
        f'__attribute__((visibility("default"))) {_format_prototype(program)} {{\n'
        f"    const cf_feed all_feeds[] = {{{feeds}}};\n"
        f"    const cf_fetch all_fetches[] = {{{fetches}}};\n"
        "    return (int)cf_run_shared(all_feeds, COUNT(all_feeds), all_fetches, COUNT(all_fetches));\n}\n"
    )


def _format_prototype(program: Program) -> str:
    arguments = [
        f"{const}{C_TYPES[p.spec.dtype]} *{_name_argument(kind, p)}, size_t {_name_argument(kind, p)}_size"
        for const, kind, ports in (("const ", "feed", program.feeds), ("", "fetch", program.fetches))
        for p in ports
    ]
    return "int run(" + ",\n        ".join(arguments) + ")"


def _name_argument(kind: str, port: BoundPort) -> str:
    return f"{kind}_{c_identifier(port.spec.name)}"


def _describe_port(port: BoundPort) -> str:
    spec = port.spec
    shape = ", ".join(map(str, spec.shape))
    return f"{spec.dtype} [{shape}]" + (f" at most; {spec.shape_fetch} says how much" if spec.dynamic else "")
