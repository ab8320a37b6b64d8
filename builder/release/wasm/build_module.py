"""The way of a WebAssembly module: a model.toml's spec in, ``dist/<model>/wasm/`` out.

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

from builder.base.cache import content_digest, digest
from builder.base.errors import LowerError
from builder.base.files import replacing
from builder.base.targets import WASM32
from builder.compiler.link.toolchain import zig_version
from builder.compiler.lower import Lowered
from builder.package.manifest import FileEntry, manifest_head
from builder.pipeline.compile_graph import CompiledModel, compile_variants
from builder.pipeline.fallbacks import until_final
from builder.pipeline.import_model import import_variants
from builder.pipeline.lower_program import Attempt, Emitted, lower_variants
from builder.pipeline.resolve_options import settle_by_rule
from builder.pipeline.resolve_strings import completed
from builder.pipeline.resolved_options import Settled
from builder.pipeline.verify_library import roundings_of
from builder.pipeline.versions import versions
from builder.pipeline.workspace import Workspace
from builder.release.wasm.link_module import FLAVOURS, Flavour, emit_sources, link_module
from builder.release.wasm.node_runner import PREDICT, node, verify_in_node
from builder.release.wasm.verify_module import can_verify, verify_module
from builder.verify.failure_report import require
from builder.verify.rounding import Rounding
from builder.verify.verification import Verification

FOLDER = "wasm"
"""In ``dist/<model>/``."""


@dataclass(frozen=True)
class WasmModule:
    """A module that was built: how it was lowered, and what each engine that is installed here made of it."""

    path: Path
    flavour: Flavour
    emitted: Emitted
    verifications: dict[str, Verification]
    """The verification in each engine, by the engine's name; empty when there is none."""

    @property
    def attempt(self) -> str:
        return self.emitted.attempt.name

    @property
    def passed(self) -> bool:
        return all(v.passed for v in self.verifications.values())

    @property
    def final(self) -> bool:
        return self.passed or any(v.too_coarse for v in self.verifications.values())

    def to_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "isa": self.flavour.isa,
            "lowered": self.attempt,
            "verified": {engine: v.to_dict() for engine, v in self.verifications.items()},
        }


def build_wasm(ws: Workspace) -> tuple[WasmModule, ...]:
    """Build both flavours of the first variant into ``dist/<model>/wasm/``, whatever the workspace's target.

    Raises the ColdforgeError of the stage that fails; what was in ``dist/`` then stays.
    """
    folder = ws.project.dist / ws.spec.name / FOLDER
    ws = completed(ws).alone.on(WASM32)
    imported = import_variants(ws)
    if states := imported.graph.states:
        raise LowerError(
            f"{ws.spec.name} keeps state from call to call ({states[0].spec.name} ...); "
            "WebAssembly modules cannot do that yet. Use libmodel.so."
        )
    compiled = compile_variants(ws, imported)
    settled = settle_by_rule(ws)
    ws = ws.for_spec(settled.spec)
    modules = [verified_module(ws, compiled, settled, flavour) for flavour in FLAVOURS]
    for module in modules:
        for verification in module.verifications.values():
            require(verification)
    return _deliver(ws, compiled, modules, folder)


def verified_module(ws: Workspace, compiled: CompiledModel, settled: Settled, flavour: Flavour) -> WasmModule:
    """The module of the first attempt that agrees with TensorFlow, or of the last one; ``ws.spec`` is settled."""

    def lowered(attempt: Attempt) -> Emitted | None:
        return None if attempt.in_parts else lower_variants(ws, compiled, settled, attempt, emit_module)

    *_, kept = until_final(ws.spec, lowered, lambda emitted: _tried(ws, compiled, emitted, flavour))
    return kept


def emit_module(ws: Workspace, _: CompiledModel, lowered: Sequence[Lowered], folder: Path) -> None:
    """The sources of both flavours."""
    (one,) = lowered
    emit_sources(one.program, ws.spec, folder)


def _tried(ws: Workspace, compiled: CompiledModel, emitted: Emitted, flavour: Flavour) -> WasmModule:
    ir = compiled.first.kernels.ir_paths
    folder = ws.stage(
        f"link{emitted.attempt.suffix}",
        " and ".join(flavour.file for flavour in FLAVOURS),
        digest(emitted.folder, *ir, zig_version()),
        functools.partial(_link, emitted.folder, ir, ws.zig),
        ws.target.suffix,
    )
    path = folder / flavour.file
    (rounding,) = roundings_of(ws, compiled, emitted.folder)
    with ws.progress.stage("verify", f"{flavour.file} against TensorFlow's answers") as outcome:
        module = WasmModule(path, flavour, emitted, _verifications(ws, compiled, path, rounding))
        outcome.note = "" if module.passed else "DISAGREES"
        if not module.verifications:
            outcome.note = "NOT RUN: neither wasmtime (`pip install wasmtime`) nor node"
    return module


def _link(sources: Path, ir: tuple[Path, ...], zig: Path, folder: Path) -> None:
    for flavour in FLAVOURS:
        link_module(sources, ir, flavour, folder, zig)


def _verifications(
    ws: Workspace, compiled: CompiledModel, path: Path, rounding: Rounding | None
) -> dict[str, Verification]:
    graph, found = compiled.first.graph, {}
    if can_verify():
        found["wasmtime"] = verify_module(path, graph, ws.spec, rounding)
    if node():
        found["node"] = verify_in_node(path, graph, ws.spec, rounding)
    return found


def _deliver(
    ws: Workspace, compiled: CompiledModel, modules: Sequence[WasmModule], folder: Path
) -> tuple[WasmModule, ...]:
    sources = modules[0].emitted.sources
    with replacing(folder) as fresh:
        for module in modules:
            shutil.copyfile(module.path, fresh / module.path.name)
        for path in (PREDICT, sources.description, sources.header):
            shutil.copyfile(path, fresh / path.name)
        manifest = {
            **manifest_head(ws.spec, content_digest(compiled.path), versions()),
            "xla_flags": compiled.first.kernels.flags,
            "files": [asdict(FileEntry.of(fresh, path.name)) for path in sorted(fresh.iterdir())],
            "modules": {module.path.name: module.to_dict() for module in modules},
        }
        (fresh / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        for path in fresh.iterdir():
            path.chmod(0o644)
    return tuple(replace(module, path=folder / module.path.name) for module in modules)
