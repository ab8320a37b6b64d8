"""The order of the stages from a ModelSpec to ``dist/<model>/wasm/``; ``builder.pipeline`` is that of a bundle."""

from __future__ import annotations

import functools
import json
import platform
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from builder import __version__
from builder.cache import code_digest, digest, run_cached
from builder.errors import LowerError
from builder.importers.graph import FrozenGraph
from builder.importers.tf import IR_FLAGS
from builder.link.toolchain import zig_version
from builder.pack.manifest import FileEntry, source_entry
from builder.pack.swap import replacing
from builder.pipeline import (
    Attempt,
    Compiled,
    Settled,
    attempts_for,
    import_graph,
    lower_by,
    roundings_of,
    save_restored,
    settle,
)
from builder.progress import Progress
from builder.project import Project
from builder.spec import ModelSpec
from builder.targets import WASM32
from builder.verify.rounding import Rounding
from builder.verify.verdict import require
from builder.verify.verification import Verification
from builder.wasm.module import FLAVOURS, Flavour, emit_sources, link_module
from builder.wasm.node import PREDICT, node, verify_in_node
from builder.wasm.verify import can_verify, verify_module
from builder.xla.descriptors import tensorflow_version
from builder.xla.tfcompile import CompiledGraph, compile_graph

FOLDER = "wasm"
"""In ``dist/<model>/``."""


@dataclass(frozen=True)
class WasmModule:
    """A module that was built: how it was lowered, and what each engine that is installed here made of it."""

    path: Path
    flavour: Flavour
    attempt: str
    verifications: dict[str, Verification]
    """By the engine's name; empty when there is none."""

    def to_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "isa": self.flavour.isa,
            "lowered": self.attempt,
            "verified": {engine: v.to_dict() for engine, v in self.verifications.items()},
        }


def build_wasm(spec: ModelSpec, project: Project, progress: Progress) -> tuple[WasmModule, ...]:
    """Build both flavours into ``dist/<model>/wasm/``, or take a stage's output from an earlier run.

    Raises the ColdforgeError of the stage that fails; what was in ``dist/`` then stays.
    """
    cache, spec = project.cache, spec.alone

    def stage(name: str, what: str, key: str, build: Callable[[Path], object]) -> Path:
        folder = project.build / spec.name / name
        with progress.stage(name, what) as outcome:
            outcome.cached = run_cached(folder, digest(code_digest(), key), build)
        return folder

    model, graph = import_graph(spec, project, progress)
    if graph.states:
        raise LowerError(
            f"{spec.name} keeps state from call to call ({graph.states[0].spec.name} ...); "
            "only libmodel.so does so, not yet a WebAssembly module."
        )
    folder = stage(
        f"compile{WASM32.suffix}",
        "tfcompile, for its LLVM IR",
        digest(graph.graph_path, graph.config_path, WASM32.name, IR_FLAGS, tensorflow_version()),
        functools.partial(compile_graph, graph, WASM32),
    )
    compiled = CompiledGraph.load(folder, WASM32)
    made = Compiled(model, graph, compiled)
    settled = settle(spec, project, progress)
    spec = settled.spec

    def link(attempt: Attempt) -> tuple[Path, Rounding | None]:
        sources = stage(
            f"lower{WASM32.suffix}{attempt.suffix}",
            f"thunks to steps, buffers and C ({attempt.name})",
            digest(compiled.metadata_path, settled.key, graph.ports_path),
            functools.partial(_lower, attempt, made, settled, cache),
        )
        linked = stage(
            f"link{WASM32.suffix}{attempt.suffix}",
            " and ".join(flavour.file for flavour in FLAVOURS),
            digest(sources, *compiled.ir_paths, zig_version()),
            functools.partial(_link, sources, compiled, cache),
        )
        (rounding,) = roundings_of(spec, [made], sources, stage)
        return linked, rounding

    modules = []
    for flavour in FLAVOURS:
        for attempt in attempts_for(spec):
            folder, rounding = link(attempt)
            path = folder / flavour.file
            with progress.stage("verify", f"{flavour.file} against TensorFlow's answers") as outcome:
                found = _verify(path, graph, spec, rounding)
                passed = all(v.passed for v in found.values())
                outcome.note = "" if passed else "DISAGREES"
                outcome.note = outcome.note if found else "NOT RUN: neither wasmtime (`pip install wasmtime`) nor node"
            if passed or any(v.too_coarse for v in found.values()):
                break
        modules.append(WasmModule(path, flavour, attempt.name, found))
    for module in modules:
        for verification in module.verifications.values():
            require(verification)
    sources = project.build / spec.name / f"lower{WASM32.suffix}"
    return _deliver(modules, sources, spec, digest(model), project.dist / spec.name / FOLDER)


def _lower(attempt: Attempt, made: Compiled, settled: Settled, cache: Path, folder: Path) -> None:
    lowered = lower_by(attempt, made, settled, {}, cache)
    emit_sources(lowered.program, settled.spec, folder)
    save_restored(settled.spec, [lowered], folder)


def _link(sources: Path, compiled: CompiledGraph, cache: Path, folder: Path) -> None:
    for flavour in FLAVOURS:
        link_module(sources, compiled.ir_paths, flavour, folder, cache / "zig")


def _verify(path: Path, graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None) -> dict[str, Verification]:
    found = {}
    if can_verify():
        found["wasmtime"] = verify_module(path, graph, spec, rounding)
    if node():
        found["node"] = verify_in_node(path, graph, spec, rounding)
    return found


def _deliver(
    modules: Sequence[WasmModule], sources: Path, spec: ModelSpec, source_sha256: str, folder: Path
) -> tuple[WasmModule, ...]:
    with replacing(folder) as fresh:
        for module in modules:
            shutil.copyfile(module.path, fresh / module.path.name)
        for path in (PREDICT, sources / "model.json", sources / "model.h"):
            shutil.copyfile(path, fresh / path.name)
        manifest = {
            "model": {"name": spec.name, "version": spec.version},
            "source": source_entry(spec, source_sha256),
            "versions": {
                "coldforge": __version__,
                "python": platform.python_version(),
                "tensorflow": tensorflow_version(),
                "zig": zig_version(),
            },
            "xla_flags": IR_FLAGS,
            "files": [asdict(FileEntry.of(fresh, path.name)) for path in sorted(fresh.iterdir())],
            "modules": {module.path.name: module.to_dict() for module in modules},
        }
        (fresh / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        for path in fresh.iterdir():
            path.chmod(0o644)
    return tuple(replace(module, path=folder / module.path.name) for module in modules)
