"""The Open Inference Protocol, version 2, over HTTP, with the extensions for binary tensors and classification.

https://github.com/kserve/open-inference-protocol and Triton's ``extension_binary_data``, ``extension_classification``.

The feed of images also takes BYTES of shape [n]: each element is an image file, in JSON as base64. So does the feed of
a text's ids, each element a text; then the mask and the types are left out. Inputs of strings take BYTES of their own
shape. A model of tf.Examples also takes them as BYTES under their own name, in JSON as base64.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..answer import OutputTensor, collect_tensors, compute_min_length, require_possible
from ..budget import RequestLimits
from ..deadline import no_deadline
from ..description import Description, Port, StringInput
from ..errors import (
    MethodNotAllowedError,
    NotFoundError,
    NotTextError,
    Refusal,
    TooManyImagesError,
    WrongFieldError,
    WrongShapeError,
    WrongTypeError,
)
from ..http import HttpRequest, HttpResponse
from ..inputs import find_element_kind
from ..request import Request
from ..server import Invocation, Server
from ..tensors import name_single, read_tensor, require_finite, require_items, require_tensor_memory, reshape_port
from ..typed import Any
from . import find_version, split_model_path

EXTENSIONS = ["binary_tensor_data", "classification"]
SERVER_PATHS: tuple[list[str], ...] = ([], ["health", "live"], ["health", "ready"])
_SHORTEST_CLASS = len("0.000000:0")
LENGTH = "inference-header-content-length"
EXAMPLE = '{"inputs": [{"name": …, "shape": […], "datatype": …, "data": […]}]}'


def name_datatype(dtype: str) -> str:
    """Return the protocol's name of a dtype: BOOL, UINT8 … INT64, FP32, FP64, BYTES."""
    return {"float32": "FP32", "float64": "FP64", "string": "BYTES"}.get(dtype, dtype.upper())


def handle_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    """Answer any request under ``/v2``. Raises HandlerError."""
    segments = request.path.strip("/").split("/")[1:]
    path = split_model_path(request.path)
    if (path[2] not in ([], ["ready"], ["infer"])) if path else (segments not in SERVER_PATHS):
        raise NotFoundError(request.path, server.models)
    method = "POST" if path and path[2] == ["infer"] else "GET"
    if request.method != method:
        raise MethodNotAllowedError(request.method, request.path, method)
    if path is None:
        return HttpResponse.from_json({segments[1]: True} if segments else _server_metadata(server))
    name, version, rest = path
    description = find_version(server, name, version)
    if method == "POST":
        return _answer_inference(request, description, server, call)
    ready = {"name": description.name, "ready": True}
    return HttpResponse.from_json(ready if rest else describe_model(description))


def format_refusal(refusal: Refusal) -> HttpResponse:
    return HttpResponse.from_json({"error": refusal.message}, refusal.status)


def _server_metadata(server: Server) -> dict[str, Any]:
    return {"name": "coldforge", "version": server.find_description(None).builder, "extensions": EXTENSIONS}


def describe_model(description: Description) -> dict[str, Any]:
    """Return the model's metadata. A dimension of -1 takes any number of items, or one of several sizes."""

    def describe(port: Port) -> dict[str, Any]:
        return {"name": port.name, "datatype": name_datatype(port.dtype), "shape": description.find_open_shape(port)}

    return {
        "name": description.name,
        "versions": [description.version],
        "platform": "coldforge_libmodel",
        "inputs": [describe(feed) for feed in description.caller_inputs],
        "outputs": [describe(fetch) for fetch in description.answers],
    }


def _answer_inference(request: HttpRequest, description: Description, server: Server, call: Invocation) -> HttpResponse:
    event, blob = _split_body(request, server.limits)
    signature = _read_parameters(event).get("signature", "")
    if not isinstance(signature, str):
        raise WrongTypeError('"parameters"."signature" must be a string')
    description = description.select_signature(signature)
    wanted = _choose_outputs(event, description)

    def require_answer(count: int, sized: Description) -> None:
        require_possible(_compute_min_length(wanted, count, sized), request.answer_limit, server.limits)

    parsed = _parse_request(event, blob, description, server.limits, require_answer, call.count_seconds_left)
    result = server.run_inference(parsed, call)
    tensors = {tensor.name: tensor for tensor in collect_tensors(result.description, result.batches)}
    answers, blobs = [], []
    for name, parameters in wanted:
        answer, data = _format_output(tensors[name], parameters, description)
        answers.append(answer)
        blobs.append(data)
    body: dict[str, Any] = {"model_name": description.name, "model_version": description.version, "outputs": answers}
    if "id" in event:
        body["id"] = event["id"]
    response = HttpResponse.from_json(body)
    if not any("binary_data_size" in answer.get("parameters", {}) for answer in answers):
        return response
    headers = {"content-type": "application/octet-stream", LENGTH: str(len(response.body))}
    return HttpResponse(200, headers, response.body + b"".join(blobs))


def _split_body(request: HttpRequest, limits: RequestLimits) -> tuple[dict[str, Any], memoryview]:
    """Return the JSON object of the body, and the binary tensors after it."""
    body, length = request.body, request.headers.get(LENGTH)
    end = len(body)
    if length is not None:
        if not (length.isascii() and length.isdigit() and len(length) < 12 and int(length) <= len(body)):
            raise WrongFieldError(f"{LENGTH} must be the length of the JSON in the body, which has {len(body)} bytes")
        end = int(length)
    event = request._replace(body=body[:end]).parse_json(EXAMPLE, limits)
    if not isinstance(event, dict):
        raise WrongTypeError(f"the body must be an object like {EXAMPLE}")
    if not isinstance(event.get("id", ""), str):
        raise WrongTypeError('"id" must be a string')
    return event, memoryview(body)[end:]


def _index_objects(event: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """Return the objects of the list ``key`` by their names."""
    values = event.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise WrongTypeError(f'"{key}" must be a list of objects')
    named = {value["name"]: value for value in values if isinstance(value.get("name"), str)}
    if len(named) != len(values):
        raise WrongFieldError(f'every object in "{key}" must have a name of its own')
    return named


def _read_parameters(value: dict[str, Any]) -> dict[str, Any]:
    parameters = value.get("parameters", {})
    if not isinstance(parameters, dict):
        raise WrongTypeError('"parameters" must be an object')
    return parameters


def _parse_request(
    event: dict[str, Any],
    blob: memoryview,
    description: Description,
    limits: RequestLimits,
    require_answer: Callable[[int, Description], None],
    left: Callable[[], float] = no_deadline,
) -> Request:
    tensors = name_single(_index_objects(event, "inputs"), [feed.name for feed in description.caller_inputs])
    if (examples := description.examples) and [*tensors] == [examples.name]:
        return _parse_examples(tensors[examples.name], blob, description, limits, require_answer)
    kind = find_element_kind(description)
    if kind and tensors.get(kind.element_input, {}).get("datatype") != "BYTES":
        kind = None
    listed, implied = (kind.element_input, kind.replaces) if kind else ("", ())
    names = [feed.name for feed in description.caller_inputs if feed.name == listed or feed.name not in implied]
    if set(tensors) != set(names):
        need = ", ".join(f'"{feed.name}" ({name_datatype(feed.dtype)})' for feed in description.caller_inputs)
        raise WrongFieldError(f'"inputs" must be {need}; some are missing or have other names')
    if not (description.one_size or listed):
        description = _select_size(tensors, description)
    ports = {feed.name: feed for feed in description.feeds}
    shapes = {name: _read_shape(name, value) for name, value in tensors.items()}
    if kind:
        _require_elements(listed, shapes[listed], kind.most_elements(limits))
    # The counts are checked before the data is read: a small request can ask for many items.
    counts = {name: shape[0] for name, shape in shapes.items() if shape and (description.batched or name == listed)}
    require_items(counts, description, limits)
    count = max(counts.values(), default=description.batch)
    require_tensor_memory([name for name in tensors if name != listed], count, description, limits)
    require_answer(count, description)
    fields: dict[str, Any] = {"pictures": ()}
    inputs: dict[str, bytes] = {}
    columns: dict[str, object] = {}
    words = {port.name: port for port in description.strings}
    for name, value in tensors.items():  # in the order of the binary data
        data, blob = _take_binary(name, value, blob)
        if name in words:
            columns[name] = _read_strings(name, value, data, shapes[name], words[name], limits)
        elif kind and name == listed:
            elements = _read_elements(name, value, data, shapes[name])
            fields |= kind.read_elements(elements, description, limits)
        else:
            inputs[name] = _read_padded_tensor(value, data, shapes[name], ports[name], description, left)
    if len(blob):
        raise WrongFieldError(f"the body has {len(blob)} bytes more than binary_data_size says")
    if words:
        from ..inputs.strings import read_strings

        fields["strings"], _ = read_strings(columns, description, limits)
    size, signature = description.size, description.signature
    return Request(inputs=inputs, model=description.name, size=size, signature=signature, **fields)


def _parse_examples(
    value: dict[str, Any],
    blob: memoryview,
    description: Description,
    limits: RequestLimits,
    require_answer: Callable[[int, Description], None],
) -> Request:
    from ..inputs.example import make_request

    name = value["name"]
    if value.get("datatype") != "BYTES":
        raise WrongTypeError(f'"{name}" must have the datatype BYTES')
    shape = _read_shape(name, value)
    _require_elements(name, shape, limits.items)
    data, blob = _take_binary(name, value, blob)
    if len(blob):
        raise WrongFieldError(f"the body has {len(blob)} bytes more than binary_data_size says")
    examples = _read_elements(name, value, data, shape)
    return make_request(examples, description, limits, lambda count: require_answer(count, description))


def _select_size(given: dict[str, dict[str, Any]], description: Description) -> Description:
    """Return ``description`` in the size of the inputs; images are resized to the first size."""
    from ..sizes import choose_size

    tensors = {port.name for port in description.tensor_inputs}  # strings have the same shape in every size
    return choose_size({n: _read_shape(n, value) for n, value in given.items() if n in tensors}, description)


def _read_padded_tensor(
    value: dict[str, Any],
    data: memoryview | None,
    shape: tuple[int, ...],
    port: Port,
    description: Description,
    left: Callable[[], float],
) -> bytes:
    """Read the tensor of the feed ``port``; if it is smaller, and the model has a filler, it is filled up."""
    if port.name not in description.pad:
        return _read_tensor(value, data, reshape_port(port, shape, description))
    from ..sizes import match_port, pad_tensor

    if description.batched:
        port = reshape_port(port, (*shape[:1], *port.shape[1:]), description)
    sent = match_port(shape, port, description)
    return pad_tensor(_read_tensor(value, data, reshape_port(sent, shape, description)), sent, port, description, left)


def _take_binary(name: str, value: dict[str, Any], blob: memoryview) -> tuple[memoryview | None, memoryview]:
    """Return this input's part of the binary data, or None, and the rest of the data."""
    size = _read_parameters(value).get("binary_data_size")
    if size is None:
        return None, blob
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(blob):
        raise WrongFieldError(f'"{name}" must have a binary_data_size of at most the {len(blob)} bytes that are left')
    if "data" in value:
        raise WrongFieldError(f'"{name}" has both "data" and binary_data_size')
    return blob[:size], blob[size:]


def _read_shape(name: str, value: dict[str, Any]) -> tuple[int, ...]:
    shape = value.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise WrongTypeError(f'"{name}" must have a shape: a list of whole numbers')
    return tuple(shape)


def _read_tensor(value: dict[str, Any], data: memoryview | None, port: Port) -> bytes:
    if value.get("datatype") != name_datatype(port.dtype):
        raise WrongTypeError(f'"{port.name}" must have the datatype {name_datatype(port.dtype)}')
    if data is None:
        if "data" not in value:
            raise WrongFieldError(f'"{port.name}" has no data')
        flat = value["data"]
        # In JSON, a scalar is sent as [x].
        return read_tensor(flat[0] if port.shape == () and isinstance(flat, list) and len(flat) == 1 else flat, port)
    if len(data) != port.size:
        raise WrongShapeError(f'"{port.name}" has {len(data)} bytes; its shape and datatype make {port.size}')
    raw = bytes(data)
    # Compiled code may treat any other byte as both true and false.
    if port.dtype == "bool" and raw.translate(None, b"\0\1"):
        raise WrongTypeError(f'"{port.name}" must hold bytes of 0 and 1 only')
    return require_finite(raw, port, f'"{port.name}"')


def _require_elements(name: str, shape: tuple[int, ...], most: int) -> None:
    """Require the shape [n] or [n, 1] with at most ``most`` items. Raises WrongShapeError, TooManyImagesError."""
    if not shape or not shape[0] or shape[1:] not in ((), (1,)):
        raise WrongShapeError(f'"{name}" must have the shape [n] where it holds BYTES, one picture or text each')
    if shape[0] > most:
        raise TooManyImagesError(f'"{name}" has {shape[0]} elements; at most {most} are allowed at a time')


def _read_strings(
    name: str,
    value: dict[str, Any],
    data: memoryview | None,
    shape: tuple[int, ...],
    one: StringInput,
    limits: RequestLimits,
) -> list[Any]:
    """Read an input of strings: BYTES, which are strings in JSON, or UTF-8 in binary data. Raises HandlerError."""
    if value.get("datatype") != "BYTES":
        raise WrongTypeError(f'"{name}" must have the datatype BYTES')
    if not shape or (shape[1:] != one.shape[1:] and (one.each != 1 or shape[1:] not in ((), (1,)))):
        raise WrongShapeError(f'"{name}" must have the shape {["n", *one.shape[1:]]}')
    if shape[0] > limits.items:
        raise TooManyImagesError(f'"{name}" has {shape[0]} items; at most {limits.items} are allowed at a time')
    if data is None:
        flat = value.get("data")
        nested = isinstance(flat, list) and bool(flat) and isinstance(flat[0], list)
        if nested or not isinstance(flat, list):
            return flat  # type: ignore[return-value]  # ``read_strings`` checks it
        items: list[Any] = flat
    else:
        items = [_decode_string(element, name) for element in _split_elements(name, data, shape[0] * one.each)]
    if len(items) != shape[0] * one.each:
        raise WrongShapeError(f'"{name}" has the shape {list(shape)}, but not as many elements')
    for length in reversed(one.shape[1:] if one.each != 1 else ()):
        items = [items[at : at + length] for at in range(0, len(items), length)]
    return items


def _decode_string(data: bytes, name: str) -> str:
    """Decode an element of an input of strings, which may be empty. Raises NotTextError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotTextError(f'"{name}" is not UTF-8') from None


def _read_elements(name: str, value: dict[str, Any], data: memoryview | None, shape: tuple[int, ...]) -> list[Any]:
    """Read the elements of BYTES, as JSON has them or from binary data. Raises HandlerError."""
    if data is not None:
        files: list[Any] = _split_elements(name, data, shape[0])
    else:
        files = value.get("data")  # type: ignore[assignment]  # it is checked next
        if not isinstance(files, list):
            raise WrongTypeError(f'"{name}" must have its data as a list of strings')
    if len(files) != shape[0]:
        raise WrongShapeError(f'"{name}" has the shape {list(shape)}, but not as many elements')
    if shape[1:] and all(isinstance(file, list) and len(file) == 1 for file in files):
        files = [file[0] for file in files]
    return files


def _split_elements(name: str, data: memoryview, count: int) -> list[bytes]:
    """Split binary BYTES, each after its length (4 bytes, little-endian), into at most ``count`` + 1 elements."""
    elements: list[bytes] = []
    at = 0
    while at < len(data) and len(elements) <= count:
        start = at + 4
        at = start + int.from_bytes(data[at:start], "little")
        if max(start, at) > len(data):
            raise WrongShapeError(f'"{name}" ends inside an element')
        elements.append(bytes(data[start:at]))
    return elements


def _choose_outputs(event: dict[str, Any], description: Description) -> list[tuple[str, dict[str, Any]]]:
    """Return the requested outputs with their parameters; all outputs if the request names none."""
    default = {"binary_data": _read_parameters(event).get("binary_data_output", False)}
    chosen = _index_objects(event, "outputs")
    names = [fetch.name for fetch in description.answers]
    for parameters in (default, *map(_read_parameters, chosen.values())):
        if not isinstance(parameters.get("binary_data", False), bool):
            raise WrongTypeError('"binary_data" and "binary_data_output" must be true or false')
    for name, value in chosen.items():
        count = _read_parameters(value).get("classification", 0)
        if name not in names:
            raise WrongFieldError(f'there is no output "{name[:64]}"; choose from {", ".join(names)}')
        if type(count) is not int or count < 0:
            raise WrongTypeError('"classification" must be a whole number')
    return [(name, default | _read_parameters(chosen.get(name, {}))) for name in chosen or names]


def _compute_min_length(wanted: list[tuple[str, dict[str, Any]]], count: int, description: Description) -> int:
    """Return the least characters of the outputs ``wanted`` of ``count`` items."""
    ports = {port.name: port for port in description.fetches}
    total = 0
    for name, parameters in wanted:
        port, classes = ports[name], parameters.get("classification", 0)
        each = port.begins_with_batch(description.batch)
        least = prod(port.least)
        elements = least * count // description.batch if each else least
        if classes:
            items = count if each else 1
            total += _SHORTEST_CLASS * min(elements, classes * items)
        elif parameters["binary_data"]:
            total += elements * port.size // (port.elements or 1) * 4 // 3  # Lambda carries it as base64
        else:
            total += compute_min_length(port.dtype, elements)
    return total


def _format_output(
    tensor: OutputTensor, parameters: dict[str, Any], description: Description
) -> tuple[dict[str, Any], bytes]:
    """Return an output's JSON, and its binary data."""
    shape, kind = tensor.shape, name_datatype(tensor.dtype)
    classes = parameters.get("classification", 0)
    texts: list[str] = []
    if classes:
        shape, texts = _rank_classes(tensor, classes, description)
        kind = "BYTES"
    answer: dict[str, Any] = {"name": tensor.name, "datatype": kind, "shape": list(shape)}
    if not parameters["binary_data"]:
        return answer | {"data": texts if classes else tensor.to_numbers()}, b""
    elements = (text.encode() for text in texts)
    data = b"".join(len(e).to_bytes(4, "little") + e for e in elements) if classes else tensor.data.tobytes()
    return answer | {"parameters": {"binary_data_size": len(data)}}, data


def _rank_classes(tensor: OutputTensor, count: int, description: Description) -> tuple[tuple[int, ...], list[str]]:
    """Return the ``count`` largest "value:index:label" of each item, or row of a dynamic output, and their shape."""
    port = next(fetch for fetch in description.fetches if fetch.name == tensor.name)
    labels = next((output.labels for output in description.outputs if output.fetch == port.name), ())
    items = tensor.shape[:1] if port.begins_with_batch(description.batch) else ()
    values = tensor.to_numbers()
    length = len(values) // (items[0] if items else 1)
    if port.dynamic and len(port.shape) - 1 not in port.dynamic:
        items, length = tensor.shape[:-1], tensor.shape[-1]
    texts = []
    for start in range(0, len(values), length or 1):
        row = values[start : start + length]
        for index in sorted(range(length), key=lambda i: (row[i] is None, -(row[i] or 0)))[:count]:
            label = f":{labels[index]}" if index < len(labels) else ""
            texts.append(f"{float('nan') if row[index] is None else row[index]:f}:{index}{label}")
    return (*items, min(count, length)), texts
