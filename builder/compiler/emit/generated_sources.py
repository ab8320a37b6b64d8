"""The sources that were generated for a library, and ``sources.json``, which describes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from builder.base.records import dump_record, read_record
from builder.compiler.weights_file import FILE, Layout

Probe = Literal["profile", "observe"]
"""The name of a header in builder/runtime/probe, whose ``cf_step`` is called at the beginning of every step."""

_MANIFEST = "sources.json"


@dataclass(frozen=True)
class GeneratedSources:
    """Generated files in ``folder``: the C of each variant, model.h, model.json, and the weights.

    The weights are weights.bin and weights.S, which includes it, or model.weights if they are outside the library.
    """

    folder: Path
    names: tuple[str, ...]
    """The C files of the model's variants, the first variant's first."""
    isa: tuple[str, ...]
    """The instruction sets that the library has kernels for, the smallest first."""
    kernel_kinds: tuple[str, ...] = ()
    """The optional features that the fused kernels need, from ``print_program.list_kernel_kinds``."""
    attention: bool = False
    """True if any step is an attention."""
    trees: bool = False
    """True if any step is an ensemble of trees."""
    several_signatures: bool = False
    """True if the model has several signatures."""
    dynamic: bool = False
    """True if the data determines the size of a fetch."""
    parts: bool = False
    """True if any program runs a batch in parts."""
    cascades: bool = False
    """True if any program runs layers one stripe of rows at a time."""
    audio: bool = False
    """True if the library decodes and resamples recordings."""
    layout: Layout | None = None
    """The layout of weights outside the library; None where they are inside it."""
    probe: Probe | None = None
    """The probe of a library for inspection, which is never packed."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags for these sources and for those of the ABI."""
        return ("-DCF_DYNAMIC",) * self.dynamic + ("-DCF_PARTS",) * self.parts

    @property
    def integer(self) -> bool:
        """True if any layer adds up integers."""
        return "INTEGER" in self.kernel_kinds

    @property
    def kernel_flags(self) -> tuple[str, ...]:
        """The compiler's flags for the kernels of layers."""
        return tuple(f"-DCF_HAS_{kind}=1" for kind in self.kernel_kinds)

    @property
    def header(self) -> Path:
        """Path of model.h."""
        return self.folder / "model.h"

    @property
    def description(self) -> Path:
        """The text that cf_describe() returns."""
        return self.folder / "model.json"

    @property
    def programs(self) -> tuple[Path, ...]:
        """Paths of the C files, in the order of ``names``."""
        return tuple(self.folder / name for name in self.names)

    @property
    def outside(self) -> Path | None:
        """The file of the weights, where they are outside the library."""
        return self.folder / FILE if self.layout else None

    @property
    def weights(self) -> Path:
        """Path of the file of the weights, inside the library or outside it."""
        return self.outside or self.folder / "weights.bin"

    def save(self) -> None:
        """Write sources.json into the folder, for ``load``."""
        data = dump_record(self)
        del data["folder"]
        (self.folder / _MANIFEST).write_text(json.dumps(data, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> GeneratedSources:
        """Load what ``emit`` wrote into ``folder``."""
        return read_record(cls, {"folder": folder, **json.loads((folder / _MANIFEST).read_text())})
