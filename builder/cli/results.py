"""The results that commands print with ``--json``, as JSON Schema (draft 2020-12), made of the results' own types."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from builder.cli.doctor import Finding
from builder.config.keys import read_field_docs
from builder.importers.ports import ModelPorts
from builder.importers.xla_ops import Unsupported
from builder.measure.bench import Benchmark
from builder.measure.compare_layers import LayerComparison
from builder.measure.compare_layers import StepDifference as StepDifference
from builder.measure.cost import RequestCost
from builder.measure.diff.bundle_difference import BundleDifference
from builder.measure.explain_steps import ExplainedStep, Explanation
from builder.measure.local.run_event import InvokeResult
from builder.measure.weight_accuracy import AccuracyReport
from builder.package.lambda_limits import SizeTable
from builder.pipeline.preflight import Preflight
from builder.release.activate_bundle import ActiveBundle
from builder.release.batch.batch_jobs import BatchStatus
from builder.release.batch.batch_plan import BatchPlan
from builder.release.batch.collect_answers import Collected
from builder.release.batch.start_batch import BatchStart
from builder.release.compare_bundles import BundleComparison
from builder.release.publish import PublishedVersion

Schema = dict[str, Any]
_NAMES = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(kind: Any) -> Schema:
    """Return the schema of ``kind``: a dataclass, a type of its fields, or a schema as it is."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, dict):
        return kind
    if origin is Annotated:
        return schema_of(arguments[0]) | {"description": arguments[1]}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        schemas = [schema_of(one) if one is not types.NoneType else {"type": "null"} for one in arguments]
        return {name: value for schema in schemas for name, value in schema.items()} | {
            "type": [schema["type"] for schema in schemas]
        }
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if is_dataclass(kind):
        return record_schema(kind)
    return {} if kind is Any else {"type": _NAMES[kind]}


def record_schema(*kinds: Any, without: tuple[str, ...] = (), **fields: Any) -> Schema:
    """Return the schema of an object with the fields of ``kinds`` but ``without``, and with ``fields``."""
    hints = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}
    about_fields = {name: {"description": text} for kind in kinds for name, text in read_field_docs(kind)}
    properties = {
        name: schema_of(hint) | about_fields.get(name, {})
        for name, hint in (hints | fields).items()
        if name not in without
    }
    about = inspect.getdoc(kinds[0]) if kinds else None
    described = {"description": about} if about and not about.startswith(f"{kinds[0].__name__}(") else {}
    closed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object"} | described | {"properties": properties} | closed


_EXPLAINED_STEP = record_schema(ExplainedStep, gflops=float, share=Annotated[float, "of the run's time"])
_TOGETHER = record_schema(flop=int, microseconds=float, layer_share=float)

_LOOSE = {"type": ["number", "string"], "description": "a string for nan and infinities"}
_STEP_DIFFERENCE = record_schema(StepDifference, ours=_LOOSE, theirs=_LOOSE, error=_LOOSE, allowed=_LOOSE)
_COMPARED_LAYERS = record_schema(
    LayerComparison,
    rows={"type": "array", "items": _STEP_DIFFERENCE},
    first=_STEP_DIFFERENCE | {"type": ["object", "null"]},
)

_PLAN = record_schema(BatchPlan, dollars=Annotated[float, "of all these"])
_STARTED = record_schema(BatchStart, plan=_PLAN | {"type": ["object", "null"]})
_STATUS = schema_of(BatchStatus)


def _rows_schema(**fields: Any) -> Schema:
    return {"type": "array", "items": record_schema(**fields)}


RESULTS: dict[str, Schema] = {
    "new": record_schema(
        files=Annotated[list[str], "that were written; none with --update"],
        diff=Annotated[str, "unified, from the files as they are to what would be written"],
    ),
    "docs": record_schema(
        page=Annotated[str | None, "null for the list of all pages"],
        text=Annotated[str, "of a page, as Markdown"],
        address=Annotated[str | None, "that --web opened"],
    ),
    "bundle": record_schema(
        bundles=_rows_schema(folder=Path, target=str, sizes=record_schema(SizeTable, unzipped=int, zipped=int))
    ),
    "wasm": record_schema(
        modules=_rows_schema(file=Path, bytes=int, isa=str, lowered=str, verified=dict[str, dict[str, Any]])
    ),
    "bindings": record_schema(language=str, folder=Path),
    "export": record_schema(folder=Path, files=_rows_schema(path=str, bytes=int), tensors=int, parameters=int),
    "selftest": record_schema(
        programs=_rows_schema(
            target=str,
            test=Path,
            benchmark=Path,
            ran=Annotated[bool, "whether this machine could run them"],
            said=Annotated[str, "the text that they printed"],
        )
    ),
    "weights": record_schema(weights=_rows_schema(target=str, file=Path, sha256=str)),
    "doctor": record_schema(can_build=Annotated[bool, "whether a bundle can be built here"], findings=list[Finding]),
    "where": record_schema(route=Literal["docker", "host"]),
    "check-spec": record_schema(specs=_rows_schema(file=Path, name=str, version=str)),
    "inspect": record_schema(
        ModelPorts,
        Preflight,
        parameters=Annotated[int | None, "null for a file without variables"],
        dynamic=Annotated[list[str], "outputs whose size the data decides, with the most that they can have"],
        strings=Annotated[list[str], "inputs of strings, the ops on them, and the inputs of the library"],
        unsupported={"type": "array", "items": record_schema(Unsupported, count=int)},
        unzipped=Annotated[int, "bytes, forecast"],
        least=Annotated[int, "bytes that it has for certain"],
        zipped=Annotated[int, "bytes, forecast"],
        fits=bool,
        ok=Annotated[bool, "whether a build would begin"],
    ),
    "explain": record_schema(
        Explanation, without=("rows",), together=_TOGETHER, steps={"type": "array", "items": _EXPLAINED_STEP}
    ),
    "verify": record_schema(
        path=Annotated[str, "the lowering that is compared"],
        verification={"type": "object", "description": "as in manifest.json"},
        layers=_COMPARED_LAYERS | {"type": ["object", "null"], "description": "null without --layers"},
    ),
    "tune": record_schema(
        file=Annotated[str | None, "null where no layer has a choice, as no file is written then"],
        cpu=str,
        rounds=int,
        behind=Annotated[dict[str, float], "by instruction set, the share by which the rule's choice is slower"],
        layers={
            "type": "object",
            "description": "by their shape",
            "additionalProperties": record_schema(algorithm=str, microseconds=dict[str, dict[str, float]], rule=str),
        },
    ),
    "accuracy": schema_of(AccuracyReport),
    "init": record_schema(file=Annotated[Path, "the model.toml that was written"]),
    "diff": schema_of(BundleDifference),
    "report": record_schema(file=Annotated[Path, "the page; its data is JSON in it"]),
    "invoke": record_schema(InvokeResult, without=("log",)),
    "sample": record_schema(request=Annotated[Any, "as a caller sends it"]),
    "serve": record_schema(url=Annotated[str, "printed as soon as it answers"]),
    "bench": schema_of(Benchmark),
    "cost": schema_of(RequestCost),
    "deploy": record_schema(
        model=str, version=str, stack=str, template=Annotated[Path, "the file that was built and checked"]
    ),
    "publish": schema_of(PublishedVersion),
    "stage": schema_of(ActiveBundle),
    "check": record_schema(template=Annotated[Path, "the file that was checked"]),
    "batch start": _STARTED,
    "batch watch": _STATUS,
    "batch status": _STATUS,
    "batch stop": _STATUS,
    "batch resume": _STARTED,
    "batch collect": schema_of(Collected),
    "sign": record_schema(file=Annotated[Path, "the envelope"]),
    "verify-bundle": record_schema(
        folder=Path,
        name=str,
        version=str,
        files=Annotated[dict[str, str], "SHA-256 of those that the statement names"],
        inputs=Annotated[int, "that the statement records"],
        signed_by=Annotated[str | None, "the key whose signature was checked"],
        not_checked=record_schema(signatures=list[str], files=list[str]),
    ),
    "reproduce": record_schema(BundleComparison, identical=bool),
}
"""By command."""


def make_results_schema() -> Schema:
    """Return all of them in one schema: that of the command NAME is at ``#/$defs/NAME``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What coldforge's commands print with --json",
        "$defs": RESULTS,
    }
