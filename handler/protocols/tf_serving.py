"""TensorFlow Serving's REST API: status, metadata and predict.

https://www.tensorflow.org/tfx/serving/api_rest. The feed of images also takes image files as ``{"b64": …}``; the feed
of a text's ids also takes strings, and then the mask and the types are left out. Inputs of strings take JSON strings. A
model of tf.Examples also takes them as ``{"b64": …}``. Numbers may be NaN, Infinity and -Infinity, which strict JSON
does not have. All this is as in TensorFlow Serving. A model of a table also takes instances by the names of columns.
"""

from __future__ import annotations

from collections.abc import Callable

from ..answer import collect_tensors, compute_min_nested_length, find_labels, nest_values, require_possible
from ..budget import RequestLimits
from ..deadline import no_deadline
from ..description import Description, Output, Port
from ..errors import (
    HandlerError,
    MethodNotAllowedError,
    NotFoundError,
    WrongFieldError,
    WrongShapeError,
    WrongTypeError,
)
from ..http import HttpRequest, HttpResponse
from ..inputs import find_element_kind
from ..request import Request
from ..server import Invocation, Server
from ..tensors import ALIAS, choose_description, input_bytes, name_single, set_item_counts
from ..typed import Any
from . import find_version, split_model_path
from . import format_refusal as format_refusal

SIGNATURE = "serving_default"
EXAMPLE = '{"instances": […]} or {"inputs": …}'


def handle_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    """Answer any request under ``/v1``. Raises HandlerError."""
    before, _, verb = request.path.strip("/").partition(":")
    path = split_model_path(before)
    if path is None or path[2] not in ([], ["metadata"]) or (path[2] and verb):
        raise NotFoundError(request.path, server.models)
    if verb not in ("", "predict"):
        raise NotFoundError(f'{request.path[:80]} (use ":predict")', server.models)
    method = "POST" if verb else "GET"
    if request.method != method:
        raise MethodNotAllowedError(request.method, request.path, method)
    name, version, rest = path
    description = find_version(server, name, version)
    if verb:
        return HttpResponse.from_json(_answer_predict(request, description, server, call))
    if rest:
        return HttpResponse.from_json(describe_model(description))
    state = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    return HttpResponse.from_json({"model_version_status": [{"version": description.version, **state}]})


def describe_model(description: Description) -> dict[str, Any]:
    """Describe the model's signatures; a dimension of -1 takes any number of items, or one of several sizes."""

    def describe_port(port: Port, one: Description) -> dict[str, Any]:
        dims = [{"size": str(size), "name": ""} for size in one.find_open_shape(port)]
        dtype = "string" if port.name in _find_label_outputs(one) else port.dtype
        dtype = {"float32": "float", "float64": "double"}.get(dtype, dtype)
        return {"dtype": f"DT_{dtype.upper()}", "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": port.name}

    def describe_signature(one: Description) -> dict[str, Any]:
        return {
            "inputs": {port.name: describe_port(port, one) for port in one.caller_inputs},
            "outputs": {port.name: describe_port(port, one) for port in one.answers},
            "method_name": "tensorflow/serving/predict",
        }

    signatures = {one.signature or SIGNATURE: describe_signature(one) for one in (description, *description.others)}
    return {
        "model_spec": {"name": description.name, "signature_name": "", "version": description.version},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def _answer_predict(request: HttpRequest, description: Description, server: Server, call: Invocation) -> dict[str, Any]:
    event, limits = request.parse_object(EXAMPLE, server.limits), server.limits
    description = _select_signature(event.get("signature_name", ""), description)
    if ("instances" in event) == ("inputs" in event):
        raise WrongFieldError('the body must have one of "instances" and "inputs"')
    rows = "instances" in event

    def require_answer(count: int) -> None:
        least = sum(compute_min_nested_length(port.dtype, port.least) for port in description.answers)
        require_possible(least * count // description.batch, request.answer_limit, limits)

    if (examples := _find_examples(event, description)) is not None:
        from ..inputs.example import make_request

        inference = make_request(examples, description, limits, require_answer)
    elif rows and _are_table_rows(event["instances"], description):
        from ..inputs.table import read_rows

        instances = event["instances"]
        require_answer(len(instances))
        fields = read_rows(instances, description, limits, lambda number: f'"instances"[{number}]')
        inference = Request((), **fields, model=description.name, signature=description.signature)
    else:
        columns = _read_rows(event["instances"], description) if rows else _read_columns(event["inputs"], description)
        left = call.count_seconds_left
        try:
            inference = _parse_request(columns, description, limits, require_answer, left)
        except HandlerError as error:  # its message names the input alone
            if error.status not in (400, 422):
                raise
            raise type(error)(f'"{"instances" if rows else "inputs"}": {error.message}') from error.__cause__
    result = server.run_inference(inference, call)
    labelled = _find_label_outputs(result.description)
    named: dict[str, Any] = {}
    for tensor in collect_tensors(result.description, result.batches):
        values: list[Any] = tensor.to_numbers(strict=False)
        if tensor.name in labelled:  # as the model itself did
            values = find_labels(labelled[tensor.name], values)
        named[tensor.name] = nest_values(values, tensor.shape)
    if len(named) == 1:
        return {"predictions" if rows else "outputs": next(iter(named.values()))}
    if not rows:
        return {"outputs": named}
    count = sum(count for _, count in result.batches)
    return {"predictions": [{name: values[index] for name, values in named.items()} for index in range(count)]}


def _select_signature(name: object, description: Description) -> Description:
    """Return the signature called ``name``; the default one if that is empty. Raises HandlerError."""
    if not isinstance(name, str):
        raise WrongTypeError('"signature_name" must be a string')
    if not description.others:
        if name not in ("", SIGNATURE):
            raise WrongFieldError(f'there is no such signature; use "{SIGNATURE}"')
        return description
    return description.select_signature(name or choose_signature(description))


def choose_signature(description: Description) -> str:
    """Return the default signature: the protocol's own, or else the first."""
    return next((one.signature for one in description.others if one.signature == SIGNATURE), description.signature)


def _find_label_outputs(description: Description) -> dict[str, Output]:
    """Return the outputs whose answers are labels, by the fetch of their numbers."""
    return {output.fetch: output for output in description.outputs if output.kind == "label"}


def _find_examples(event: dict[str, Any], description: Description) -> list[Any] | None:
    """Return the serialized tf.Examples, in base64, of the instances or the inputs; None if there are none."""
    if description.examples is None or ("instances" in event and not description.batched):
        return None
    name = description.examples.name
    values: Any = event.get("instances", event.get("inputs"))
    if isinstance(values, dict) and set(values) == {name}:
        values = values[name]
    values = [values] if _is_binary(values) and "inputs" in event else values
    if not isinstance(values, list) or not values:
        return None
    values = [row[name] if isinstance(row, dict) and set(row) == {name} else row for row in values]
    return [row["b64"] for row in values] if all(map(_is_binary, values)) else None


def _are_table_rows(instances: object, description: Description) -> bool:
    """Return whether ``instances`` are rows by the names of columns, and not of inputs, each of which has a value."""
    table = description.table
    if table is None or not isinstance(instances, list) or not instances or not isinstance(instances[0], dict):
        return False
    if table.feed:
        return instances[0].keys() not in ({table.feed}, {ALIAS})
    names = frozenset(table.columns)
    return any(isinstance(row, dict) and (row.keys() != names or None in row.values()) for row in instances)


def _read_rows(instances: object, description: Description) -> dict[str, object]:
    """Convert the row format to columns. Raises HandlerError."""
    if not isinstance(instances, list) or not instances:
        raise WrongTypeError('"instances" must be a list of at least one')
    if not description.batched:
        raise WrongFieldError('some tensors of this model do not begin with the batch; send "inputs"')
    names = _list_needed_inputs(instances[0], description)
    if len(names) == 1:
        instances = [name_single(row, names) for row in instances]
        bare = [row[names[0]] if isinstance(row, dict) and set(row) == {*names} else row for row in instances]
        return {names[0]: bare}
    for index, row in enumerate(instances):
        if not isinstance(row, dict) or set(row) != {*names}:
            raise WrongFieldError(f'"instances"[{index}] must be an object with {", ".join(names)}')
    return {name: [row[name] for row in instances] for name in names}


def _list_needed_inputs(given: object, description: Description) -> list[str]:
    """Return the names of the inputs that must be ``given``, without those that an image or text replaces."""
    names = [feed.name for feed in description.caller_inputs]
    kind = find_element_kind(description)
    if kind is None:
        return names
    value = given.get(kind.element_input, given.get(ALIAS)) if isinstance(given, dict) else given
    implied = kind.replaces if kind.is_element(_take_first(value)) else ()
    return [name for name in names if name == kind.element_input or name not in implied]


def _take_first(value: object) -> object:
    """Return the first element of a list, or a single string itself."""
    if isinstance(value, list) and value:
        return value[0]
    return value if isinstance(value, str) else None


def _read_columns(inputs: object, description: Description) -> dict[str, object]:
    names = _list_needed_inputs(inputs, description)
    inputs = name_single(inputs, names)
    if isinstance(inputs, dict) and set(inputs) == {*names}:
        return {name: inputs[name] for name in names}
    if len(names) > 1 or isinstance(inputs, dict):
        raise WrongFieldError(f'"inputs" must be an object with {", ".join(names)}')
    return {names[0]: inputs}


def _parse_request(
    columns: dict[str, object],
    description: Description,
    limits: RequestLimits,
    require_answer: Callable[[int], None] = lambda count: None,
    left: Callable[[], float] = no_deadline,
) -> Request:
    inputs: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    fields: dict[str, Any] = {"images": ()}
    if description.strings:
        from ..inputs.strings import read_strings

        fields["strings"], counts = read_strings(columns, description, limits)
        columns = {port.name: columns[port.name] for port in description.tensor_inputs}
    kind = find_element_kind(description)
    if kind and kind.is_element(_take_first(columns[name := kind.element_input])):
        value = columns.pop(name)
        values = _unwrap_base64(value if isinstance(value, list) else [value], f'"{name}"')
        fields |= kind.read_elements(values, description, limits)
        counts[name] = len(values)
    else:
        description = choose_description(columns, description)
    ports = [port for port in description.feeds if port.name in columns]
    if description.batched:
        for port in ports:
            value = columns[port.name]
            if not isinstance(value, list) or not value:
                raise WrongShapeError(f'"{port.name}" must be a list of items')
            counts[port.name] = len(value)
    # The counts are checked before the numbers are read: a small request can ask for many items.
    ports = set_item_counts(ports, counts, description, limits)
    require_answer(max(counts.values(), default=description.batch))
    for port in ports:
        inputs[port.name] = input_bytes(columns[port.name], port, description, left)
    size, signature = description.size, description.signature
    return Request(inputs=inputs, model=description.name, size=size, signature=signature, **fields)


def _unwrap_base64(values: list[Any], where: str) -> list[Any]:
    """Return the strings of ``{"b64": …}``, or other values as they are. Raises WrongTypeError for a mixture."""
    if not any(map(_is_binary, values)):
        return values
    if not all(map(_is_binary, values)):
        raise WrongTypeError(f'{where} must be all {{"b64": …}}, or all numbers')
    return [value["b64"] for value in values]


def _is_binary(value: object) -> bool:
    return isinstance(value, dict) and set(value) == {"b64"}
