"""Import: the trained model's file becomes a frozen graph for each variant, with TensorFlow's own answers."""

from __future__ import annotations

import functools
import gc
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builder.base.cache import compute_digest
from builder.base.errors import SpecError
from builder.base.sandbox import Sandbox
from builder.compiler.lower.compress import ITEM_SIZES
from builder.compiler.xla.compilation_result import read_tensorflow_version
from builder.config import ModelSpec, Source, Variant, to_json
from builder.config.rules import REPOSITORIES
from builder.importers.allowed_ops import UnsupportedOpsError
from builder.importers.frameworks import framework_jobs
from builder.importers.frameworks.framework_environment import FRAMEWORKS, framework_sandbox
from builder.importers.graph import FrozenGraph
from builder.importers.model_description import describe_model
from builder.importers.model_import import import_model
from builder.importers.onnx_data import list_source_files
from builder.importers.ports import ModelPorts
from builder.importers.spec_checks import require_variants
from builder.importers.text import needs_package
from builder.importers.xla_ops import OpReport
from builder.package.lambda_limits import find_size_limits
from builder.package.tokenizers_library import add_tokenizers_package, fetch_tokenizers
from builder.pipeline.convert_framework import answer_by_framework, convert_variants, find_framework, make_import_error
from builder.pipeline.preflight import Preflight, check_graph, require_buildable
from builder.pipeline.workspace import Workspace
from builder.sources import locate_model
from builder.sources.miniaudio import fetch_miniaudio
from builder.sources.transformers_folder import require_model_folder
from builder.verify import reference_answers


@dataclass(frozen=True)
class ImportedModel:
    """The trained model's file, and its frozen graph for each variant of the spec."""

    path: Path
    graphs: tuple[FrozenGraph, ...]

    @property
    def graph(self) -> FrozenGraph:
        """The first variant's graph."""
        return self.graphs[0]


def import_variants(ws: Workspace) -> ImportedModel:
    """Import every variant of the spec, or take it from an earlier run. TensorFlow is loaded only if one is new.

    Raises SpecError if the spec's samples are missing; ImportModelError if the model is missing, cannot be read, or one
    library cannot hold all its variants; EnvironmentSetupError if it cannot be fetched; PreflightError and
    SizeLimitError for the findings of the preflight.
    """
    samples, text = ws.spec.samples, ws.spec.text
    if samples is not None and not samples.exists():
        raise SpecError(f"{ws.spec.path}: [golden].samples: there is no {samples}; name inputs of your own.")
    if needs_package(text):
        fetch_tokenizers(ws.cache, ws.target)  # the bundle needs it
    ws = ws.for_spec(add_tokenizers_package(ws.spec, ws.cache))
    if ws.spec.audio:
        fetch_miniaudio(ws.cache, ws.progress.show_transfer)  # the library needs it
    with ws.progress.show_stage("source", ws.spec.source.shown):
        model = locate_model(ws.spec, ws.cache, ws.progress.show_transfer)
    programs = convert_variants(ws, ws.spec.variants, model)
    graphs = tuple(
        _import_variant(ws, variant, model, program)
        for variant, program in zip(ws.spec.variants, programs, strict=True)
    )
    require_variants(ws.spec, graphs)
    return ImportedModel(model, graphs)


def make_model_describer(
    sandbox: Sandbox, say: Callable[[str], None], *, thorough: bool = False
) -> Callable[[Source, Path], ModelPorts]:
    """Return ``describe_model`` in ``sandbox``; ``say`` gets, once, a line about what the sandbox lacks here."""
    say_once = functools.cache(say)

    def describe(source: Source, path: Path) -> ModelPorts:
        sandbox.kernel.require_demanded()
        if line := sandbox.kernel.describe_missing():
            say_once(line)
        own, job = sandbox, functools.partial(_describe_source, thorough)
        if source.format in FRAMEWORKS:
            own, job = framework_sandbox(sandbox, source.format, say), functools.partial(framework_jobs.describe_ports)
        if source.format in REPOSITORIES:
            require_model_folder(path, source.shown, trust=source.trust)
        with tempfile.TemporaryDirectory(prefix="coldforge-describe-") as folder:
            reads = [*list_source_files(source, path), *filter(None, [source.weights])]
            done = own.run(job, source, path, folder=Path(folder), reads=reads, failed=make_import_error)
        return ModelPorts.from_json(done.value)

    return describe


def label_variant(variant: Variant) -> str:
    """Return the words that tell a further variant's lines in the build's output; empty for the first."""
    return f", {variant.says}" if variant.says else ""


def import_part(ws: Workspace, variant: Variant, model: Path) -> FrozenGraph:
    """Import ``model`` for one input of ``variant``'s batch, without answers. Raises as ``import_variants`` does."""
    ws = ws.for_spec(add_tokenizers_package(ws.spec, ws.cache))
    part = ws.spec.part_of(variant)
    (program,) = convert_variants(ws, [part], model, label_variant(part))
    return _import_variant(ws, part, model, program, answers=False)


def _import_variant(
    ws: Workspace, variant: Variant, model: Path, program: Path, *, answers: bool = True
) -> FrozenGraph:
    """Import the ``program`` of ``variant``, which is ``model`` itself if no other framework reads that."""
    spec = ws.spec.of_variant(variant)
    framework = find_framework(spec)
    by = f", {framework.name if framework else 'TensorFlow'}'s own answers"
    files = [*list_model_files(spec, model), *([program] if framework else [])]
    folder = ws.build_stage(
        "import",
        f"{spec.source.format} to a frozen graph, preflight{by if answers else ''}{label_variant(variant)}",
        compute_digest(to_json(spec), *files, read_tensorflow_version()),
        functools.partial(_import_into, ws, spec, model, program, answers),
        variant.suffix,
    )
    return FrozenGraph.load(folder)


def _import_into(ws: Workspace, spec: ModelSpec, model: Path, program: Path, answers: bool, folder: Path) -> None:
    """Import ``program``, which is not ``model`` itself if another framework reads that."""
    reads = [*list_model_files(spec, program), ws.project.function]  # whose code decodes inputs
    ws.run_sandboxed(_import_graph, spec, program, answers, folder=folder, reads=reads, failed=make_import_error)
    if answers:
        answer_by_framework(ws, spec, model, folder)


def list_model_files(spec: ModelSpec, model: Path) -> list[Path]:
    """Return the model's own files, and the files of inputs for it."""
    texts = [spec.text.file, spec.text.package] if spec.text else []
    return [model, *filter(None, [spec.source.config, spec.source.weights, spec.samples, *texts])]


def _describe_source(thorough: bool, source: Source, path: Path) -> dict[str, Any]:
    return asdict(describe_model(source, path, thorough=thorough))


def _import_graph(spec: ModelSpec, model: Path, answers: bool) -> None:
    try:
        graph = import_model(spec, model, Path.cwd())
    except UnsupportedOpsError as error:
        require_buildable(check_preflight(spec, error.ops))
        raise
    require_buildable(check_preflight(spec, graph))
    if answers:
        gc.collect()  # the model is in the graph's file now, and still here in reference cycles
        reference_answers.make_golden_file(spec, graph)


def check_preflight(spec: ModelSpec, graph: FrozenGraph | OpReport) -> Preflight:
    """Return the obstacles to building ``spec``; an OpReport describes a graph that was read."""
    unzipped, zipped = find_size_limits(spec)
    share = min(ITEM_SIZES[kind] for kind in spec.weight_types) / ITEM_SIZES["float32"]
    return check_graph(graph, max_unzipped=unzipped, max_zipped=zipped, place=spec.weights.place, share=share)
