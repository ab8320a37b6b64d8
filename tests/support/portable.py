"""Integer GEMM for processors that are not this one: a program of some cases, run where it can be."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.project import RUNTIME
from builder.base.targets import ARM64, X86_64
from builder.compiler.link.shared_library import TABLE_SOURCES
from builder.compiler.link.toolchain import Toolchain, run_compiler
from tests.support import needs
from tests.support.fused import CACHE, HAS, Prepared

TARGETS = ["arm64", "wasm-simd", "wasm"]

INSTRUCTIONS = [
    ("cf_integer_v3", "vpmaddwd"),
    ("cf_integer_v4", "vpmaddwd"),
    ("cf_integer_vnni", "vpdpbusd"),
    ("cf_integer_amx", "tdpbusd"),
]
"""Of x86-64's copies: what their inner loops are made of."""

_FLAGS = (
    "-std=c11",
    "-O3",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-sanitize=undefined",
    *HAS,
)


_STRING = """
#include <stddef.h>
void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memset(void *to, int value, size_t count);
"""

# No C library: for these processors there may be none yet, and compiling one takes minutes.
_TEMPLATE = """
__attribute__((no_builtin)) void *memcpy(void *restrict to, const void *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}
__attribute__((no_builtin)) void *memset(void *to, int value, size_t count) {
    for (size_t i = 0; i < count; i++) ((char *)to)[i] = (char)value;
    return to;
}

uint32_t cf_threads(const cf_context *context) {
    (void)context;
    return 1;
}
void cf_parallel_for(cf_context *context, int64_t tasks, cf_task run, void *argument) {
    (void)context;
    for (int64_t i = 0; i < tasks; i++) run(argument, i, 0);
}

extern const cf_fused cf_fused_v3;
static cf_context context = {.fused = &cf_fused_v3};
static _Alignas(64) float outputs[@COUNT@];
@DATA@
float *data(void);
float *data(void) { return outputs; }
void run(void);
void run(void) {
@CALLS@}

#ifdef __aarch64__
static long call(long number, long a, const void *b, long c) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x2 __asm__("x2") = c;
    register const void *x1 __asm__("x1") = b;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
void _start(void);
void _start(void) {
    run();
    for (long at = 0, done; at < (long)sizeof outputs; at += done) {
        done = call(64, 1, (const char *)outputs + at, (long)sizeof outputs - at); /* write */
        if (done <= 0) call(93, 1, NULL, 0); /* exit */
    }
    call(93, 0, NULL, 0);
}
#endif
"""


def compile_variant(name: str, folder: Path) -> Path:
    """The object of one of x86-64's copies, as the builder compiles it."""
    variant = next(v for v in X86_64.list_copies("integer") if v.table == name)
    output = folder / f"{name}.o"
    flags = (*variant.flags, f"-DCF_TABLE={name}")
    Toolchain(X86_64, CACHE).compile_source(
        RUNTIME / TABLE_SOURCES["integer"], output, include=(RUNTIME,), cpu=variant.cpu, flags=flags
    )
    return output


def run(prepared: Sequence[Prepared], target: str, folder: Path) -> list[Any]:
    """The output buffers of the cases. Skips the test, with the reason, where ``target`` cannot be run."""
    source = folder / "cases.c"
    source.write_text(_program(prepared))
    (folder / "string.h").write_text(_STRING)
    sizes = [p.output.buffer.size for p in prepared]
    flat = np.frombuffer(_on_arm64(source) if target == "arm64" else _in_wasm(source, target, sum(sizes)), np.float32)
    return np.split(flat, np.cumsum(sizes)[:-1])


def _on_arm64(source: Path) -> bytes:
    emulator = shutil.which("qemu-aarch64-static") or needs.needs("qemu-aarch64", "qemu-user")
    program = source.with_suffix("")
    options = ["-target", ARM64.triple, f"-mcpu={ARM64.kernel_cpu}", *_FLAGS, "-nostdlib", "-I.", f"-I{RUNTIME}"]
    run_compiler([*options, "-static", *_sources(source), "-o", str(program)], source.parent, CACHE)
    return subprocess.run([emulator, str(program)], capture_output=True, check=True).stdout


def _in_wasm(source: Path, target: str, count: int) -> bytes:
    needs.needs_module("wasmtime")
    from builder.release.wasm.verify_module import WasmInstance

    module = source.with_suffix(".wasm")
    cpu = "generic+simd128" if target == "wasm-simd" else "generic"
    options = ["-target", "wasm32-wasi", f"-mcpu={cpu}", *_FLAGS, "-nostdlib", "-I.", f"-I{RUNTIME}"]
    options += [f"-Wl,--{option}" for option in ("no-entry", "export=run", "export=data")]
    run_compiler([*options, *_sources(source), "-o", str(module)], source.parent, CACHE)
    loaded = WasmInstance(module)
    loaded.call_function("run")
    return loaded.read(loaded.call_function("data"), 4 * count)


def _sources(program: Path) -> tuple[str, str]:
    """With the kernels that integer GEMM passes tiles of rounded inputs on to."""
    return str(program), str(RUNTIME / TABLE_SOURCES["fused"])


def _words(name: str, data: bytes, constant: bool = True) -> str:
    words = ", ".join(f"{word}u" for word in np.frombuffer(data, np.uint32))
    return f"static {'const ' if constant else ''}_Alignas(64) uint32_t {name}[] = {{{words}}};\n"


def _program(prepared: Sequence[Prepared]) -> str:
    """Every case's structures and arrays as they are here, byte for byte, and all outputs in one array."""
    parts, calls, at = [], [], 0
    for number, p in enumerate(prepared):
        parts.append(_words(f"layer_{number}", bytes(p.layer)))
        fields = [f".output = outputs + {at}"]
        for name, array in p.arrays.items():
            if name == "output":
                continue
            # Also what is written to, apart from the output, lies in such an array.
            parts.append(_words(f"{name}_{number}", array.tobytes(), constant=False))
            fields.append(f".{name} = (void *){name}_{number}")
        data = f"&(const cf_layer_data){{{', '.join(fields)}}}"
        calls.append(f"    CF_TABLE(&context, (const cf_layer *)layer_{number}, {data});\n")
        at += p.output.buffer.size
    return f'#include "{RUNTIME / TABLE_SOURCES["integer"]}"\n' + _TEMPLATE.replace("@COUNT@", str(at)).replace(
        "@DATA@", "".join(parts)
    ).replace("@CALLS@", "".join(calls))
