"""The OpenAPI 3.1 document of a bundle, and the same as a page, for the function to serve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from builder.package.bundle import OPENAPI
from builder.package.layer import write_readable
from handler.budget import LARGEST, RequestLimits
from handler.description import Description, Port, parse_description
from handler.inputs import InputKind, find_element_kind, load_kinds
from handler.inputs.text import TEXTS
from handler.options import list_formats
from handler.protocols import openai
from handler.protocols.open_inference import name_datatype
from handler.protocols.tf_serving import SIGNATURE, choose_signature
from handler.tensors import ALIAS
from handler.text import find_max_length

Schema = dict[str, Any]

_BOOLEAN: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
PLACE: Schema = INTEGER | {"minimum": 0}
_NULLABLE_NUMBER: Schema = {"type": ["number", "null"]}
_BOX: Schema = {"type": "array", "items": NUMBER | {"minimum": 0}, "minItems": 4, "maxItems": 4}

IMAGE_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp", "application/octet-stream")
_AUDIO_TYPES = ("audio/wav", "audio/flac", "audio/mpeg", "application/octet-stream")
EXAMPLE: Schema = {"type": "string", "contentEncoding": "base64"}
"""Schema of a serialized tf.Example."""
_FLOAT32_MAX = (2 - 2**-23) * 2.0**127


def _make_object(**properties: Schema) -> Schema:
    """Return an object that requires all of its properties, and may have more."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _make_closed_object(**properties: Schema) -> Schema:
    return _make_object(**properties) | {"additionalProperties": False}


def _make_open_list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _make_list(item: Schema, most: int) -> Schema:
    return {"type": "array", "items": item, "minItems": 1, "maxItems": most}


def _refer_to(name: str) -> Schema:
    """Return a schema that is one of SHARED."""
    return {"$ref": f"#/components/schemas/{name}"}


def _any_of(schemas: list[Schema]) -> Schema:
    return {"anyOf": schemas} if len(schemas) > 1 else schemas[0]


SHARED = {
    "Error": _make_object(error=_make_object(code=TEXT, message=TEXT)),
    "ErrorText": _make_object(error=TEXT),
    "ErrorOpenAI": _make_object(error=_make_object(message=TEXT, type=TEXT, code=TEXT)),
    "Object": _make_object(label=TEXT, score=NUMBER, box=_BOX),
    "Word": _make_object(label=TEXT, word=TEXT, start=PLACE, end=PLACE, score=_NULLABLE_NUMBER),
    "Token": _make_object(label=TEXT, score=_NULLABLE_NUMBER),
    "Class": _make_object(label=TEXT, probability=_NULLABLE_NUMBER),
}
"""Schemas that others refer to, by name."""

_ANSWERS: dict[str, Schema] = {
    "classification": _make_open_list(_refer_to("Class")),
    "regression": _make_open_list({"type": ["number", "boolean", "null"]}),
    "segmentation": _make_object(
        width=INTEGER,
        height=INTEGER,
        classes=_make_open_list(_make_object(**{"class": INTEGER}, label=TEXT, share=NUMBER)),
    ),
    "detection": _make_open_list(_refer_to("Object")),
    "tokens": _make_open_list({"anyOf": [_refer_to("Word"), _refer_to("Token")]}),
    "embedding": {"anyOf": [_make_open_list(_NULLABLE_NUMBER), {"type": "string", "contentEncoding": "base64"}]},
    "label": {"type": ["array", "string"]},
    "raw": {"type": ["array", "number", "boolean", "null"]},
}
"""Schemas of the answers for each kind of output."""

_OPTIONS = {
    "top_k": "How many classes or objects are listed.",
    "threshold": "The score that an object must have.",
    "dimensions": "How many numbers of an embedding are given, of its first ones.",
    "format": "How an embedding or a segmentation is written.",
    "prompt": "The name of the prompt that is put in front of the texts.",
}


def write_openapi(layer: Path, descriptions: Sequence[str]) -> None:
    """Write the document and the page into ``layer``. ``descriptions``: its models', as ``cf_describe`` has them.

    They name the limits of the largest function, as the memory of this one is not known yet.
    """
    models = [parse_description(text) for text in descriptions]
    write_document((layer / OPENAPI[0]).parent, make_document(models, LARGEST))


def write_document(folder: Path, described: Schema) -> None:
    """Write the document ``described``, and its page, into ``folder``."""
    for name, text in zip(OPENAPI, (json.dumps(described), _render_page(described)), strict=True):
        write_readable(folder / Path(name).name, text)


def make_document(models: list[Description], limits: RequestLimits) -> Schema:
    """Return the description of a server of ``models``."""
    server = _make_object(name=TEXT, version=TEXT, extensions=_make_open_list(TEXT))
    paths: Schema = {
        "/predict": {"post": _describe_predict(models, limits)},
        "/health": _make_get("health", "Whether the function answers", _make_object(status=TEXT), "Error"),
        "/v2": _make_get("v2_server", "The server", server),
        "/v2/health/live": _make_get("v2_live", "Whether it is live", _make_object(live=_BOOLEAN)),
        "/v2/health/ready": _make_get("v2_ready", "Whether it is ready", _make_object(ready=_BOOLEAN)),
    }
    for model in models:
        paths |= _open_inference(model, limits) | _tf_serving(model, limits)
    if embedders := [model for model in models if openai.is_embedding_model(model)]:
        paths |= {openai.PATH: {"post": _describe_openai(embedders, limits)}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": ", ".join(model.name for model in models),
            "version": models[0].version,
            "description": "Inference by " + ", ".join(f"{model.name} {model.version}" for model in models) + ".",
        },
        "servers": [{"url": "."}],
        "paths": paths,
        "components": {"schemas": SHARED},
    }


def _describe_predict(models: list[Description], limits: RequestLimits) -> Schema:
    signatures = [(entry, _name_signature(entry, model)) for model in models for entry in _list_signatures(model)]
    bodies = [
        body
        for entry, named in signatures
        for sized in _list_sizes(entry)
        for body in _predict_bodies(sized, named, limits)
    ]
    content = _as_json(_any_of(bodies))
    if any(model.text_alone for model in models):
        content["text/plain"] = {"schema": TEXTS.make_schema(limits)}
    alone = [model for model in models if len(model.feeds) == 1]
    if any(model.table for model in models):
        content["text/csv"] = {"schema": TEXT}
    images, sound = any(model.image for model in alone), any(model.audio for model in alone)
    if images or sound:
        content |= {media: {"schema": {}} for media in (*IMAGE_TYPES * images, *_AUDIO_TYPES * sound)}
        file, most = {"type": "string", "format": "binary"}, limits.images if images else 1
        form = {"type": "object", "additionalProperties": file, "minProperties": 1, "maxProperties": most}
        content["multipart/form-data"] = {"schema": form}
    entries = [entry for entry, _ in signatures]
    parameters: list[Schema] = [{"name": "model", "in": "query", "schema": {"enum": [model.name for model in models]}}]
    for name, schema in _describe_options(entries).items():
        parameters.append({"name": name, "in": "query", "description": _OPTIONS[name], "schema": schema})
    answer = _make_object(
        model=_make_object(name=TEXT, version=TEXT),
        predictions=_make_open_list({"anyOf": [kind for entry in entries for kind in _describe_items(entry)]}),
        cold_start=_BOOLEAN,
        timings_ms=_make_object(decode=NUMBER, infer=NUMBER, total=NUMBER),
    )
    return _make_operation("predict", "Pictures, sound or tensors in, labels or numbers out", answer, "Error") | {
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
    }


def _describe_options(models: list[Description]) -> dict[str, Schema]:
    """Return the schemas of the options that the answers of all ``models`` take: see ``options``."""
    options: dict[str, Schema] = {"top_k": {"type": "integer", "minimum": 1, "maximum": 999_999_999}}
    embeddings = [[output.fetch for output in model.outputs if output.kind == "embedding"] for model in models]
    sizes = [
        [port.shape[-1] for port in model.fetches if port.name in own]
        for model, own in zip(models, embeddings, strict=True)
    ]
    if all(sizes):
        options["dimensions"] = {"type": "integer", "minimum": 1, "maximum": min(map(min, sizes))}
    formats = [
        [name for output in model.outputs if output.format for name in list_formats(output.kind)] for model in models
    ]
    if common := [name for name in formats[0] if all(name in names for names in formats)]:
        options["format"] = {"enum": list(dict.fromkeys(common))}
    if all(any(output.kind == "detection" for output in model.outputs) for model in models):
        options["threshold"] = NUMBER
    prompts = [model.text.prompts if model.text else {} for model in models]
    if common := [name for name in prompts[0] if all(name in names for names in prompts)]:
        options["prompt"] = {"enum": common}
    return options


def _describe_items(model: Description) -> list[Schema]:
    """Return the schemas of the answers to an item, and to a window of a recording."""
    windows = [_make_object(start=NUMBER, end=NUMBER, **_describe_answers(model))] if model.audio else []
    return [_make_object(**_describe_answers(model)), *windows]


def _list_signatures(model: Description) -> list[Description]:
    return [model, *model.others]


def _list_sizes(model: Description) -> list[Description]:
    """Return the model in each size in which it takes other tensors; the length of strings makes no size."""
    models_by_inputs: dict[tuple[Port, ...], Description] = {}
    for sized in model.size_variants:
        models_by_inputs.setdefault(sized.tensor_inputs, sized)
    return list(models_by_inputs.values())


def _name_signature(model: Description, first: Description) -> Schema:
    """Return the properties that name a signature other than the first."""
    return {} if model.signature == first.signature else {"signature": {"const": model.signature}}


def _count_fixed_sizes(port: Port, model: Description) -> int:
    """Return how many dimensions of a feed are fixed; shorter ones are allowed in the others, and filled up."""
    return int(model.batched) if port.name in model.pad else len(port.shape)


def _predict_bodies(model: Description, named: Schema, limits: RequestLimits) -> list[Schema]:
    """Return each kind of JSON that ``/predict`` takes for a signature in one of its sizes; images are of the first."""
    feeds = {
        port.name: {"anyOf": [_describe_nested_lists(port, _count_fixed_sizes(port, model)), _describe_flat_list(port)]}
        for port in model.caller_inputs
    }
    tensors = feeds
    if model.batched:
        columns = {port: _describe_column(_describe_item(port, model), limits.items) for port in model.caller_inputs}
        tensors = {port.name: {"anyOf": [column, _describe_flat_list(port)]} for port, column in columns.items()}
    bodies = [_make_closed_object(inputs=_describe_inputs(tensors), **named)]
    optional = _describe_options([model])
    for kind in [] if model.size else load_kinds(model):
        others = {name: schema for name, schema in feeds.items() if name not in kind.replaces}
        rest = {"inputs": _describe_inputs(others)} if others else {}
        in_runs = not others and (model.batched or model.image)  # The function takes as many as it has memory for.
        most = kind.most_elements(limits) if in_runs else min(kind.most_elements(limits), model.batch)
        one_schema = _describe_row(model) if "row" in kind.keys else kind.make_schema(limits)
        several = _make_list(one_schema, most)
        for key in kind.keys:
            for companion in kind.companions.get(key, ("",)):
                fields = {name: several if name.endswith("s") else one_schema for name in (key, companion) if name}
                bodies.append(_make_closed_object(**fields, **rest, **named))
    return [body | {"properties": body["properties"] | optional} for body in bodies]


def _describe_row(model: Description) -> Schema:
    """Describe a row of a table: an object by the names of columns, or a list in their order."""
    table = model.table
    assert table is not None
    ports = {port.name: port for port in model.caller_inputs}
    columns: dict[str, Schema] = {}
    needed = [name for name in table.columns if name in table.required or not ports[table.feed or name].nan]
    for name in table.columns:
        port = ports[table.feed or name]
        kinds = [{"type": "boolean"}, _describe_number(port.dtype)]
        if names := table.list_categories(name):
            others: list[Schema] = [{"type": ["string", "number", "boolean"]}]
            kinds = [{"enum": names}, *([] if table.refuses_unknown(name, port.nan) else others)]
        columns[name] = {"anyOf": [*kinds, *([] if name in needed else [{"type": "null"}])]}
    count = {"minItems": len(columns), "maxItems": len(columns)}
    by_name = _make_closed_object(**columns) | {"required": needed}
    return {"anyOf": [by_name, {"type": "array", "prefixItems": [*columns.values()], **count}]}


def _describe_answers(model: Description) -> dict[str, Schema]:
    ports = {port.name: port for port in model.fetches}
    answers = {output.name: _ANSWERS[output.kind] for output in model.outputs}
    for output in model.outputs:
        port = ports[output.fetch]
        if output.kind == "classification" and port.dynamic:  # The answer has classes for each row.
            for _ in port.shape[:-1]:
                answers[output.name] = _make_open_list(answers[output.name])
    return answers


def _open_inference(model: Description, limits: RequestLimits) -> Schema:
    name, base = model.name, f"/v2/models/{model.name}"
    port = {"name": TEXT, "datatype": TEXT, "shape": _make_open_list(INTEGER)}
    ports = _make_open_list(_make_object(**port))
    about = _make_object(name=TEXT, versions=_make_open_list(TEXT), platform=TEXT, inputs=ports, outputs=ports)
    output = _make_object(**port, data={"type": "array"})
    answer = _make_object(model_name=TEXT, model_version=TEXT, outputs=_make_open_list(output))
    bodies = [_v2_body(signature, _name_signature(signature, model), limits) for signature in _list_signatures(model)]
    infer = _make_operation(f"v2_infer_{name}", f"Tensors through {name}", answer, "ErrorText", _any_of(bodies))
    return {
        base: _make_get(f"v2_{name}", f"What {name} takes and gives", about),
        f"{base}/ready": _make_get(f"v2_ready_{name}", "Whether it is ready", _make_object(name=TEXT, ready=_BOOLEAN)),
        f"{base}/infer": {"post": infer},
    }


def _v2_body(model: Description, named: Schema, limits: RequestLimits) -> Schema:
    names = [fetch.name for fetch in model.answers]
    output = {"type": "object", "properties": {"name": {"enum": names}}, "required": ["name"]}
    inputs = [
        kind for sized in _list_sizes(model) for feed in sized.caller_inputs for kind in _v2_inputs(feed, sized, limits)
    ]
    kind = find_element_kind(model)
    count = len(model.caller_inputs)
    least = count - len(kind.replaces) + 1 if kind else count
    if model.examples:
        inputs.append(_v2_elements({"const": model.examples.name}, EXAMPLE, InputKind(), model, limits))
        least = 1
    return {
        "type": "object",
        "properties": {
            "id": TEXT,
            "inputs": {"type": "array", "items": {"anyOf": inputs}, "minItems": least, "maxItems": count},
            "outputs": _make_open_list(output),
            **({"parameters": _make_object(**named)} if named else {}),
        },
        "required": ["inputs", "parameters"] if named else ["inputs"],
    }


def _v2_inputs(feed: Port, model: Description, limits: RequestLimits) -> list[Schema]:
    fixed = _count_fixed_sizes(feed, model)
    sizes: list[Schema] = [{"const": size} for size in feed.shape[:fixed]]
    sizes += [_limit_size(size) for size in feed.shape[fixed:]]
    if model.batched:
        sizes[0] = _limit_size(limits.items)
    count = {"minItems": len(sizes), "maxItems": len(sizes)}
    shape = {"type": "array", **({"prefixItems": sizes} if sizes else {}), **count}
    names = [feed.name, ALIAS] if len(model.caller_inputs) == 1 else [feed.name]
    known: Schema = {"name": {"enum": names}, "datatype": {"const": name_datatype(feed.dtype)}}
    schemas = [_make_object(**known, shape=shape, data={"type": ["array", "number", "boolean"]})]
    kind = find_element_kind(model)
    if kind and feed.name == kind.element_input and not model.size:
        schemas.insert(0, _v2_elements({"enum": names}, {}, kind, model, limits))
    return schemas


def _v2_elements(name: Schema, element: Schema, kind: InputKind, model: Description, limits: RequestLimits) -> Schema:
    """Describe BYTES: a list of elements of ``kind``."""
    most = kind.most_elements(limits) if model.batched else min(kind.most_elements(limits), model.batch)
    shape = {"type": "array", "prefixItems": [_limit_size(most), {"const": 1}], "minItems": 1, "maxItems": 2}
    return _make_object(name=name, datatype={"const": "BYTES"}, shape=shape, data=_make_list(element, most))


def _limit_size(most: int) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most}


def _describe_openai(models: list[Description], limits: RequestLimits) -> Schema:
    text: Schema = {"type": "string", "minLength": 1}
    inputs = [text, _make_list(text, limits.items)]
    for model in models:
        if model.text:
            ids = next(port for port in model.feeds if port.name == model.text.ids)
            tokens = _make_list(_describe_number(ids.dtype) | {"minimum": 0}, find_max_length(model))
            inputs += [tokens, _make_list(tokens, limits.items if model.batched else model.batch)]
    body = _make_closed_object(input={"anyOf": inputs})
    body["properties"] |= {
        "model": {"enum": [model.name for model in models]},
        "encoding_format": {"enum": list(openai.FORMATS)},
        "user": TEXT,
        **{name: schema for name, schema in _describe_options(models).items() if name in ("dimensions", "prompt")},
    }
    vector = {"anyOf": [_make_open_list(_NULLABLE_NUMBER), TEXT]}
    answer = _make_object(
        object={"const": "list"},
        data=_make_open_list(_make_object(object={"const": "embedding"}, index=INTEGER, embedding=vector)),
        model=TEXT,
        usage=_make_object(prompt_tokens=INTEGER, total_tokens=INTEGER),
    )
    summary = "Embeddings of texts, as OpenAI has them"
    return _make_operation("openai_embeddings", summary, answer, "ErrorOpenAI", body)


def _tf_serving(model: Description, limits: RequestLimits) -> Schema:
    name, base = model.name, f"/v1/models/{model.name}"
    states = _make_open_list(
        _make_object(version=TEXT, state=TEXT, status=_make_object(error_code=TEXT, error_message=TEXT))
    )
    about = _make_object(model_spec=_make_object(name=TEXT, version=TEXT), metadata={"type": "object"})
    bodies = [
        body
        for signature in _list_signatures(model)
        for sized in _list_sizes(signature)
        for body in _v1_bodies(sized, model, limits)
    ]
    answer = {"anyOf": [_make_object(predictions={"type": "array"}), _make_object(outputs={})]}
    summary = f"Rows or columns through {name}"
    run = _make_operation(f"v1_predict_{name}", summary, answer, "ErrorText", {"anyOf": bodies})
    return {
        base: _make_get(f"v1_{name}", "The model's status", _make_object(model_version_status=states)),
        f"{base}/metadata": _make_get(f"v1_metadata_{name}", "The model's signature", about),
        f"{base}:predict": {"post": run},
    }


def _v1_bodies(model: Description, first: Description, limits: RequestLimits) -> list[Schema]:
    """Return the bodies for a signature in one of its sizes; images are of the first size."""
    signature: Schema = {"signature_name": {"enum": ["", model.signature or SIGNATURE]}}
    chosen: Schema = {}
    if model.signature != choose_signature(first):
        signature, chosen = {}, {"signature_name": {"const": model.signature}}
    bodies: list[Schema] = []
    if model.examples:
        examples = _make_list(_make_closed_object(b64=EXAMPLE), limits.items if model.batched else model.batch)
        bodies = [_make_exclusive_object(signature, **chosen, instances=examples)] if model.batched else []
        column = _make_closed_object(**{model.examples.name: examples})
        bodies.append(_make_exclusive_object(signature, **chosen, inputs=column))
    if model.batched:
        if model.table and model.table.feed:
            by_name, _ = _describe_row(model)["anyOf"]
            rows = _make_list(by_name, limits.items)
            bodies.append(_make_exclusive_object(signature, **chosen, instances=rows))
        # A request has images or numbers, each with its own limit: so there are lists for each kind.
        for schemas, most in _list_row_schemas(model, limits):
            item = _describe_inputs(schemas)
            if len(schemas) == 1:
                item = {"anyOf": [*schemas.values(), item]}
            bodies.append(_make_exclusive_object(signature, **chosen, instances=_make_list(item, most)))
            columns = {name: _describe_column(schema, most) for name, schema in schemas.items()}
            bodies += _list_column_bodies(signature, chosen, columns)
        return bodies
    feeds = model.caller_inputs
    columns = {feed.name: _describe_nested_lists(feed, _count_fixed_sizes(feed, model)) for feed in feeds}
    return bodies + _list_column_bodies(signature, chosen, columns)


def _list_column_bodies(signature: Schema, chosen: Schema, columns: Schema) -> list[Schema]:
    """Return the column format: by name, and bare where there is one column."""
    bodies = [_make_exclusive_object(signature, **chosen, inputs=_describe_inputs(columns))]
    if len(columns) == 1:
        bodies += [_make_exclusive_object(signature, **chosen, inputs=column) for column in columns.values()]
    return bodies


def _list_row_schemas(model: Description, limits: RequestLimits) -> list[tuple[Schema, int]]:
    """Return one item of each feed, by name, and their limit: with an image as a file, and as numbers."""
    numbers = {feed.name: _describe_item(feed, model) for feed in model.caller_inputs}
    schemas = [(numbers, limits.items)]
    kind = find_element_kind(model)
    if kind and not model.size:
        item = kind.make_schema(limits)
        others = {feed: schema for feed, schema in numbers.items() if feed not in kind.replaces}
        element = _make_closed_object(b64=item) if "contentEncoding" in item else item
        schemas.insert(0, (others | {kind.element_input: element}, kind.most_elements(limits)))
    return schemas


def _describe_item(feed: Port, model: Description) -> Schema:
    """Describe one item of a feed that begins with the batch."""
    return _describe_nested_lists(Port(feed.name, feed.dtype, feed.shape[1:], 0), _count_fixed_sizes(feed, model) - 1)


def _describe_column(item: Schema, most: int) -> Schema:
    """Describe a list of items; a single string may also stand alone."""
    many = _make_list(item, most)
    return {"anyOf": [many, item]} if item.get("type") == "string" else many


def _make_exclusive_object(optional: dict[str, Schema], **required: Schema) -> Schema:
    schema = _make_object(**required)
    schema["properties"] |= optional
    other = "inputs" if "instances" in required else "instances"
    return schema | {"not": {"required": [other]}}


def _describe_number(dtype: str) -> Schema:
    if dtype == "string":
        return TEXT
    if dtype == "bool":
        return {"enum": [False, True, 0, 1]}
    if dtype.startswith("float"):
        most = {"minimum": -_FLOAT32_MAX, "maximum": _FLOAT32_MAX} if dtype == "float32" else {}
        return {"type": "number", **most}
    bits, signed = int(dtype.lstrip("uint")), not dtype.startswith("u")
    low = -(2 ** (bits - 1)) if signed else 0
    return {"type": "integer", "minimum": low, "maximum": low + 2**bits - 1}


def _describe_nested_lists(port: Port, fixed: int) -> Schema:
    """Describe lists within lists; the dimensions after the ``fixed`` ones may be shorter."""
    schema = _describe_number(port.dtype)
    for at, size in reversed([*enumerate(port.shape)]):
        schema = {"type": "array", "items": schema, "minItems": size if at < fixed else 1, "maxItems": size}
    return schema


def _describe_flat_list(port: Port) -> Schema:
    count = port.elements
    return {"type": "array", "items": _describe_number(port.dtype), "minItems": count, "maxItems": count}


def _make_get(name: str, summary: str, answer: Schema, error: str = "ErrorText") -> Schema:
    return {"get": _make_operation(name, summary, answer, error)}


def _make_operation(name: str, summary: str, answer: Schema, error: str, body: Schema | None = None) -> Schema:
    operation = {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": "The answer", "content": _as_json(answer)},
            "default": {"description": "An error", "content": _as_json(_refer_to(error))},
        },
    }
    return operation | ({"requestBody": {"required": True, "content": _as_json(body)}} if body else {})


def _as_json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _describe_inputs(inputs: dict[str, Schema]) -> Schema:
    """Describe an object of ``inputs`` by name; a single one may have another name."""
    schemas = [_make_closed_object(**inputs)]
    if len(inputs) == 1 and ALIAS not in inputs:
        schemas += [_make_closed_object(**{ALIAS: schema}) for schema in inputs.values()]
    return _any_of(schemas)


def _render_page(document: dict[str, Any]) -> str:
    """Return the page of an OpenAPI ``document``: each path with its requests and answers as JSON schemas."""
    parts = [f"<p>{escape(document['info']['description'])} For programs: <a href=openapi.json>openapi.json</a></p>"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}</p>")
            parts += [
                _format_details(key, operation[key])
                for key in ("parameters", "requestBody", "responses")
                if key in operation
            ]
    parts.append(_format_details("schemas", document["components"]["schemas"]))
    title = escape(document["info"]["title"])
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><main><h1>{title}</h1>'
    return f"{head}{''.join(parts)}</main></html>\n"


def _format_details(name: str, value: object) -> str:
    return f"<details><summary>{name}</summary><pre>{escape(json.dumps(value, indent=1))}</pre></details>"
