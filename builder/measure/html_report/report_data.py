"""Content of a report, measured and read, as one value of JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from builder import __version__
from builder.compiler.audit.elf_facts import read_facts
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer, walk_steps
from builder.importers.graph import FrozenGraph
from builder.measure.bench import benchmark_bundle
from builder.measure.cost import report_cost
from builder.measure.explain_steps import Study, study_model
from builder.measure.machine import cpu_name, measure_peak
from builder.measure.weight_accuracy import read_last_accuracy
from builder.package.bundle import Bundle, find_bundle
from builder.package.dependencies import dependencies_folder
from builder.package.layer import files_of
from builder.pipeline.workspace import Workspace
from builder.verify.golden import GoldenFile
from builder.verify.library.loaded_library import OpenedModel
from builder.verify.quantise.answer_accuracy import run_once


def gather_report(ws: Workspace, *, seconds: float = 3.0, starts: int = 3, named: str = "") -> dict[str, Any]:
    """Return the report's data about the bundle of ``ws``, measured on one thread.

    ``named``: the command's name for the model. ``starts``: cold starts; 0 leaves the function and its cost out. Raises
    UsageError where there is no bundle, the ColdforgeError of a stage that fails, VerifyError where this machine cannot
    run the library.
    """
    bundle = find_bundle(ws.project.dist, ws.spec.name, ws.target, named)
    manifest = json.loads(bundle.manifest.read_text(encoding="utf-8"))
    study = study_model(ws, seconds=seconds)
    graph, program, flow = study.compiled.graph, study.program, trace_memory_flow(study.program)
    with ws.progress.show_stage("agreement", "the library's answers to the golden inputs, number by number"):
        errors = _make_histograms(bundle, graph)
    with ws.progress.show_stage("bench", "the library, and the function in Lambda's emulator"):
        speed = benchmark_bundle(bundle, seconds=seconds, starts=starts)
    with ws.progress.show_stage("peak", "what one thread of this machine reaches"):
        peak = measure_peak()
    function, kernels = speed.function, study.compiled.kernels.kernels_path
    return {
        "coldforge": __version__,
        "model": manifest["model"],
        "target": manifest["target"],
        "cpu": cpu_name(),
        "feeds": manifest["feeds"],
        "fetches": manifest["fetches"],
        "zipped": bundle.sizes.zipped,
        "unzipped": bundle.sizes.unzipped,
        "sizes": _make_size_tree(bundle, manifest, kernels, dependencies_folder(ws.project, ws.target)),
        "program": _describe_program(study, flow),
        "peak": peak,
        "memory": {
            "arena": program.arena_size,
            "steps": len(program.steps),
            # Of each value: offset, bytes, first step, last step, whether it is scratch, its writer.
            "lives": [[v.buffer.offset, v.buffer.size, v.first, v.last, v.scratch, v.made_by[0]] for v in flow.lives],
        },
        "agreement": {"outputs": manifest["verification"]["outputs"], "histograms": errors},
        "accuracy": read_last_accuracy(ws, graph),
        "bench": asdict(speed),
        "cost": report_cost(ws.target, function) if function else None,
        "stages": _read_stage_times(ws.stage_times),
    }


def _describe_program(study: Study, flow: MemoryFlow) -> dict[str, Any]:
    """Return the steps that ran and their edges; ``outer`` counts the steps outside loops and branches."""
    data = study.explanation.to_dict()
    layers = {layer["step"]: layer["layer"] for layer in data["layers"]}
    outer = -1
    for step in data["steps"]:
        outer += step["depth"] == 0
        step |= {"outer": outer, "layer": layers.get(step["step"], "")}
    fields = ("path", "reason", "isa", "threads", "rounds", "run_microseconds", "weights", "arena", "together", "steps")
    return {key: data[key] for key in fields} | {"edges": [list(edge) for edge in flow.edges]}


def _read_stage_times(path: Path) -> list[dict[str, Any]] | None:
    """Return the time of each stage of the bundle's build; None where it was not kept, as of a build in Docker."""
    try:
        stages: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return [stage | {"what": "" if stage["name"] == "source" else stage["what"]} for stage in stages]


PER_DECADE = 2
"""Number of bars in the histogram between two powers of ten."""

_LEAST, _MOST = -10, 4  # Powers of ten; larger values are counted in the last bar.


def _make_histograms(bundle: Bundle, graph: FrozenGraph) -> list[dict[str, Any]]:
    """Return the absolute errors over all golden inputs, for each fetch of floats.

    ``exact``: the count of numbers equal to TensorFlow's; ``bars``: [from, to, count], from the first bar with a number
    to the last; ``cases``: the worst error of each golden input. Raises VerifyError where this machine cannot run the
    library.
    """
    names = [port.spec.name for port in graph.fetches if port.spec.dtype.startswith("float")]
    errors: dict[str, dict[str, Any]] = {name: {} for name in names}
    with (
        GoldenFile.open(graph.golden_path) as golden,
        OpenedModel(bundle.library, 0, bundle.weights_elsewhere) as model,
    ):
        for case in golden.cases:
            feeds = {port.spec.name: golden.read_feed(case, port.spec.name) for port in graph.feeds}
            answers = run_once(model, graph, feeds)
            for name in names:
                theirs = golden.read_fetch(case, name).astype(np.float64).ravel()
                ours = answers[name].ravel()[: theirs.size].astype(np.float64)
                difference = np.where(ours == theirs, 0.0, np.abs(ours - theirs))
                errors[name][case] = difference[np.isfinite(difference)]
    return [_make_histogram(name, cases) for name, cases in errors.items()]


def _make_histogram(name: str, cases: dict[str, Any]) -> dict[str, Any]:
    every = np.concatenate(list(cases.values()))
    beyond = every[every > 0]
    bins = np.clip(np.floor(np.log10(beyond) * PER_DECADE), _LEAST * PER_DECADE, _MOST * PER_DECADE).astype(int)
    first, last = (int(bins.min()), int(bins.max())) if bins.size else (0, -1)
    counts = np.bincount(bins - first, minlength=last - first + 1)
    edges = [10 ** (step / PER_DECADE) for step in range(first, last + 2)]
    return {
        "fetch": name,
        "numbers": int(every.size),
        "exact": int(every.size - beyond.size),
        "worst": float(every.max(initial=0.0)),
        "bars": [[low, high, int(n)] for low, high, n in zip(edges, edges[1:], counts, strict=False)],
        "cases": [{"case": case, "worst": float(case_errors.max(initial=0.0))} for case, case_errors in cases.items()],
    }


@dataclass
class BufferLife:
    """A value: the bytes of ``buffer``, from the step ``first`` to the step ``last``, both included.

    ``made_by``: the steps that wrote it; -1 is a feed. ``scratch``: whether only one step uses it.
    """

    buffer: Buffer
    first: int
    last: int
    made_by: list[int]
    scratch: bool = False

    def is_updated(self, part: Buffer, read_now: set[Buffer]) -> bool:
        """Return whether a write to ``part`` changes a part of the value, which was just read, and not all of it."""
        end, inside = self.buffer.offset + self.buffer.size, part.size < self.buffer.size
        within = self.buffer.offset <= part.offset and part.offset + part.size <= end
        return inside and within and self.buffer in read_now


@dataclass
class MemoryFlow:
    """Flow of values between steps, and their places in the arena meanwhile.

    A step inside a loop, branch or call counts as the step that holds it. ``edges``: (from, to) by number of the
    outermost steps; -1 is the feeds, the number of steps is the fetches.
    """

    lives: list[BufferLife] = field(default_factory=list)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    live: list[BufferLife] = field(default_factory=list)
    read_now: set[Buffer] = field(default_factory=set)
    """The buffers that the step reads whose results are written next."""

    def add_write(self, step: int, buffer: Buffer, *, scratch: bool = False) -> None:
        """Record a write, which ends the values that it overlaps; a part of a value just read is written in place."""
        for life in self.live:
            if life.is_updated(buffer, self.read_now):
                life.made_by.append(step)
                return
        self.live = [life for life in self.live if not life.buffer.overlaps_buffer(buffer)]
        self.live.append(BufferLife(buffer, step, step, [step], scratch))
        self.lives.append(self.live[-1])

    def add_read(self, step: int, buffer: Buffer) -> None:
        """Record a read of the values that overlap ``buffer``."""
        self.read_now.add(buffer)
        for life in self.live:
            if life.buffer.overlaps_buffer(buffer) and not life.scratch:
                life.last = step
                self.edges |= {(maker, step): None for maker in life.made_by if maker != step}


def trace_memory_flow(program: Program) -> MemoryFlow:
    """Return the flow through the outermost steps of ``program``."""
    flow = MemoryFlow()
    for buffer in _select_arena([*(port.buffer for port in program.feeds), *(state.read for state in program.states)]):
        flow.add_write(-1, buffer)
    for number, step in enumerate(program.steps):
        flow.read_now.clear()
        inner_steps = walk_steps((step,))
        reads = [buffer for inner in inner_steps for buffer in inner.reads]
        if any(buffer.space == "feed" for buffer in reads):
            flow.edges[-1, number] = None
        for buffer in _select_arena(reads):
            flow.add_read(number, buffer)
        for buffer in _select_arena(buffer for inner in inner_steps for buffer in inner.writes):
            flow.add_write(number, buffer)
        for buffer in _select_arena(buffer for inner in inner_steps for buffer in inner.scratch_buffers):
            flow.add_write(number, buffer, scratch=True)
    for buffer in (*(port.buffer for port in program.fetches), *(state.write for state in program.states)):
        flow.add_read(len(program.steps), buffer)
    return flow


def _select_arena(buffers: Iterable[Buffer]) -> Iterable[Buffer]:
    """Return the buffers in the arena, each once."""
    return dict.fromkeys(buffer for buffer in buffers if buffer.space == "arena" and buffer.size)


Tree = dict[str, Any]
"""Tree: ``name``, and ``bytes`` of a leaf or ``children``; ``kind`` of the outer parts, which the page colours."""


def _make_size_tree(bundle: Bundle, manifest: Mapping[str, Any], kernels: Path, dependencies: Path) -> Tree:
    """Return everything that is unzipped in Lambda; the leaves' sum is the manifest's.

    ``kernels``: XLA's object file; ``dependencies``: the built layer's folder, if it exists.
    """
    components = {c.name: c.unzipped for c in bundle.sizes.components}
    library = bundle.library.stat().st_size
    weights = int(manifest["lowering"]["weights"]["bytes"])
    apart = "weights" in manifest  # The weights are a file of their own, which may be in the layer.
    weights_in_layer = weights if not apart or bundle.weights.is_file() else 0
    layers = _split_weights(manifest["lowering"]["weights"]) if weights_in_layer else []
    code = dict(read_facts(bundle.library).sections).get(".text", 0)
    xla = min(_count_code_bytes(kernels), code)
    own_code = [("coldforge's kernels and runtime", code - xla), ("XLA's kernels of this model", xla)]
    tables = library - (0 if apart else weights) - code
    other_files = components["model layer"] - library - (weights_in_layer if apart else 0)
    parts = [
        *([_make_part("weights", "weights", layers)] if layers else []),
        _make_part("code", "code", [part for part in own_code if part[1]]),
        _make_part("tables", "tables", [("the library's tables", tables)]),
        _make_part("dependencies", "dependencies", _list_packages(dependencies, components["dependencies layer"])),
        _make_part("function", "function", [("handler", components["function"])]),
        *([_make_part("beside the library", "tables", [("files", other_files)])] if other_files else []),
    ]
    return {"name": "function and layers, unzipped", "bytes": bundle.sizes.unzipped, "children": parts}


def _make_part(name: str, kind: str, leaves: Iterable[tuple[str, int]]) -> Tree:
    return {"name": name, "kind": kind, "children": [{"name": leaf, "bytes": count} for leaf, count in leaves]}


def _split_weights(weights: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the bytes of each layer, and of the rest; layers that share weights cannot be told apart."""
    layers = [(layer.get("layer") or layer["step"], layer["bytes"]) for layer in weights["layers"]]
    rest = weights["bytes"] - sum(count for _, count in layers)
    if rest < 0:
        return [("all layers", weights["bytes"])]
    return sorted(layers, key=lambda layer: -layer[1]) + ([("biases and other constants", rest)] if rest else [])


def _count_code_bytes(kernels: Path) -> int:
    """Return the bytes of the code in an object file."""
    from elftools.elf.elffile import ELFFile

    with kernels.open("rb") as file:
        return sum(int(s["sh_size"]) for s in ELFFile(file).iter_sections() if s.name.startswith(".text"))


def _list_packages(folder: Path, size: int) -> list[tuple[str, int]]:
    bytes_by_package: Counter[str] = Counter()
    for name, path in files_of(folder):  # python/<package>/...
        top = name.split("/")[1] if "/" in name else name
        bytes_by_package[re.sub(r"(-[\d.]+\.dist-info|\.py|\.cpython.*\.so)$", "", top)] += path.stat().st_size
    # The installed packages may be others than those that the bundle was packed with.
    return bytes_by_package.most_common() if bytes_by_package.total() == size else [("all packages", size)]
