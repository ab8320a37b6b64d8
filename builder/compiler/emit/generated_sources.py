"""The sources that were generated for a library, and ``sources.json``, which says what they are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from builder.base.records import dump_record, read_record
from builder.compiler.weights_file import FILE, Layout

Probe = Literal["profile", "observe"]
"""What is told of every step that it begins: the header in builder/runtime/probe with its ``cf_step``."""

_MANIFEST = "sources.json"


@dataclass(frozen=True)
class GeneratedSources:
    """Generated files in ``folder``: the C of each variant, model.h, model.json, and the weights.

    These are weights.bin and weights.S, which assembles it, or model.weights, if they are no part of the library.
    """

    folder: Path
    names: tuple[str, ...]
    """Files with the C of each variant of the model, the first variant first."""
    isa: tuple[str, ...]
    """The instruction sets that the library has kernels for, the least first."""
    kernel_kinds: tuple[str, ...] = ()
    """What the kernels have to know of besides what all do:
    ``builder.compiler.emit.print_program.list_kernel_kinds``.
    """
    attention: bool = False
    """Whether any step is an attention."""
    several_signatures: bool = False
    """Whether there is a signature to choose."""
    dynamic: bool = False
    """Whether the data decides the size of a fetch."""
    parts: bool = False
    """Whether any program runs a batch in parts."""
    cascades: bool = False
    """Whether any program runs layers a stripe of rows at a time."""
    audio: bool = False
    """Whether the library has what the function decodes and resamples recordings with."""
    layout: Layout | None = None
    """What weights have to be that are no part of the library; None where they are."""
    probe: Probe | None = None
    """What a library shows that is made to be looked into, never to be packed."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Of the compiler, for these sources and the ABI's."""
        return ("-DCF_DYNAMIC",) * self.dynamic + ("-DCF_PARTS",) * self.parts

    @property
    def integer(self) -> bool:
        """Whether any layer's sums are of integers."""
        return "INTEGER" in self.kernel_kinds

    @property
    def kernel_flags(self) -> tuple[str, ...]:
        """Of the compiler, for the kernels of layers."""
        return tuple(f"-DCF_HAS_{kind}=1" for kind in self.kernel_kinds)

    @property
    def header(self) -> Path:
        return self.folder / "model.h"

    @property
    def description(self) -> Path:
        """The text that cf_describe() returns."""
        return self.folder / "model.json"

    @property
    def programs(self) -> tuple[Path, ...]:
        return tuple(self.folder / name for name in self.names)

    @property
    def outside(self) -> Path | None:
        """The weights, where they are no part of the library."""
        return self.folder / FILE if self.layout else None

    @property
    def weights(self) -> Path:
        return self.outside or self.folder / "weights.bin"

    def save(self) -> None:
        """Write sources.json beside the files, for ``load``."""
        data = dump_record(self)
        del data["folder"]
        (self.folder / _MANIFEST).write_text(json.dumps(data, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> GeneratedSources:
        """What ``emit`` wrote into ``folder``."""
        return read_record(cls, {"folder": folder, **json.loads((folder / _MANIFEST).read_text())})
