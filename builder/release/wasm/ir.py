"""Edit the LLVM IR that XLA left so that clang compiles it for WebAssembly.

It is the IR before LLVM's optimiser, so only two lines at the top are about x86: addresses are computed with LLVM's own
types, whose layout the target decides. XLA would have added its mathematical functions later: they are declared and not
defined. They get ours (``runtime/wasm/math.c``), and so do LLVM's that have a fast one.
"""

from __future__ import annotations

import re

from builder.base.errors import LowerError

_FUNCTIONS = "exp|log|log1p|tanh|erf|rsqrt"
"""Functions in runtime/wasm/math.c, for f32 and f64. LLVM's others become calls of the C library."""

_CALLED = re.compile(rf"@(?:xla|llvm)\.({_FUNCTIONS})\.((?:v\d+)?f(?:32|64))(?=\()")
_DECLARED = re.compile(r"^declare (?P<type>[^@]+?) @(?P<name>[\w.]+)\((?P<arguments>.*)\).*$", re.MULTILINE)
_OURS = re.compile(rf"cf\.({_FUNCTIONS})\.(?:v(\d+))?(f32|f64)")
_TO_BFLOAT = re.compile(r"xla\.fptrunc\.(?:v(\d+))?f32\.to\.(?:v\d+)?bf16")
_TYPES = {"f32": "float", "f64": "double"}


def adapt_ir(text: str) -> str:
    """Return the module ``text`` without its target, and with every function of XLA's defined.

    Raises LowerError for an unknown function of XLA's or an x86 instruction.
    """
    text = re.sub(r"^target (?:datalayout|triple) = .*\n", "", text, flags=re.MULTILINE)
    text = _CALLED.sub(r"@cf.\1.\2", text)
    needed: dict[str, str] = {}

    def define(match: re.Match[str]) -> str:
        name, kind = match["name"], match["type"]
        if known := _OURS.fullmatch(name):
            scalar = f"cf_{known[1]}_{known[3]}"
            needed[scalar] = _TYPES[known[3]]
            return _format_lane_function(name, scalar, _TYPES[known[3]], int(known[2] or 0))
        if rounding := _TO_BFLOAT.fullmatch(name):
            return _to_bfloat(name, int(rounding[1] or 0))
        if name.startswith("xla.fptrunc."):
            return _format_function(name, kind, match["arguments"], f"  %y = fptrunc {match['arguments']} %x to {kind}")
        if name.startswith(("xla.", "llvm.x86.")):
            raise LowerError(f"XLA's kernels call {name}, which coldforge has no code for yet; report this model.")
        return match[0]

    text = _DECLARED.sub(define, text)
    return text + "\n" + "\n".join(f"declare {kind} @{name}({kind})" for name, kind in sorted(needed.items())) + "\n"


def _format_function(name: str, result: str, argument: str, body: str) -> str:
    return f"define internal {result} @{name}({argument} %x) alwaysinline {{\n{body}\n  ret {result} %y\n}}"


def _format_lane_function(name: str, scalar: str, element: str, lanes: int) -> str:
    """Return a function that calls ``scalar`` for each of its lanes (0: it takes no vector)."""
    if not lanes:
        return _format_function(name, element, element, f"  %y = call {element} @{scalar}({element} %x)")
    kind = f"<{lanes} x {element}>"
    lines, last = [], "poison"
    for i in range(lanes):
        lines += [
            f"  %a{i} = extractelement {kind} %x, i32 {i}",
            f"  %b{i} = call {element} @{scalar}({element} %a{i})",
        ]
        result = "%y" if i == lanes - 1 else f"%c{i}"
        lines.append(f"  {result} = insertelement {kind} {last}, {element} %b{i}, i32 {i}")
        last = result
    return _format_function(name, kind, kind, "\n".join(lines))


def _to_bfloat(name: str, lanes: int) -> str:
    """Return the IR of a conversion to bfloat16, to nearest, ties to even, in integers.

    LLVM has no such conversion for WebAssembly.
    """

    def of(element: str) -> str:
        return f"<{lanes} x {element}>" if lanes else element

    def all_lanes(value: int) -> str:
        return f"splat (i32 {value})" if lanes else str(value)

    bits = of("i32")
    return _format_function(
        name,
        of("bfloat"),
        of("float"),
        f"""\
  %bits = bitcast {of("float")} %x to {bits}
  %high = lshr {bits} %bits, {all_lanes(16)}
  %odd = and {bits} %high, {all_lanes(1)}
  %half = add {bits} %odd, {all_lanes(0x7FFF)}
  %sum = add {bits} %bits, %half
  %rounded = lshr {bits} %sum, {all_lanes(16)}
  %nan = or {bits} %high, {all_lanes(0x40)}
  %isnan = fcmp uno {of("float")} %x, %x
  %chosen = select {of("i1")} %isnan, {bits} %nan, {bits} %rounded
  %short = trunc {bits} %chosen to {of("i16")}
  %y = bitcast {of("i16")} %short to {of("bfloat")}""",
    )
