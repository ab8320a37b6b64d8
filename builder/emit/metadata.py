"""model.json: what cf_describe() returns, and all that a caller needs to know of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from builder import __version__
from builder.lower.program import BoundPort, BoundState, Program
from builder.outside import Layout
from builder.spec import ModelSpec, OutputSpec, Variant

ABI_VERSION = 1


def model_json(
    program: Program,
    spec: ModelSpec,
    isa: dict[str, list[str]],
    outside: Layout | None = None,
    others: Mapping[Variant, Program] | None = None,
) -> str:
    """The description as compact ASCII JSON. ``isa``: architecture to the instruction sets inside.

    ``outside``: of the weights, where they are no part of the library. ``others``: what it runs as well.
    """
    others = others or {}
    batches = [spec.batch, *(v.batch for v in others if not v.size)]
    sizes = [program, *(other for v, other in others.items() if v.size and v.batch == spec.batch)]
    pad = {feed.name: feed.pad for feed in spec.feeds if feed.pad is not None}
    (arch, levels), *_ = isa.items()
    image = spec.image
    description: dict[str, Any] = {
        "abi": ABI_VERSION,
        "coldforge": __version__,
        "model": {"name": spec.name, "version": spec.version},
        "target": {"arch": arch, "isa": levels},
        "batch": spec.batch,
        **({"batches": batches} if len(batches) > 1 else {}),
        **_ports(program),
        **({"shapes": [_ports(one) for one in sizes]} if len(sizes) > 1 else {}),
        **({"pad": pad} if pad else {}),
        "image": image
        and {
            "feed": image.feed or program.feeds[0].spec.name,
            "width": image.width,
            "height": image.height,
            "mode": image.mode,
            "fit": image.fit,
            "resize": image.resize,
            "antialias": image.antialias,
            "padding": list(image.padding),
            "background": list(image.background),
            "decode": image.decode,
        },
        **({"states": [_state(s) for s in program.states]} if program.states else {}),
        "outputs": [_output(o, program) for o in spec.outputs] or [_raw(p) for p in program.fetches],
    }
    if outside:
        description["weights"] = {"bytes": outside.size, "layout": outside.digest}
    return json.dumps(description, separators=(",", ":"))


def _ports(program: Program) -> dict[str, Any]:
    return {"feeds": [_port(p) for p in program.feeds], "fetches": [_port(p) for p in program.fetches]}


def _port(port: BoundPort) -> dict[str, Any]:
    spec = port.spec
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape), "bytes": spec.size}


def _state(state: BoundState) -> dict[str, Any]:
    spec = state.spec
    return {
        "name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape), "offset": state.offset, "bytes": spec.size,
    }  # fmt: skip


def _output(output: OutputSpec, program: Program) -> dict[str, Any]:
    return {
        "name": output.name,
        "fetch": output.fetch or program.fetches[0].spec.name,
        "kind": output.kind,
        "labels": list(output.labels),
        "top_k": output.top_k,
    }


def _raw(port: BoundPort) -> dict[str, Any]:
    return {"name": port.spec.name, "fetch": port.spec.name, "kind": "raw", "labels": [], "top_k": None}
