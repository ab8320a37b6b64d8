"""Compile the emitted sources, the runtime and XLA's kernels for wasm32, and link them into one module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import file_digest
from builder.base.project import RUNTIME
from builder.base.targets import WASM32
from builder.compiler.emit.generated_sources import GeneratedSources
from builder.compiler.emit.header import format_flat_run, format_header
from builder.compiler.emit.metadata import format_model_json
from builder.compiler.emit.print_program import format_program_source, is_dynamic, list_kernel_kinds, uses_cascades
from builder.compiler.emit.write_weights import format_weights_source, write_weights
from builder.compiler.link.shared_library import (
    KERNEL_SOURCES,
    TABLE_SOURCES,
)
from builder.compiler.link.toolchain import compile_file, run_compiler
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import walk_steps
from builder.config import ModelSpec
from builder.release.wasm.ir import adapt_ir

_COMMON = ("-target", WASM32.triple, "-O3", "-g0", "-fno-math-errno", "-fno-stack-protector", "-fno-sanitize=undefined")
_C = (
    "-std=c11", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-Wall", "-Wextra", "-Werror",
)  # fmt: skip

EXPORTS = (
    "cf_abi_version", "cf_describe", "cf_open", "cf_run", "cf_close", "cf_last_error", "run", "cf_alloc", "cf_free",
)  # fmt: skip
"""Exports besides the memory and WASI's ``_initialize``, which does nothing here."""

STACK = 1 << 20
"""Size of the stack in bytes. It lies before all other memory, so that an overflow traps and writes over no data."""


@dataclass(frozen=True)
class Flavour:
    """One way to compile a module: its file's name, and the names of its instruction set for cf_describe and clang."""

    file: str
    isa: str
    cpu: str


SIMD = Flavour("model.wasm", "simd128", WASM32.kernel_cpu)
BASELINE = Flavour("model-baseline.wasm", "scalar", WASM32.baseline_cpu)
FLAVOURS = (SIMD, BASELINE)


def emit_sources(program: Program, spec: ModelSpec, folder: Path) -> None:
    """Write a program.c per flavour in a folder of its name, and one weights.bin, weights.S and model.h for all."""
    isas = tuple(flavour.isa for flavour in FLAVOURS)
    steps = walk_steps(program.steps)
    sources = GeneratedSources(
        folder,
        tuple(f"{isa}/program.c" for isa in isas),
        isas,
        kernel_kinds=list_kernel_kinds(steps),
        dynamic=is_dynamic(program),
        cascades=uses_cascades(steps),
    )
    for isa, path in zip(isas, sources.programs, strict=True):
        path.parent.mkdir(parents=True)
        description = format_model_json(program, spec, {WASM32.name: [isa]})
        path.write_text(format_program_source(program, description, format_flat_run(program)))
    sources.description.write_text(format_model_json(program, spec, {WASM32.name: [SIMD.isa]}) + "\n")
    sources.header.write_text(format_header(program))
    with sources.weights.open("wb") as file:
        write_weights(program, file)
    (folder / "weights.S").write_text(format_weights_source(sources.weights, wasm=True))
    sources.save()


def link_module(sources: Path, ir: tuple[Path, ...], flavour: Flavour, folder: Path, cache: Path) -> Path:
    """Build the module of ``flavour`` in ``folder`` from ``emit_sources``' folder and XLA's IR.

    Raises LinkError with the compiler's or linker's message (an undefined symbol is an error), and LowerError for IR
    that cannot be edited.
    """
    objects: list[Path] = []

    def build(source: Path, *flags: str, name: str = "", suffix: str = "o") -> Path:
        output = folder / f"{name or source.stem}.{suffix}"
        options = [*_COMMON, f"-mcpu={flavour.cpu}", *flags, f"-I{RUNTIME.resolve()}"]
        compile_file(options, source, output, cache)
        return output

    functions = build(RUNTIME / "wasm" / "math.c", *_C, "-emit-llvm", suffix="bc")
    # The compiler caches objects by their sources and options, so a name has to change with the file's content.
    functions = functions.rename(folder / f"math-{file_digest(functions)[:16]}.bc")
    for number, path in enumerate(ir):
        edited = folder / f"kernels{number}.ll"
        edited.write_text(adapt_ir(path.read_text()))
        linked = ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(functions.resolve()))
        objects.append(build(edited, "-Wno-override-module", *linked))
        edited.unlink()
    functions.unlink()
    # The C library's getenv would import the host's environment.
    generated = GeneratedSources.load(sources)
    c = (*_C, *generated.flags)
    objects.append(build(RUNTIME / "abi" / "model.c", *c, "-Dgetenv=cf_getenv"))
    if generated.dynamic:
        objects.append(build(RUNTIME / "abi" / "dynamic.c", *c))
    if generated.cascades:
        objects.append(build(RUNTIME / "abi" / "cascade.c", *c))
    for name in ("abi/arena.c", "wasm/platform.c", "wasm/tables.c", *KERNEL_SOURCES):
        objects.append(build(RUNTIME / name, *_C))
    for table, source in TABLE_SOURCES.items():
        flags = (*_C, *generated.kernel_flags, f"-DCF_TABLE=cf_{table}_wasm")
        objects.append(build(RUNTIME / source, *flags, name=table))
    objects.append(build(sources / flavour.isa / "program.c", *c))
    objects.append(build(sources / "weights.S"))
    module = folder / flavour.file
    exports = [f"-Wl,--export={name}" for name in EXPORTS]
    # One C library serves both flavours: it is compiled once for each CPU that is named here.
    run_compiler(
        [
            *_COMMON, f"-mcpu={WASM32.baseline_cpu}", "-mexec-model=reactor",
            "-Wl,--no-entry", "-Wl,--gc-sections", "-Wl,-s",
            f"-Wl,-z,stack-size={STACK}", *exports, *(str(o.resolve()) for o in objects),
            "-o", str(module.resolve()),
        ],
        folder, cache,
    )  # fmt: skip
    for path in objects:
        path.unlink()
    return module
