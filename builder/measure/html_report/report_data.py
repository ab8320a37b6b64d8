"""Content of a report, measured and read, as one value of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from builder import __version__
from builder.measure.bench import benchmark_bundle
from builder.measure.cost import report_cost
from builder.measure.explain_steps import Study, study_model
from builder.measure.html_report.agreement_histogram import make_histograms
from builder.measure.html_report.memory_flow import trace_memory_flow
from builder.measure.html_report.size_tree import size_tree
from builder.measure.machine import cpu_name
from builder.measure.peak import measure_peak
from builder.measure.weight_accuracy import read_last_accuracy
from builder.package.bundle import find_bundle
from builder.package.dependencies import dependencies_folder
from builder.pipeline.workspace import Workspace


def gather_report(ws: Workspace, *, seconds: float = 3.0, starts: int = 3, named: str = "") -> dict[str, Any]:
    """Return the report's data about the bundle of ``ws``, measured on one thread.

    ``named``: the command's name for the model. ``starts``: cold starts; 0 leaves the function and its cost out. Raises
    UsageError where there is no bundle, the ColdforgeError of a stage that fails, VerifyError where this machine cannot
    run the library.
    """
    bundle = find_bundle(ws.project.dist, ws.spec.name, ws.target, named)
    manifest = json.loads(bundle.manifest.read_text(encoding="utf-8"))
    study = study_model(ws, seconds=seconds)
    graph = study.compiled.graph
    with ws.progress.show_stage("agreement", "the library's answers to the golden inputs, number by number"):
        errors = make_histograms(bundle, graph)
    with ws.progress.show_stage("bench", "the library, and the function in Lambda's emulator"):
        speed = benchmark_bundle(bundle, seconds=seconds, starts=starts)
    with ws.progress.show_stage("peak", "what one thread of this machine reaches"):
        peak = measure_peak()
    function = speed.function
    return {
        "coldforge": __version__,
        "model": manifest["model"],
        "target": manifest["target"],
        "cpu": cpu_name(),
        "feeds": manifest["feeds"],
        "fetches": manifest["fetches"],
        "zipped": bundle.sizes.zipped,
        "unzipped": bundle.sizes.unzipped,
        "sizes": size_tree(
            bundle,
            manifest,
            study.compiled.kernels.kernels_path,
            dependencies_folder(ws.project, ws.target),
        ),
        "program": _describe_program(study),
        "peak": asdict(peak),
        "memory": _describe_memory(study),
        "agreement": {"outputs": manifest["verification"]["outputs"], "histograms": errors},
        "accuracy": read_last_accuracy(ws, graph),
        "bench": asdict(speed),
        "cost": report_cost(ws.target, function) if function else None,
        "stages": _read_stage_times(ws.stage_times),
    }


def _describe_program(found: Study) -> dict[str, Any]:
    """Return the steps that ran and their edges; ``outer`` counts the steps outside loops and branches."""
    explained = found.explanation
    data = explained.to_dict()
    layers = {layer["step"]: layer["layer"] for layer in data["layers"]}
    outer = -1
    for step in data["steps"]:
        outer += step["depth"] == 0
        step |= {"outer": outer, "layer": layers.get(step["step"], "")}
    edges = [list(edge) for edge in trace_memory_flow(found.program).edges]
    fields = ("path", "reason", "isa", "threads", "rounds", "run_microseconds", "weights", "arena", "together", "steps")
    return {key: data[key] for key in fields} | {"edges": edges}


def _describe_memory(found: Study) -> dict[str, Any]:
    """Return the arena: [offset, bytes, first step, last step, whether it is scratch, its writer] of each value."""
    program = found.program
    lives = [[v.offset, v.size, v.first, v.last, v.scratch, v.made_by[0]] for v in trace_memory_flow(program).lives]
    return {"arena": program.arena_size, "steps": len(program.steps), "lives": lives}


def _read_stage_times(path: Path) -> list[dict[str, Any]] | None:
    """Return the time of each stage of the bundle's build; None where it was not kept, as of a build in Docker."""
    try:
        stages: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return [stage | {"what": "" if stage["name"] == "source" else stage["what"]} for stage in stages]
