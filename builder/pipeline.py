"""The order of the stages, and nothing else: a ModelSpec in, a bundle in ``dist/`` out.

Every stage reads the folder before it and writes its own, ``build/<model>/<stage>/``. The key that
decides whether a stage runs again is made of the content it reads, so a change travels only as far as
it makes a difference. TensorFlow is imported only by the stages that need it, when they run.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from builder import __version__
from builder.audit import AuditReport, audit
from builder.cache import code_digest, digest, run_cached
from builder.emit import Sources, emit
from builder.importers import import_model
from builder.importers.graph import FrozenGraph
from builder.importers.tf import XLA_FLAGS
from builder.link.library import SharedLibrary, link_library
from builder.link.toolchain import zig_version
from builder.lower import LoweringPath, lower
from builder.lower.optimise import Options
from builder.pack.assemble import pack
from builder.pack.bundle import Bundle, activate
from builder.pack.dependencies import DEPENDENCIES_LOCK, build_dependencies
from builder.preflight import Preflight, check, require
from builder.progress import Progress
from builder.project import Project
from builder.sources import locate
from builder.spec import ModelSpec, to_json
from builder.verify import golden
from builder.verify.compare import Verification, verify
from builder.xla.descriptors import tensorflow_version
from builder.xla.tfcompile import CompiledGraph, compile_graph


@dataclass(frozen=True)
class Built:
    """A finished bundle and what was found out about it on the way."""

    bundle: Bundle
    audit: AuditReport
    verification: Verification


@dataclass(frozen=True)
class Attempt:
    """One way to lower a graph; ``suffix`` tells its folders from those of the others."""

    name: str
    suffix: str
    path: LoweringPath
    options: Options | None = None


ATTEMPTS = (
    Attempt("optimised", "", "optimised"),
    Attempt("optimised, without Winograd", "-direct", "optimised", Options(allow_winograd=False)),
    Attempt("faithful", "-faithful", "faithful"),
)
"""In this order, until one agrees with TensorFlow: speed is never had for a wrong answer."""


def build_bundle(spec: ModelSpec, project: Project, progress: Progress) -> Built:
    """Run every stage for ``spec``, or take its output from an earlier run with the same input.

    Raises the ColdforgeError of the stage that fails; the last good bundle stays in place.
    """
    cache, target = project.cache, spec.targets[0]

    def stage(name: str, what: str, key: str, build: Callable[[Path], object]) -> Path:
        folder = project.build / spec.name / name
        with progress.stage(name, what) as outcome:
            outcome.cached = run_cached(folder, digest(code_digest(), key), build)
        return folder

    with progress.stage("source", spec.source.package or f"{spec.source.path}"):
        model = locate(spec, cache)
    folder = stage(
        "import",
        f"{spec.source.format} to a frozen graph, preflight, TensorFlow's own answers",
        digest(to_json(spec), model, tensorflow_version()),
        functools.partial(import_stage, spec, model),
    )
    graph = FrozenGraph.load(folder)
    folder = stage(
        "compile",
        f"tfcompile for {target}",
        digest(graph.graph_path, graph.config_path, target, XLA_FLAGS, tensorflow_version()),
        functools.partial(compile_graph, graph, target),
    )
    compiled = CompiledGraph.load(folder, target)
    for attempt in ATTEMPTS:
        folder = stage(
            f"lower{attempt.suffix}",
            f"thunks to steps, buffers and C ({attempt.name})",
            digest(compiled.metadata_path, to_json(spec), graph.ports_path),
            functools.partial(_lower, compiled, graph, spec, attempt, cache),
        )
        sources = Sources(folder)
        folder = stage(
            f"link{attempt.suffix}",
            f"libmodel.so for {target}",
            digest(sources.folder, compiled.kernels_path, target, zig_version()),
            functools.partial(_link, sources, compiled, target, cache),
        )
        library = SharedLibrary(folder, target).path
        with progress.stage("audit", "the library against the portability policy"):
            report = audit(library, target)
        with progress.stage("verify", "the library against TensorFlow's answers") as outcome:
            verification = verify(library, graph, spec)
            outcome.note = "" if verification.passed else "DISAGREES"
        if verification.passed:
            break
    with progress.stage("layer", "the function's dependencies") as outcome:
        outcome.cached, dependencies = build_dependencies(project)
    with progress.stage("pack", f"dist/{spec.name}"):
        bundle = pack(
            spec=spec,
            library=library,
            header=sources.header,
            model_json=sources.description.read_text(),
            audit=report,
            verification=verification,
            source_sha256=digest(model),
            versions={
                "coldforge": __version__,
                "python": platform.python_version(),
                "tensorflow": tensorflow_version(),
                "zig": zig_version(),
            },
            xla_flags=XLA_FLAGS,
            dist=project.dist,
            dependencies=dependencies,
            dependencies_lock=project.layers / DEPENDENCIES_LOCK,
            function=project.function,
        )
        activate(bundle, project.layers)
    return Built(bundle, report, verification)


def inspect(spec: ModelSpec, project: Project) -> Preflight:
    """The preflight on its own: what stands in the way of building ``spec``. Raises ImportModelError."""
    folder = project.build / spec.name / "inspect"
    folder.mkdir(parents=True, exist_ok=True)
    graph = import_model(spec, locate(spec, project.cache), folder)
    return check(graph, max_unzipped=spec.max_unzipped, max_zipped=spec.max_zipped)


def import_stage(spec: ModelSpec, model: Path, folder: Path) -> None:
    """The frozen graph of ``model`` and TensorFlow's answers, in ``folder``; raises what the preflight finds."""
    graph = import_model(spec, model, folder)
    require(check(graph, max_unzipped=spec.max_unzipped, max_zipped=spec.max_zipped))
    golden.make(spec, graph)


def _lower(
    compiled: CompiledGraph, graph: FrozenGraph, spec: ModelSpec, attempt: Attempt, cache: Path, folder: Path
) -> None:
    program = lower(compiled.metadata_path, graph, cache, attempt.path, attempt.options)
    emit(program, spec, compiled.target, folder)


def _link(sources: Sources, compiled: CompiledGraph, target: str, cache: Path, folder: Path) -> None:
    link_library(sources, compiled.kernels_path, target, folder, cache / "zig")
