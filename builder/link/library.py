"""Compile the emitted sources and the runtime, and link them with XLA's kernels into libmodel.so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder.emit import Sources
from builder.link.toolchain import Toolchain

RUNTIME = Path(__file__).parent.parent / "runtime"

KERNEL_SOURCES = ("convolution.c", "dot.c", "copy.c", "sort.c", "topk.c")
"""Runtime files compiled for the model's CPU."""

EXPORTS = "{ global: cf_abi_version; cf_describe; cf_open; cf_run; cf_close; cf_last_error; run; local: *; };\n"


@dataclass(frozen=True)
class SharedLibrary:
    """``libmodel.so`` in ``folder``, with the header and the description it was built with."""

    folder: Path
    target: str

    @property
    def path(self) -> Path:
        return self.folder / "libmodel.so"


def link_library(sources: Sources, kernels: Path, target: str, folder: Path, cache: Path) -> SharedLibrary:
    """Build ``libmodel.so`` in ``folder`` from the emitted sources and XLA's object file ``kernels``.

    Raises LinkError with the compiler's or linker's message; undefined symbols are errors.
    """
    toolchain = Toolchain(target, cache)
    objects: list[Path] = []

    def build(source: Path, baseline: bool = False) -> None:
        objects.append(folder / f"{source.stem}_{source.suffix[1:]}.o")
        toolchain.compile(source, objects[-1], include=(RUNTIME,), baseline=baseline)

    build(RUNTIME / "model.c", baseline=True)
    build(RUNTIME / f"cpu_{target}.c", baseline=True)
    for name in KERNEL_SOURCES:
        build(RUNTIME / name)
    build(sources.folder / "program.c")
    build(sources.folder / "weights.S")
    exports = folder / "exports.map"
    exports.write_text(EXPORTS)
    library = SharedLibrary(folder, target)
    toolchain.link([*objects, kernels], exports, library.path)
    for path in objects:
        path.unlink()
    return library
