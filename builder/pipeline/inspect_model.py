"""Inspection: the inputs and outputs of a trained model, and the obstacles to building it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from builder.base.files import scratch_folder
from builder.config import ModelSpec
from builder.importers.allowed_ops import UnsupportedOpsError
from builder.importers.graph import FrozenGraph
from builder.importers.model_description import find_facts
from builder.importers.model_import import freeze_model, open_model
from builder.importers.ports import ModelPorts
from builder.importers.strings.string_ops import ops_of
from builder.pipeline.convert_framework import convert_programs, find_framework, make_import_error
from builder.pipeline.import_model import check_preflight, list_model_files
from builder.pipeline.preflight import Preflight
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace
from builder.sources import locate_model


@dataclass(frozen=True)
class Inspection:
    """The model's own ``ports``, before the spec gives its open dimensions a size, with its graph's facts.

    ``parameters``: the count of numbers in its variables; None for a file without variables, such as a frozen GraphDef.
    ``dynamic``: the outputs whose size the data decides, with their largest shape, such as "boxes [<=100, 4]".
    ``strings``: the function's work with strings before the library runs: their inputs in one line, then the ops of
    the graph in their order, and in the last line the inputs of the library.
    """

    ports: ModelPorts
    parameters: int | None
    preflight: Preflight
    dynamic: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the result for JSON; ``of_json`` reads it back."""
        return {
            **asdict(self.ports),
            "parameters": self.parameters,
            "dynamic": list(self.dynamic),
            "strings": list(self.strings),
            **self.preflight.to_json(),
        }

    @classmethod
    def of_json(cls, data: Any) -> Inspection:
        """Read the result of ``to_json``. Raises ImportModelError and PreflightError for anything else."""
        ports, preflight = ModelPorts.from_json(data), Preflight.of_json(data)
        parameters = data.get("parameters")
        dynamic, strings = (tuple(str(item) for item in data.get(key, [])) for key in ("dynamic", "strings"))
        return cls(ports, parameters if isinstance(parameters, int) else None, preflight, dynamic, strings)


def inspect_source(ws: Workspace) -> Inspection:
    """Read the model of the spec, and build nothing. Raises ImportModelError."""
    ws = complete_workspace(ws)
    model = locate_model(ws.spec, ws.cache, ws.progress.show_transfer)
    with scratch_folder(ws.build / "inspect") as folder:
        if find_framework(ws.spec):
            convert_programs(ws, [ws.spec], model, folder)
            model = folder / "0"
        reads = [*list_model_files(ws.spec, model), ws.project.function]  # whose code makes numbers of strings
        result = ws.run_sandboxed(_inspect_loaded, ws.spec, model, folder=folder, reads=reads, failed=make_import_error)
    return Inspection.of_json(result)


def _inspect_loaded(spec: ModelSpec, model: Path) -> dict[str, Any]:
    loaded = open_model(spec, model)
    try:
        graph = freeze_model(loaded, spec, Path.cwd())
    except UnsupportedOpsError as error:
        return Inspection(loaded.ports, None, check_preflight(spec, error.ops)).to_json()
    dynamic = tuple(f"{port.spec.name} {port.spec.describe_shape()}" for port in graph.fetches if port.spec.dynamic)
    parameters = _count_parameters(graph, graph.read_reference())
    facts, own = find_facts(graph), loaded.ports.facts
    if own:  # The file's own operators say more than the program made of it.
        facts = replace(facts, endings=own.endings)
    ports = replace(loaded.ports, facts=facts, warnings=graph.warnings)
    return Inspection(ports, parameters, check_preflight(spec, graph), dynamic, _describe_strings(graph)).to_json()


def _describe_strings(graph: FrozenGraph) -> tuple[str, ...]:
    if not graph.strings:
        return ()
    names = {name for strings in graph.strings for name in strings.feeds}
    ports = (f"{p.spec.name} {p.spec.dtype} {p.spec.describe_shape()}" for p in graph.feeds if p.spec.name in names)
    return (
        ", ".join(strings.name for strings in graph.strings),
        *ops_of(graph.words_path.read_bytes()),
        ", ".join(ports),
    )


def _count_parameters(graph: FrozenGraph, definition: Any) -> int | None:
    constants = [node for node in definition.node if node.name in graph.variables]
    sizes = [math.prod(d.size for d in node.attr["value"].tensor.tensor_shape.dim) for node in constants]
    sizes += [state.spec.elements for state in graph.states]
    return sum(sizes) if sizes else None
