"""The runtime's sources stand for any processor: what is for one alone is in files of its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.base.project import RUNTIME
from builder.base.targets import X86_64, KernelCopy, Level
from builder.compiler.link.shared_library import (
    BASELINE_SOURCES,
    KERNEL_SOURCES,
    TABLE_SOURCES,
    format_kernel_table,
)
from builder.compiler.link.toolchain import Toolchain
from tests.support.zig import CACHE

RISCV64 = replace(
    X86_64,
    name="riscv64",
    suffix="-riscv64",
    triple="riscv64-linux-gnu.2.34",
    baseline_cpu="baseline_rv64",
    kernel_cpu="baseline_rv64+v",
    levels=(Level("rv64gcv", *(KernelCopy(f"cf_{name}_rvv", "baseline_rv64+v") for name in ("fused", "integer"))),),
)
"""A processor that the runtime has never heard of."""


def test_the_runtime_compiles_for_a_processor_that_it_does_not_know(tmp_path: Path) -> None:
    toolchain = Toolchain(RISCV64, CACHE)
    sources = [RUNTIME / name for name in ("abi/model.c", "abi/weights.c", *BASELINE_SOURCES, *KERNEL_SOURCES)]
    for table in TABLE_SOURCES:
        sources.append(tmp_path / f"{table}.c")
        sources[-1].write_text(format_kernel_table(RISCV64, table))
    for source in sources:
        toolchain.compile_source(source, tmp_path / "object.o", include=(RUNTIME,), flags=("-O0",))
    for table, kernels in TABLE_SOURCES.items():
        (copy,) = RISCV64.list_copies(table)
        flags = ("-O0", f"-DCF_TABLE={copy.table}")
        toolchain.compile_source(
            RUNTIME / kernels, tmp_path / "object.o", include=(RUNTIME,), cpu=copy.cpu, flags=flags
        )
