"""The compilation of emitted sources and the runtime, and their linking with XLA's kernels into libmodel.so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import place_file
from builder.base.project import RUNTIME, cache_folder
from builder.base.targets import KernelCopy, KernelTable, Target
from builder.compiler.emit import GeneratedSources, Probe, emit_sources
from builder.compiler.link.toolchain import Toolchain, choose_job_count
from builder.compiler.lower.program import Program
from builder.compiler.weights_file import FILE
from builder.compiler.xla.tfcompile import CompiledGraph
from builder.config import ModelSpec
from builder.sources.miniaudio import unpack_miniaudio

KERNEL_SOURCES = tuple(
    f"ops/{name}.c" for name in ("convolution", "dot", "copy", "broadcast", "gather", "sort", "topk", "fft", "nms")
)
"""Runtime files compiled for the model's CPU."""

BASELINE_SOURCES = ("abi/arena.c", "platform/threads.c", "platform/cpus.c", "platform/bfloat16.c")
"""Runtime files compiled for any CPU of the architecture, as model.c is."""

TABLE_SOURCES: dict[KernelTable, str] = {
    "fused": "fused/kernels.c",
    "attention": "fused/attention.c",
    "integer": "fused/integer.c",
    "trees": "trees/trees.c",
}
"""The file of each table's kernels, compiled for each instruction set where a program uses the table."""

AUDIO_SOURCES = ("audio/compressed.c", "audio/samples.c", "audio/resample.c")
"""Runtime files of a model that takes sound, which the function decodes recordings with."""

FUSED_FLAGS = ("-falign-loops=32",)
"""The alignment of loops: one that begins in the middle of an instruction fetch costs an LSTM's products 7 %, and
where loops begin changes with every edit of the kernels."""


FORTIFY = ("-D_FORTIFY_SOURCE=3",)
"""glibc's checked functions, where the compiler knows an object's size. libmodel.a is compiled without them, as it
may be linked with another C library, which lacks them."""

PUBLIC = (
    *("cf_abi_version", "cf_describe", "cf_open", "cf_run", "cf_reset", "cf_get_state", "cf_set_state"),
    *("cf_close", "cf_last_error", "run"),
)
"""The ABI's functions, which every library exports."""

PUBLIC_OUTSIDE = ("cf_open_file", "cf_open_memory")
"""The further functions of a library whose weights are a separate file."""

PUBLIC_SIGNATURES = ("cf_set_signature",)
"""The further function of a library with several signatures."""

PUBLIC_AUDIO = ("cf_flac_read", "cf_mono", "cf_mp3_read", "cf_resample")
"""The further functions of a library of a model that takes sound; see runtime/audio/audio.h."""

PUBLIC_PROBES: dict[Probe, tuple[str, ...]] = {
    "profile": ("cf_step_times", "cf_step_level"),
    "observe": ("cf_observe",),
}
"""The further functions of a library with a probe."""


def list_public_names(sources: GeneratedSources) -> tuple[str, ...]:
    """List the functions that a library of ``sources`` exports."""
    names = [*PUBLIC]
    if sources.outside:
        names += PUBLIC_OUTSIDE
    if sources.several_signatures:
        names += PUBLIC_SIGNATURES
    if sources.audio:
        names += PUBLIC_AUDIO
    if sources.probe:
        names += PUBLIC_PROBES[sources.probe]
    return tuple(names)


def format_exports_map(names: Iterable[str]) -> str:
    """Format a linker's version script that exports ``names`` and hides all others."""
    return f"{{ global: {' '.join(f'{name};' for name in names)} local: *; }};\n"


def audio_flags(cache: Path) -> tuple[str, ...]:
    """Return the flags that ``AUDIO_SOURCES`` are compiled with, and put miniaudio into ``cache`` first.

    ``-fwrapv``: miniaudio adds up numbers of the file, and in a damaged one they may be too large for an integer.
    Raises as ``fetch_miniaudio`` does.
    """
    return "-fwrapv", "-isystem", str(unpack_miniaudio(cache).resolve())


@dataclass(frozen=True)
class SharedLibrary:
    """``libmodel.so`` in ``folder``, with the header and the description it was built with."""

    folder: Path
    target: Target

    @property
    def path(self) -> Path:
        """Path of the library."""
        return self.folder / "libmodel.so"

    @property
    def weights(self) -> Path:
        """The file with the weights, if they are outside the library."""
        return self.folder / FILE


def build_library(
    program: Program, spec: ModelSpec, compiled: CompiledGraph, folder: Path, zig: Path, *, probe: Probe | None = None
) -> Path:
    """Build ``libmodel.so`` of ``program`` in ``folder``, with its weights inside it, for callers that keep no sources.

    ``zig``: the compiler's cache. ``probe``: the report that the library makes of each step. Raises LinkError.
    """
    sources = emit_sources(program, spec, compiled.target, folder, probe=probe)
    return link_library(sources, [compiled.kernels_path], compiled.target, folder, zig).path


def link_library(
    sources: GeneratedSources,
    kernels: Sequence[Path],
    target: Target,
    folder: Path,
    cache: Path,
) -> SharedLibrary:
    """Build ``libmodel.so`` in ``folder`` from the emitted sources and XLA's object files ``kernels``, one per batch.

    Raises LinkError with the compiler's or linker's message; undefined symbols are errors.
    """
    toolchain = Toolchain(target, cache)
    objects = compile_objects(sources, toolchain, folder, FORTIFY)
    exports = folder / "exports.map"
    exports.write_text(format_exports_map(list_public_names(sources)))
    library = SharedLibrary(folder, target)
    toolchain.link_shared_library([*objects, *kernels], exports, library.path)
    if sources.outside:  # The file is as large as the model, so it gets a second name where it can.
        place_file(sources.outside, library.weights)
    for path in objects:
        path.unlink()
    return library


def compile_objects(
    sources: GeneratedSources, toolchain: Toolchain, folder: Path, flags: tuple[str, ...] = ()
) -> list[Path]:
    """Compile the emitted sources and the runtime into objects in ``folder``, several at a time, in a fixed order.

    ``flags``: further flags of the compiler. Raises LinkError with the compiler's message.
    """
    units = list(_list_units(sources, toolchain.target, folder))

    def compile(unit: _CompileUnit) -> Path:
        own = (*unit.flags, *flags)
        toolchain.compile_source(
            unit.source, unit.output, include=(RUNTIME,), baseline=unit.baseline, cpu=unit.cpu, flags=own
        )
        if unit.generated:
            unit.source.unlink()
        return unit.output

    with ThreadPoolExecutor(choose_job_count()) as pool:
        return list(pool.map(compile, units))


@dataclass(frozen=True)
class _CompileUnit:
    """A source and its object. ``baseline``, ``cpu`` and ``flags`` are those of ``Toolchain.compile_source``.

    ``generated``: whether the source is deleted once the object exists.
    """

    source: Path
    output: Path
    baseline: bool = False
    cpu: str | None = None
    flags: tuple[str, ...] = ()
    generated: bool = False


def _list_units(sources: GeneratedSources, target: Target, folder: Path) -> Iterator[_CompileUnit]:
    """Yield the files to compile, in the order in which their objects are linked."""

    def unit(source: Path, baseline: bool = False, own: tuple[str, ...] = (), generated: bool = False) -> _CompileUnit:
        output = folder / f"{source.stem}_{source.suffix[1:]}.o"
        return _CompileUnit(source, output, baseline, flags=own, generated=generated)

    def copies(source: str, of: Iterable[KernelCopy]) -> Iterator[_CompileUnit]:
        for copy in of:
            own = (*FUSED_FLAGS, *copy.flags, f"-DCF_TABLE={copy.table}", *sources.kernel_flags)
            yield _CompileUnit(RUNTIME / source, folder / f"{copy.table}.o", cpu=copy.cpu, flags=own)

    def tables(name: str, text: str) -> _CompileUnit:
        source = folder / f"{name}.c"
        source.write_text(text)
        return unit(source, baseline=True, generated=True)

    yield unit(RUNTIME / "abi" / "model.c", baseline=True, own=sources.flags)
    for name in (f"platform/cpu_{target.name}.c", *BASELINE_SOURCES):
        yield unit(RUNTIME / name, baseline=True)
    used = {"fused": True, "attention": sources.attention, "integer": sources.integer, "trees": sources.trees}
    for table in (table for table in TABLE_SOURCES if used[table]):
        yield tables(f"{table}_tables", format_kernel_table(target, table))
        yield from copies(TABLE_SOURCES[table], target.list_copies(table))
    for name in KERNEL_SOURCES:
        yield unit(RUNTIME / name)
    for program in sources.programs:
        yield unit(program, own=sources.flags)
    if sources.dynamic:
        yield unit(RUNTIME / "abi" / "dynamic.c", baseline=True, own=sources.flags)
    if sources.parts:
        yield unit(RUNTIME / "abi" / "parts.c", baseline=True, own=sources.flags)
    if sources.cascades:
        yield unit(RUNTIME / "abi" / "cascade.c", baseline=True)
    for name in AUDIO_SOURCES if sources.audio else ():
        yield unit(RUNTIME / name, own=audio_flags(cache_folder()))
    if sources.outside:
        yield unit(RUNTIME / "abi" / "weights.c", baseline=True, own=sources.flags)
    else:
        yield unit(sources.folder / "weights.S")


def format_kernel_table(target: Target, table: KernelTable) -> str:
    """Format the C source of ``cf_<table>_tables``: for each of the target's levels, its copy of these kernels."""
    copies = [copy.table for copy in target.list_copies(table)]
    entries = [getattr(level, table).table for level in target.levels]
    if table == "fused":
        declared, kind = f"extern const cf_fused {', '.join(copies)};\n", "cf_fused *const"
        entries = [f"&{entry}" for entry in entries]
    else:
        work = "layer" if table == "integer" else table
        arguments = f"cf_context *context, const cf_{work} *{work}, const cf_{work}_data *data"
        declared, kind = "".join(f"void {copy}({arguments});\n" for copy in copies), f"cf_{table}_layer"
    return f'#include "abi/program.h"\n\n{declared}\nconst {kind} cf_{table}_tables[] = {{{", ".join(entries)}}};\n'
