"""Build of a WebAssembly module, from a model.toml's spec to ``dist/<model>/wasm/``.

It shares the stages of a bundle (``builder.pipeline.build_bundle``). Its sources, its linker and the engines that
verify it are its own.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from builder.base.cache import compute_digest, content_digest
from builder.base.console_tables import format_table
from builder.base.errors import LowerError
from builder.base.files import replace_folder
from builder.base.targets import WASM32
from builder.compiler.link.toolchain import zig_version
from builder.compiler.lower import LoweredProgram
from builder.package.manifest import FileEntry, list_tool_versions, manifest_head
from builder.pipeline.compile_graph import CompiledModel, compile_variants
from builder.pipeline.fallbacks import try_attempts
from builder.pipeline.import_model import import_variants
from builder.pipeline.lower_program import EmittedSources, LoweringAttempt, ResolvedOptions, emit_variants
from builder.pipeline.resolve_options import resolve_by_rule
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.verify_library import load_roundings
from builder.pipeline.workspace import Workspace
from builder.release.wasm.link_module import FLAVOURS, Flavour, emit_sources, link_module
from builder.release.wasm.verify_module import PREDICT, find_node, is_wasmtime_installed, verify_in_node, verify_module
from builder.verify.expected_answers import Rounding
from builder.verify.verification import Verification, require_passed

FOLDER = "wasm"
"""Folder in ``dist/<model>/``."""


@dataclass(frozen=True)
class WasmModule:
    """A module that was built: how it was lowered, and its verification in each engine that is installed here."""

    path: Path
    flavour: Flavour
    emitted: EmittedSources
    verifications: dict[str, Verification]
    """Verifications by the engine's name; empty when no engine is installed."""

    @property
    def attempt(self) -> str:
        """Name of the way in which it was lowered."""
        return self.emitted.attempt.name

    @property
    def passed(self) -> bool:
        """True if every engine's answers agree with TensorFlow's."""
        return all(v.passed for v in self.verifications.values())

    @property
    def final(self) -> bool:
        """True if another way to lower the model would give no better answers."""
        return self.passed or any(v.too_coarse for v in self.verifications.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for the manifest."""
        return {
            "isa": self.flavour.isa,
            "lowered": self.attempt,
            "verified": {engine: v.to_dict() for engine, v in self.verifications.items()},
        }


def build_wasm(ws: Workspace) -> tuple[WasmModule, ...]:
    """Build both flavours of the first variant into ``dist/<model>/wasm/``, whatever the workspace's target.

    Raises the ColdforgeError of the stage that fails; ``dist/`` then stays as it was.
    """
    folder = ws.project.dist / ws.spec.name / FOLDER
    ws = complete_workspace(ws).alone.for_target(WASM32)
    imported = import_variants(ws)
    if states := imported.graph.states:
        raise LowerError(
            f"{ws.spec.name} keeps state from call to call ({states[0].spec.name} ...); "
            "WebAssembly modules cannot do that yet. Use libmodel.so."
        )
    compiled = compile_variants(ws, imported)
    settled = resolve_by_rule(ws)
    ws = ws.for_spec(settled.spec)
    modules = [_build_verified_module(ws, compiled, settled, flavour) for flavour in FLAVOURS]
    for module in modules:
        for verification in module.verifications.values():
            require_passed(verification)
    return _deliver_modules(ws, compiled, modules, folder)


def _build_verified_module(
    ws: Workspace, compiled: CompiledModel, settled: ResolvedOptions, flavour: Flavour
) -> WasmModule:
    """Return the first module that agrees with TensorFlow, or the last one; ``ws.spec`` has its options resolved."""

    def lowered(attempt: LoweringAttempt) -> EmittedSources | None:
        return None if attempt.in_parts else emit_variants(ws, compiled, settled, attempt, _emit_module)

    *_, wasm_module = try_attempts(ws.spec, lowered, lambda emitted: _try_module(ws, compiled, emitted, flavour))
    return wasm_module


def _emit_module(ws: Workspace, _: CompiledModel, lowered: Sequence[LoweredProgram], folder: Path) -> None:
    """Write the sources of both flavours."""
    (lowering,) = lowered
    emit_sources(lowering.program, ws.spec, folder)


def _try_module(ws: Workspace, compiled: CompiledModel, emitted: EmittedSources, flavour: Flavour) -> WasmModule:
    ir = compiled.first.kernels.ir_paths
    folder = ws.build_stage(
        f"link{emitted.attempt.suffix}",
        " and ".join(flavour.file for flavour in FLAVOURS),
        compute_digest(emitted.folder, *ir, zig_version()),
        functools.partial(_link_modules, emitted.folder, ir, ws.zig),
        ws.target.suffix,
    )
    path = folder / flavour.file
    (rounding,) = load_roundings(ws, compiled, emitted.folder)
    with ws.progress.show_stage("verify", f"{flavour.file} against the model's own answers") as outcome:
        module = WasmModule(path, flavour, emitted, _verify_in_engines(ws, compiled, path, rounding))
        outcome.note = "" if module.passed else "DISAGREES"
        if not module.verifications:
            outcome.note = "NOT RUN: neither wasmtime (`pip install wasmtime`) nor node"
    return module


def _link_modules(sources: Path, ir: tuple[Path, ...], zig: Path, folder: Path) -> None:
    for flavour in FLAVOURS:
        link_module(sources, ir, flavour, folder, zig)


def _verify_in_engines(
    ws: Workspace, compiled: CompiledModel, path: Path, rounding: Rounding | None
) -> dict[str, Verification]:
    graph, verifications = compiled.first.graph, {}
    if is_wasmtime_installed():
        verifications["wasmtime"] = verify_module(path, graph, ws.spec, rounding)
    if find_node():
        verifications["node"] = verify_in_node(path, graph, ws.spec, rounding)
    return verifications


def _deliver_modules(
    ws: Workspace, compiled: CompiledModel, modules: Sequence[WasmModule], folder: Path
) -> tuple[WasmModule, ...]:
    sources = modules[0].emitted.sources
    with replace_folder(folder) as fresh:
        for module in modules:
            shutil.copyfile(module.path, fresh / module.path.name)
        for path in (PREDICT, sources.description, sources.header):
            shutil.copyfile(path, fresh / path.name)
        manifest = {
            **manifest_head(ws.spec, content_digest(compiled.path), list_tool_versions()),
            "xla_flags": compiled.first.kernels.flags,
            "files": [asdict(FileEntry.from_path(fresh, path.name)) for path in sorted(fresh.iterdir())],
            "modules": {module.path.name: module.to_dict() for module in modules},
        }
        (fresh / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        for path in fresh.iterdir():
            path.chmod(0o644)
    return tuple(replace(module, path=folder / module.path.name) for module in modules)


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
