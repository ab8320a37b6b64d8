"""What each command prints with ``--json``, as JSON Schema (draft 2020-12); docs/results.schema.json is made of it."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def _text(says: str = "", *values: str) -> Schema:
    return {"type": "string", **({"enum": list(values)} if values else {}), **_said(says)}


def _whole(says: str = "") -> Schema:
    return {"type": "integer", **_said(says)}


def _number(says: str = "") -> Schema:
    return {"type": "number", **_said(says)}


def _flag(says: str = "") -> Schema:
    return {"type": "boolean", **_said(says)}


def _list(items: Schema, says: str = "") -> Schema:
    return {"type": "array", "items": items, **_said(says)}


def _by_name(values: Schema, says: str = "") -> Schema:
    return {"type": "object", "additionalProperties": values, **_said(says)}


def _object(says: str = "", **properties: Schema) -> Schema:
    """With all of ``properties``, and no others."""
    closed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", **_said(says), "properties": properties, **closed}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _said(says: str) -> Schema:
    return {"description": says} if says else {}


_SIZES = _object(
    "bytes, against what Lambda and model.toml allow",
    components=_list(_object(name=_text(), unzipped=_whole(), zipped=_whole(), layer=_flag("counts as a layer"))),
    unzipped=_whole("of all components"),
    zipped=_whole("of all components"),
    max_unzipped=_whole("for all components together"),
    max_zipped=_whole("for each zip"),
)

_PORT = _object(
    name=_text(),
    dtype=_text("NumPy's name, or TensorFlow's where NumPy has none"),
    shape=_or_null(_list(_or_null(_whole()), "null is a dimension that the model leaves open; null for any shape")),
    value={
        "type": ["number", "boolean", "null"],
        **_said("for inference, of an input that seems only to tell it from training"),
    },
    rows={"type": ["integer", "null"], **_said("of the table of which PyTorch looks up every element of an input")},
)

_SCALING = _object(
    "the first step on pixels is pixel * scale + offset, with a value for each channel",
    feed=_text(),
    scale=_list(_number()),
    offset=_list(_number()),
    reverses=_flag("the graph reverses channels before that"),
    size=_or_null(_list(_whole(), "height and width to which the graph resizes")),
)

_FACTS = _object(
    "what the graph tells; null where it cannot be compiled",
    scalings=_list(_SCALING, "of inputs that may be images"),
    endings=_by_name(_text(), "the op that makes each output"),
    family=_text("of published image networks, by the names of layers; or empty"),
    length=_or_null(_whole("that was tried for dimensions that the model leaves open")),
    missing=_list(_text(), "the inputs in which it looks for NaN"),
)

_LAYER_WEIGHTS = _object(
    step=_text(),
    layer=_text("the op's name in the model"),
    type=_text(),
    count=_whole(),
    bytes=_whole(),
    as_float32=_whole("bytes"),
    kept=_text("why they are not of the type that was asked for"),
    input=_or_null(_object("how the layer's input is rounded to bytes", scale=_number(), zero=_whole())),
    input_kept=_text("why the input is not rounded, where that was asked for"),
)

_STEP = _object(
    step=_text(),
    depth=_whole("how many loops, branches and calls the step stands in"),
    kind=_text(),
    algorithm=_text(),
    matched=_list(_text("what was fused")),
    flop=_whole("of one call; a multiply-add is two"),
    bytes=_whole("of one call"),
    calls=_whole("in one run"),
    microseconds=_number("of all calls, in the fastest round"),
    median_microseconds=_number(),
    gflops=_number("10^9 operations per second"),
    share=_number("of the run's time"),
)

_SPREAD = _object("milliseconds", runs=_whole(), min=_number(), p50=_number(), p90=_number(), p99=_number())

_START = _object(
    "milliseconds of the median cold start",
    imports=_number(),
    load=_number(),
    first=_number(),
    decode=_number("a part of `first`"),
    infer=_number("a part of `first`"),
)

_CHANGE = _object(what=_text(), before=_or_null(_text("null: not there")), after=_or_null(_text("null: not there")))

_FIGURE = _object(
    what=_text(),
    unit=_text("", "bytes", "steps", "error"),
    before=_or_null(_number()),
    after=_or_null(_number()),
)

_ACCURACY = _object(
    outputs=_list(
        _object(
            output=_text(),
            top1=_or_null(_number("the share of items with TensorFlow's top class")),
            top5=_or_null(_number("the share of items with it among the first five")),
            worst=_number("absolute error"),
            mean=_number("absolute error"),
            right=_or_null(_number("the share of items whose top class is the label's")),
            right_tensorflow=_or_null(_number("the same of TensorFlow")),
        )
    ),
    agreement=_or_null(_number("the share of items in which every top class is TensorFlow's")),
)

_FUNCTION = _object(
    "the function in Lambda's emulator; null where it was left out",
    python=_text(),
    note=_text(),
    starts=_whole(),
    start=_START,
    warm=_SPREAD,
    handler=_number("milliseconds that the function itself takes of a warm request, the median"),
    memory=_whole("bytes of the function's process, at most"),
)

_ANY_NUMBER: Schema = {"type": ["number", "string"], "description": "a string for nan and infinities"}

_DIFFERENCE = _object(
    step=_text(),
    op=_text("in the model"),
    shape=_list(_whole()),
    place=_list(_whole(), "of the worst element"),
    ours=_ANY_NUMBER,
    theirs=_ANY_NUMBER,
    error=_ANY_NUMBER,
    allowed=_ANY_NUMBER,
    largest=_number("TensorFlow's largest magnitude"),
    off=_flag(),
)

_PLAN = _object(
    items=_whole(),
    together=_whole("items of one run"),
    per_invocation=_whole("items, at most"),
    invocations=_whole(),
    seconds=_number("of a full invocation"),
    gb_seconds=_number(),
    transitions=_whole("between states, of Step Functions"),
    concurrency=_whole("invocations at once"),
    minutes=_number("until all is done, if nothing is throttled"),
    reads_per_second=_number("objects of S3, while all are at work"),
    compute_dollars=_number(),
    invocation_dollars=_number(),
    transition_dollars=_number(),
    storage_dollars=_number("of requests to S3"),
    prices=_text("region and date"),
    dollars=_number("of all these"),
)

_STARTED = _object(
    run=_or_null(_text("where it is; null where nothing was started")),
    execution=_or_null(_text("of Step Functions, its ARN")),
    items=_whole("rows of the run, or of what is run once more"),
    reused=_whole("of them, that an earlier run answered"),
    plan=_or_null(_PLAN),
)

_STATUS = _object(
    state=_text("of the execution, in Step Functions' words"),
    attempt=_whole("counted from 0"),
    batches=_whole(),
    batches_done=_whole(),
    batches_failed=_whole("for good"),
    batches_running=_whole(),
    batches_pending=_whole("neither ended nor running"),
    items=_whole("of this attempt"),
    done=_whole("items, by whole batches"),
    failed=_whole("items, by whole batches"),
    per_second=_or_null(_number("items")),
    seconds_left=_or_null(_number()),
    redrivable=_flag("by `batch resume --redrive`"),
    error=_or_null(_text("of one batch that failed for good, or of the whole map")),
)

RESULTS: dict[str, Schema] = {
    "new": _object(
        files=_list(_text(), "that were written; none with --update"),
        diff=_text("unified, from the files as they are to what would be written"),
    ),
    "docs": _object(
        page=_or_null(_text("null for the list of all pages")),
        text=_text("of a page, as Markdown"),
        address=_or_null(_text("that --web opened")),
    ),
    "bundle": _object(
        bundles=_list(
            _object(
                folder=_text("has the bundle; its manifest.json says the rest"),
                target=_text(),
                sizes=_SIZES,
            ),
            "one for each model and target, and then that of all models where there are several",
        )
    ),
    "wasm": _object(
        modules=_list(
            _object(
                file=_text(),
                bytes=_whole(),
                isa=_text("WebAssembly's features that it needs"),
                lowered=_text("the attempt that agreed with TensorFlow"),
                verified=_by_name({"type": "object"}, "by engine, as in manifest.json; empty where there was none"),
            )
        )
    ),
    "bindings": _object(language=_text(), folder=_text("the package")),
    "export": _object(
        folder=_text(),
        files=_list(_object(path=_text("in the folder"), bytes=_whole())),
        tensors=_whole(),
        parameters=_whole(),
    ),
    "selftest": _object(
        programs=_list(
            _object(
                target=_text(),
                test=_text("the program's file"),
                benchmark=_text("the program's file"),
                ran=_flag("whether this machine could run them"),
                said=_text("what they printed"),
            )
        )
    ),
    "weights": _object(weights=_list(_object(target=_text(), file=_text(), sha256=_text()))),
    "doctor": _object(
        can_build=_flag("whether a bundle can be built here"),
        findings=_list(
            _object(
                name=_text(),
                there=_flag(),
                found=_text("what is there, or why not"),
                needed_for=_text("commands"),
                remedy=_text("the line that gets it; empty where it is there"),
            )
        ),
    ),
    "where": _object(route=_text("where a build would run", "docker", "host")),
    "check-spec": _object(specs=_list(_object(file=_text(), name=_text("of the model"), version=_text()))),
    "inspect": _object(
        feeds=_list(_PORT, "the model's inputs"),
        fetches=_list(_PORT, "the model's outputs"),
        signature=_or_null(_text("the one that is described")),
        signatures=_list(_text(), "of a SavedModel"),
        facts=_or_null(_FACTS),
        warnings=_list(_text(), "what a caller would not expect, such as a name that had to be changed"),
        origin=_text("of a Keras model: what wrote the file and what read it"),
        parameters=_or_null(_whole("null for a file without variables")),
        dynamic=_list(_text(), "outputs whose size the data decides, with the most that they can have"),
        strings=_list(_text(), "what the function does with strings: inputs, ops, and what the library takes"),
        nodes=_whole("of the graph"),
        unsupported=_list(
            _object(op=_text(), reason=_text(), hint=_or_null(_text()), nodes=_list(_text()), count=_whole()),
            "ops that XLA cannot compile",
        ),
        weights=_whole("bytes"),
        library=_whole("bytes, forecast"),
        dependencies=_whole("bytes of the dependencies layer and the function"),
        max_unzipped=_whole("bytes that are allowed"),
        max_zipped=_whole("bytes that are allowed, for each zip"),
        place=_text("where the weights are"),
        unzipped=_whole("bytes, forecast"),
        least=_whole("bytes that it has for certain"),
        zipped=_whole("bytes, forecast"),
        fits=_flag(),
        ok=_flag("whether a build would begin"),
    ),
    "explain": _object(
        model=_text(),
        path=_text("the lowering"),
        reason=_text("why it is not the optimised one"),
        isa=_text("instruction set of the kernels that ran"),
        threads=_whole(),
        rounds=_whole(),
        run_microseconds=_number("the median of whole runs"),
        weights=_whole("bytes"),
        arena=_whole("bytes"),
        layers=_list(_LAYER_WEIGHTS),
        together=_object(flop=_whole(), microseconds=_number(), layer_share=_number()),
        steps=_list(_STEP, "in the order they run"),
    ),
    "verify": _object(
        path=_text("the lowering that is compared"),
        verification={"type": "object", "description": "as in manifest.json"},
        layers=_or_null(
            _object(
                "null without --layers",
                case=_text("the golden input"),
                steps=_whole("of the program"),
                rows=_list(_DIFFERENCE, "of the steps whose value TensorFlow has, in the order they run"),
                first=_or_null(_DIFFERENCE),
            )
        ),
    ),
    "tune": _object(
        file=_or_null(_text("the tuning file; null where no layer has a choice, as none is written then")),
        cpu=_text(),
        rounds=_whole(),
        behind=_by_name(_number(), "instruction set to how much longer a run takes as the rule has it: 0.05 is 5 %"),
        layers=_by_name(
            _object(
                algorithm=_text("the one that was chosen"),
                microseconds=_by_name(_by_name(_number()), "instruction set to algorithm to time"),
                rule=_text("the algorithm without a measurement"),
            ),
            "by their shape",
        ),
    ),
    "accuracy": _object(
        model=_text(),
        items=_by_name(_whole(), "of each set of inputs"),
        types=_list(
            _object(
                type=_text("of the weights"),
                activations=_text(),
                library=_whole("bytes of libmodel.so"),
                weights=_whole("bytes"),
                compressed_share=_number("of the weights' bytes as float32"),
                accuracy=_by_name(_ACCURACY, "by set of inputs"),
            )
        ),
    ),
    "init": _object(file=_text("the model.toml that was written")),
    "diff": _object(
        before=_text("which bundle"),
        after=_text("which bundle"),
        same_library=_flag("libmodel.so is the same, byte for byte"),
        interface=_list(_CHANGE, "the source, inputs, outputs and tools"),
        sizes=_list(_FIGURE),
        steps=_list(_CHANGE, "fused steps"),
        same_steps=_whole("fused steps that both have alike"),
        errors=_list(_FIGURE, "against TensorFlow"),
        packages=_list(_CHANGE),
        speed=_or_null(
            _object(
                "null where it was not measured",
                cpu=_text(),
                threads=_whole(),
                before=_SPREAD,
                after=_SPREAD,
                ratio=_number("the median of the second's time by the first's"),
                low=_number("80 % of the rounds are above it and below `high`"),
                high=_number(),
            )
        ),
    ),
    "report": _object(file=_text("the page; its data is JSON in it")),
    "invoke": _object(
        answer={"description": "the function's, whatever it is"},
        init_ms=_number("the function's start"),
        first_ms=_number("the first request, without the start"),
        warm_ms=_number("the median of three more"),
        python=_text("that ran the function"),
        note=_or_null(_text("says so where that is not Lambda's")),
    ),
    "sample": _object(request={"description": "as a caller sends it"}),
    "serve": _object(url=_text("printed as soon as it answers")),
    "bench": _object(
        model=_text(),
        version=_text(),
        coldforge=_text(),
        target=_text(),
        cpu=_text(),
        threads=_whole(),
        library=_SPREAD,
        function=_or_null(_FUNCTION),
    ),
    "cost": _object(
        model=_text(),
        version=_text(),
        target=_text("that was measured"),
        cpu=_text(),
        function=_FUNCTION,
        million_starts=_number("US dollars of a million cold starts, with one whole processor"),
        prices=_object(
            "US dollars",
            region=_text(),
            date=_text(),
            source=_text(),
            million_requests=_number(),
            gb_second=_number(),
        ),
        sizes=_list(
            _object(
                memory=_whole("megabytes"),
                ms=_number("milliseconds of a warm request"),
                billed=_whole("milliseconds"),
                dollars=_number("of a million warm requests"),
            ),
            "by memory",
        ),
    ),
    "deploy": _object(
        "of the stack; what SAM prints goes to standard error",
        model=_text(),
        version=_text(),
        stack=_text("its name"),
        template=_text("the file that was built and checked"),
    ),
    "publish": _object(
        "one line for each layer",
        arn=_text(),
        version=_whole(),
        created=_flag("false where AWS had the same bytes already"),
        pruned=_list(_whole(), "versions that were deleted"),
    ),
    "stage": _object(name=_text(), version=_text()),
    "check": _object(template=_text("the file that was checked")),
    "batch start": _STARTED,
    "batch watch": _STATUS,
    "batch status": _STATUS,
    "batch stop": _STATUS,
    "batch resume": _STARTED,
    "batch collect": _object(
        file=_text("the table"),
        rows=_whole(),
        failed=_by_name(_whole(), "rows without an answer, by code"),
        columns=_list(_text(), "of the table"),
    ),
    "sign": _object(file=_text("the envelope")),
    "verify-bundle": _object(
        folder=_text(),
        name=_text("of the model"),
        version=_text("of the model"),
        files=_by_name(_text("SHA-256"), "those that the statement names"),
        inputs=_whole("that the statement records"),
        signed_by=_or_null(_text("the key whose signature was checked")),
        not_checked=_object(signatures=_list(_text("key")), files=_list(_text("made later"))),
    ),
    "reproduce": _object(
        files=_whole("that were compared"),
        differing=_by_name(_text("where, first"), "files; the command then ends with an error"),
        measured=_by_name(_text("where, first"), "files that differ in what was measured alone"),
        inputs=_list(_text(), "recorded inputs that are others now"),
        identical=_flag(),
    ),
}
"""By command."""


def document() -> Schema:
    """All of them in one schema: that of the command NAME is at ``#/$defs/NAME``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What coldforge's commands print with --json",
        "$defs": RESULTS,
    }
