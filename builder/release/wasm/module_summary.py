"""A summary of the modules that were built, as text."""

from __future__ import annotations

from collections.abc import Sequence

from builder.base.console_tables import format_table
from builder.release.wasm.build_module import WasmModule


def format_modules(modules: Sequence[WasmModule]) -> str:
    """Return a row for each module and engine: bytes, how it was lowered, the worst error against TensorFlow."""
    rows: list[list[str] | None] = []
    for module in modules:
        first = [module.path.name, module.flavour.isa, f"{module.path.stat().st_size:,}", module.attempt]
        for engine, verification in module.verifications.items():
            worst = max(row.max_absolute for row in verification.outputs)
            rows.append([*first, engine, f"{worst:.2g}", "agrees" if verification.passed else "DISAGREES"])
            first = [""] * len(first)
        if not module.verifications:
            rows.append([*first, "none here", "", "NOT RUN"])
    headers = ("module", "instructions", "bytes", "lowered", "engine", "worst error", "")
    return format_table(headers, rows, right=(2, 5))
