"""libmodel.a: the model as a static library, which defines only the names of the ABI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.base.targets import Target
from builder.compiler.audit.elf_facts import read_facts
from builder.compiler.emit import GeneratedSources
from builder.compiler.link.shared_library import compile_objects, format_exports_map, list_public_names
from builder.compiler.link.symbols import keep_global, list_global_symbols
from builder.compiler.link.toolchain import Toolchain

ARCHIVE = "libmodel.a"
TRIAL = "trial.so"
"""The shared library that the archive is linked into for `verify`; it is not delivered."""

WEAK = ("run",)
"""Weak names: a program may have a function of that name, and then uses its own."""


def link_archive(sources: GeneratedSources, kernels: Sequence[Path], target: Target, folder: Path, cache: Path) -> Path:
    """Build ``libmodel.a`` in ``folder``, of the same sources as ``libmodel.so``, and ``trial.so`` from it.

    The archive's one member defines the ABI's functions and hides everything else, so that it clashes with no
    program's names; ``run`` is weak. It needs the C library and its libm, but no compiler's library.
    Raises LinkError with the compiler's or linker's message.
    """
    toolchain = Toolchain(target, cache)
    objects = compile_objects(sources, toolchain, folder)
    whole, trial, exports = folder / "model.o", folder / TRIAL, folder / "exports.map"
    public = list_public_names(sources)
    exports.write_text(format_exports_map(public))

    def combine() -> set[str]:
        """Combine the objects and link the trial; return the names that the compiler's own library has to define."""
        toolchain.combine_objects([*objects, *kernels], whole)
        whole.write_bytes(keep_global(whole.read_bytes(), public, WEAK))
        toolchain.link_shared_library([whole], exports, trial)
        # The linker added that library as a whole, even its memcpy, which the C library has as well.
        imports = {symbol.name for symbol in read_facts(trial).undefined}
        wanted = set(list_global_symbols(whole.read_bytes()).undefined) - imports
        return {name for name in wanted if name.startswith("__")}

    if missing := combine():
        builtins = folder / "builtins.o"
        toolchain.compile_builtins(builtins)
        # Its other names are hidden: the C library's memcpy and expf are faster.
        builtins.write_bytes(keep_global(builtins.read_bytes(), missing))
        objects.append(builtins)
        combine()
    archive = folder / ARCHIVE
    toolchain.create_archive([whole], archive)
    for path in (*objects, whole, exports):
        path.unlink()
    return archive
