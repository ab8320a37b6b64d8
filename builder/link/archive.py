"""libmodel.a: the model to be linked into a program, with no name in it but those of the ABI."""

from __future__ import annotations

from pathlib import Path

from builder.audit.facts import read_facts
from builder.emit import Sources
from builder.errors import LinkError
from builder.link.library import EXPORTS, PUBLIC, compile_objects
from builder.link.symbols import global_symbols, keep_global
from builder.link.toolchain import Toolchain

ARCHIVE = "libmodel.a"
TRIAL = "trial.so"
"""What the archive gives when it is linked alone: for `verify`, not for delivery."""

MADE_BY_LINKERS = {"_GLOBAL_OFFSET_TABLE_"}

WEAK = ("run",)
"""A program may well have a function of that name: then it is its own that counts."""


def link_archive(sources: Sources, kernels: Path, target: str, folder: Path, cache: Path) -> Path:
    """Build ``libmodel.a`` in ``folder``, of the same objects as ``libmodel.so``, and ``trial.so`` from it.

    The archive's one member defines the ABI's functions and hides everything else, so that it clashes with no
    program's names; ``run`` is weak. It needs the C library and its libm, and no compiler's own.
    Raises LinkError with the compiler's or linker's message.
    """
    toolchain = Toolchain(target, cache)
    objects = compile_objects(sources, toolchain, folder)
    whole, trial, exports = folder / "model.o", folder / TRIAL, folder / "exports.map"
    exports.write_text(EXPORTS)

    def combine() -> set[str]:
        toolchain.combine([*objects, kernels], whole)
        whole.write_bytes(keep_global(whole.read_bytes(), PUBLIC, WEAK))
        toolchain.link([whole], exports, trial)
        return set(global_symbols(whole.read_bytes()).undefined) - {s.name for s in read_facts(trial).undefined}

    # The linker of the trial brings its compiler's library along; another's may lack some of it.
    if combine() - MADE_BY_LINKERS:
        objects.append(folder / "builtins.o")
        toolchain.builtins(objects[-1])
        if missing := combine() - MADE_BY_LINKERS:
            raise LinkError(f"{ARCHIVE} would need {', '.join(sorted(missing))}: link libmodel.so instead.")
    archive = folder / ARCHIVE
    toolchain.archive([whole], archive)
    for path in (*objects, whole, exports):
        path.unlink()
    return archive
