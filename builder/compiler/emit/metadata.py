"""model.json, the text that cf_describe() returns: all that a caller needs to know of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from builder import __version__
from builder.base.records import dump_record
from builder.compiler.abi import ABI_VERSION
from builder.compiler.lower.program import BoundState, Program
from builder.compiler.weights_file import Layout
from builder.config import AudioSpec, ModelSpec, OutputSpec, TextSpec, Variant
from builder.importers.graph import CallerInputs


def format_model_json(
    program: Program,
    spec: ModelSpec,
    isa: dict[str, list[str]],
    outside: Layout | None = None,
    others: Mapping[Variant, Program] | None = None,
    caller_inputs: Sequence[CallerInputs] = (),
) -> str:
    """Format the description as compact ASCII JSON. ``isa``: the architecture and the instruction sets inside.

    ``outside``: the layout of weights outside the library. ``others``: the programs of the other variants.
    ``caller_inputs``: the inputs that callers of each signature pass in place of tensors.
    """
    (arch, levels), *_ = isa.items()
    programs = {spec.variants[0]: program, **(others or {})}
    first, *further = dict.fromkeys(variant.signature for variant in programs)
    batches = list(dict.fromkeys(variant.batch for variant in programs))
    description: dict[str, Any] = {
        "abi": ABI_VERSION,
        "coldforge": __version__,
        "model": {"name": spec.name, "version": spec.version},
        "target": {"arch": arch, "isa": levels},
        "batch": spec.batch,
        **({"batches": batches} if len(batches) > 1 else {}),
        **({"in_parts": True} if _are_batches_in_parts(programs, spec.batch) else {}),
        **({"signature": spec.source.signature} if further else {}),
        **_describe_signature(spec, programs, first),
        **(dump_record(caller_inputs[first]) if caller_inputs else {}),
    }
    if further:
        description["signatures"] = [
            {
                "signature": spec.signatures[number - 1].name,
                **_describe_signature(spec, programs, number),
                **(dump_record(caller_inputs[number]) if caller_inputs else {}),
            }
            for number in further
        ]
    if outside:
        description["weights"] = {"bytes": outside.size, "layout": outside.digest}
    return json.dumps(description, separators=(",", ":"))


def _are_batches_in_parts(programs: Mapping[Variant, Program], smallest: int) -> bool:
    """Return whether there are larger batches and all of them run in parts."""
    larger = [program for variant, program in programs.items() if variant.batch > smallest]
    return bool(larger) and all(program.parts for program in larger)


def _describe_signature(spec: ModelSpec, programs: Mapping[Variant, Program], signature: int) -> dict[str, Any]:
    """Describe the inputs and outputs of one signature, in each of its sizes, for the first batch."""
    variants = {v: p for v, p in programs.items() if v.signature == signature and v.batch == spec.batch}
    own, (program, *others) = spec.of_variant(next(iter(variants))), variants.values()
    image, audio = own.image, own.audio
    pad = {feed.name: feed.pad for feed in own.feeds if feed.pad is not None}
    nan = [feed.name for feed in own.feeds if feed.nan]
    return {
        **_describe_ports(program),
        **({"shapes": [_describe_ports(p) for p in (program, *others)]} if others else {}),
        **({"pad": pad} if pad else {}),
        **({"nan": nan} if nan else {}),
        "image": image
        and {
            "feed": image.feed or program.feeds[0].spec.name,
            "width": image.width,
            "height": image.height,
            "mode": image.mode,
            "fit": image.fit,
            **({"crop": image.crop} if image.crop != 1 else {}),
            "resize": image.resize,
            **({"grid": image.grid} if image.grid != "half_pixel" else {}),
            "antialias": image.antialias,
            "padding": list(image.padding),
            "background": list(image.background),
            "decode": image.decode,
        },
        **({"audio": _describe_audio(audio, program)} if audio else {}),
        **({"text": _describe_text(own.text, program)} if own.text else {}),
        **({"states": [_describe_state(s) for s in program.states]} if program.states else {}),
        "outputs": [_describe_output(o, program) for o in own.outputs] or _list_raw_outputs(program),
    }


def _describe_audio(audio: AudioSpec, program: Program) -> dict[str, Any]:
    feed = audio.feed or program.feeds[0].spec.name
    return {"feed": feed, "rate": audio.rate, "length": audio.length, "hop": audio.step}


def _describe_text(text: TextSpec, program: Program) -> dict[str, Any]:
    named = text.with_feed_names([port.spec.name for port in program.feeds])
    prompts = {"prompts": dict(text.prompts), "opening": text.opening} if text.prompts else {}
    pairs = {"pairs": True} if text.pairs else {}
    return {"ids": named.ids, "mask": named.mask, "types": named.types, **prompts, **pairs}


def _describe_ports(program: Program) -> dict[str, Any]:
    return {
        "feeds": [port.spec.to_dict() for port in program.feeds],
        "fetches": [port.spec.to_dict() for port in program.fetches],
    }


def _describe_state(state: BoundState) -> dict[str, Any]:
    spec = state.spec
    return {
        "name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape), "offset": state.offset, "bytes": spec.size,
    }  # fmt: skip


def _describe_output(output: OutputSpec, program: Program) -> dict[str, Any]:
    return {
        "name": output.name,
        "fetch": output.fetch or program.fetches[0].spec.name,
        "kind": output.kind,
        "labels": list(output.labels),
        "top_k": output.top_k,
        **({"format": output.answer_format} if output.answer_format else {}),
        **({"normalise": True} if output.normalise else {}),
        **(_describe_detection(output) if output.kind == "detection" else {}),
        **({"join": output.joins, "ignore": list(output.ignore)} if output.kind == "tokens" else {}),
    }


def _describe_detection(output: OutputSpec) -> dict[str, Any]:
    return {
        "scores": output.scores,
        "classes": output.classes or "",
        "counts": output.count or "",
        "box_format": output.box_format,
        "box_units": output.box_units,
        "threshold": output.least,
    }


def _list_raw_outputs(program: Program) -> list[dict[str, Any]]:
    """List every fetch as a raw output, except those that hold the size of another."""
    names = [port.spec.name for port in program.fetches]
    shapes = {port.spec.shape_fetch for port in program.fetches}
    return [
        {"name": name, "fetch": name, "kind": "raw", "labels": [], "top_k": None}
        for name in names
        if name not in shapes
    ]
