"""The Open Inference Protocol, version 2, over HTTP, with the extensions for binary tensors and classification.

https://github.com/kserve/open-inference-protocol and Triton's ``extension_binary_data``, ``extension_classification``.

The feed that takes pictures also takes BYTES of shape [n]: each element is an image file, in JSON as base64. So
does the feed of the ids of text, each element a text; then the mask and the types are left out. Inputs of strings take
BYTES of their own shape. A model of tf.Examples takes them as BYTES under their own name, too, in JSON as base64.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..answer import Tensor, require_possible, shortest, tensors
from ..budget import Limits
from ..deadline import unlimited
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
from ..inputs import element_kind
from ..request import Request
from ..server import Call, Server
from ..tensors import name_single, of_shape, require_finite, require_held, require_items, tensor
from ..typed import Any
from .paths import model_path

EXTENSIONS = ["binary_tensor_data", "classification"]
SERVER_PATHS: tuple[list[str], ...] = ([], ["health", "live"], ["health", "ready"])
_SHORTEST_CLASS = len("0.000000:0")
LENGTH = "inference-header-content-length"
EXAMPLE = '{"inputs": [{"name": …, "shape": […], "datatype": …, "data": […]}]}'


def datatype(dtype: str) -> str:
    """BOOL, UINT8 … INT64, FP32, FP64, BYTES."""
    return {"float32": "FP32", "float64": "FP64", "string": "BYTES"}.get(dtype, dtype.upper())


def handle(request: HttpRequest, server: Server, call: Call) -> HttpResponse:
    """Everything under ``/v2``. Raises HandlerError."""
    segments = request.path.strip("/").split("/")[1:]
    path = model_path(segments)
    if (path.rest not in ((), ("ready",), ("infer",))) if path else (segments not in SERVER_PATHS):
        raise NotFoundError(request.path, server.models)
    method = "POST" if path and path.rest == ("infer",) else "GET"
    if request.method != method:
        raise MethodNotAllowedError(request.method, request.path, method)
    if path is None:
        return HttpResponse.of_json({segments[1]: True} if segments else _server_metadata(server))
    description = path.description(server)
    if path.rest == ("infer",):
        return _infer(request, description, server, call)
    ready = {"name": description.name, "ready": True}
    return HttpResponse.of_json(ready if path.rest else metadata(description))


def refuse(refusal: Refusal) -> HttpResponse:
    return HttpResponse.of_json({"error": refusal.message}, refusal.status)


def _server_metadata(server: Server) -> dict[str, Any]:
    return {"name": "coldforge", "version": server.description(None).builder, "extensions": EXTENSIONS}


def metadata(description: Description) -> dict[str, Any]:
    """A dimension of -1 takes any number of items, or one of several sizes."""

    def port(port: Port) -> dict[str, Any]:
        return {"name": port.name, "datatype": datatype(port.dtype), "shape": description.open(port)}

    return {
        "name": description.name,
        "versions": [description.version],
        "platform": "coldforge_libmodel",
        "inputs": [port(feed) for feed in description.taken],
        "outputs": [port(fetch) for fetch in description.answers],
    }


def _infer(request: HttpRequest, description: Description, server: Server, call: Call) -> HttpResponse:
    event, blob = _split(request, server.limits)
    signature = _parameters(event).get("signature", "")
    if not isinstance(signature, str):
        raise WrongTypeError('"parameters"."signature" must be a string')
    description = description.of_signature(signature)
    wanted = _outputs(event, description)

    def require_answer(count: int, sized: Description) -> None:
        require_possible(_shortest(wanted, count, sized), request.answer_limit, server.limits)

    left = server.make_clock(call)
    result = server.infer(_request(event, blob, description, server.limits, require_answer, left), call)
    found = {tensor.name: tensor for tensor in tensors(result.description, result.batches)}
    answers, blobs = [], []
    for name, parameters in wanted:
        answer, data = _output(found[name], parameters, description)
        answers.append(answer)
        blobs.append(data)
    body: dict[str, Any] = {"model_name": description.name, "model_version": description.version, "outputs": answers}
    if "id" in event:
        body["id"] = event["id"]
    response = HttpResponse.of_json(body)
    if not any("binary_data_size" in answer.get("parameters", {}) for answer in answers):
        return response
    headers = {"content-type": "application/octet-stream", LENGTH: str(len(response.body))}
    return HttpResponse(200, headers, response.body + b"".join(blobs))


def _split(request: HttpRequest, limits: Limits) -> tuple[dict[str, Any], memoryview]:
    """The JSON object, and the tensors after it."""
    body, length = request.body, request.headers.get(LENGTH)
    end = len(body)
    if length is not None:
        if not (length.isascii() and length.isdigit() and len(length) < 12 and int(length) <= len(body)):
            raise WrongFieldError(f"{LENGTH} must be the length of the JSON in the body, which has {len(body)} bytes")
        end = int(length)
    event = request._replace(body=body[:end]).json(EXAMPLE, limits)
    if not isinstance(event, dict):
        raise WrongTypeError(f"the body must be an object like {EXAMPLE}")
    if not isinstance(event.get("id", ""), str):
        raise WrongTypeError('"id" must be a string')
    return event, memoryview(body)[end:]


def _objects(event: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """The objects of a list, by their names."""
    values = event.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise WrongTypeError(f'"{key}" must be a list of objects')
    named = {value["name"]: value for value in values if isinstance(value.get("name"), str)}
    if len(named) != len(values):
        raise WrongFieldError(f'every object in "{key}" must have a name of its own')
    return named


def _parameters(value: dict[str, Any]) -> dict[str, Any]:
    parameters = value.get("parameters", {})
    if not isinstance(parameters, dict):
        raise WrongTypeError('"parameters" must be an object')
    return parameters


def _request(
    event: dict[str, Any],
    blob: memoryview,
    description: Description,
    limits: Limits,
    require_answer: Callable[[int, Description], None],
    left: Callable[[], float] = unlimited,
) -> Request:
    given = name_single(_objects(event, "inputs"), [feed.name for feed in description.taken])
    if (examples := description.examples) and [*given] == [examples.name]:
        return _of_examples(given[examples.name], blob, description, limits, require_answer)
    kind, media = element_kind(description)
    listed = media if kind and given.get(media, {}).get("datatype") == "BYTES" else ""
    implied = kind.names(description) if kind and listed else ()
    names = [feed.name for feed in description.taken if feed.name == listed or feed.name not in implied]
    if set(given) != set(names):
        need = ", ".join(f'"{feed.name}" ({datatype(feed.dtype)})' for feed in description.taken)
        raise WrongFieldError(f'"inputs" must be {need}; some are missing or have other names')
    if not (description.one_size or listed):
        description = _sized(given, description)
    ports = {feed.name: feed for feed in description.feeds}
    shapes = {name: _shape(name, value) for name, value in given.items()}
    if kind and listed:
        _require_elements(listed, shapes[listed], kind.most_elements(limits))
    # Counts before anything is made of them: it is cheap to ask for many.
    counts = {name: shape[0] for name, shape in shapes.items() if shape and (description.batched or name == listed)}
    require_items(counts, description, limits)
    count = max(counts.values(), default=description.batch)
    require_held([name for name in given if name != listed], count, description, limits)
    require_answer(count, description)
    fields: dict[str, Any] = {"pictures": ()}
    inputs: dict[str, bytes] = {}
    columns: dict[str, object] = {}
    words = {one.name: one for one in description.strings}
    for name, value in given.items():  # in the order of the binary data
        data, blob = _binary(name, value, blob)
        if name in words:
            columns[name] = _strings(name, value, data, shapes[name], words[name], limits)
        elif kind and name == listed:
            elements = _bytes(name, value, data, shapes[name])
            fields |= kind.read_elements(elements, description, limits)
        else:
            inputs[name] = _fitted(value, data, shapes[name], ports[name], description, left)
    if len(blob):
        raise WrongFieldError(f"the body has {len(blob)} bytes more than binary_data_size says")
    if words:
        from ..inputs.strings import strings_of

        fields["strings"], _ = strings_of(columns, description, limits)
    size, signature = description.size, description.signature
    return Request(inputs=inputs, model=description.name, size=size, signature=signature, **fields)


def _of_examples(
    value: dict[str, Any],
    blob: memoryview,
    description: Description,
    limits: Limits,
    require_answer: Callable[[int, Description], None],
) -> Request:
    from ..examples import request_of

    name = value["name"]
    if value.get("datatype") != "BYTES":
        raise WrongTypeError(f'"{name}" must have the datatype BYTES')
    shape = _shape(name, value)
    _require_elements(name, shape, limits.items)
    data, blob = _binary(name, value, blob)
    if len(blob):
        raise WrongFieldError(f"the body has {len(blob)} bytes more than binary_data_size says")
    found = _bytes(name, value, data, shape)
    return request_of(found, description, limits, lambda count: require_answer(count, description))


def _sized(given: dict[str, dict[str, Any]], description: Description) -> Description:
    """``description`` in the size that the inputs are of; pictures are resized to the first."""
    from ..sizes import choose_size

    tensors = {port.name for port in description.given}  # strings have the same shape in every size
    return choose_size({n: _shape(n, value) for n, value in given.items() if n in tensors}, description)


def _fitted(
    value: dict[str, Any],
    data: memoryview | None,
    shape: tuple[int, ...],
    port: Port,
    description: Description,
    left: Callable[[], float],
) -> bytes:
    """The tensor of the feed ``port``, filled up where it is smaller and the model says with what."""
    if port.name not in description.pad:
        return _tensor(value, data, of_shape(port, shape, description))
    from ..sizes import padded, within

    if description.batched:
        port = of_shape(port, (*shape[:1], *port.shape[1:]), description)
    given = within(shape, port, description)
    return padded(_tensor(value, data, of_shape(given, shape, description)), given, port, description, left)


def _binary(name: str, value: dict[str, Any], blob: memoryview) -> tuple[memoryview | None, memoryview]:
    """This input's part of the binary data, if it has one, and the rest."""
    size = _parameters(value).get("binary_data_size")
    if size is None:
        return None, blob
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(blob):
        raise WrongFieldError(f'"{name}" must have a binary_data_size of at most the {len(blob)} bytes that are left')
    if "data" in value:
        raise WrongFieldError(f'"{name}" has both "data" and binary_data_size')
    return blob[:size], blob[size:]


def _shape(name: str, value: dict[str, Any]) -> tuple[int, ...]:
    shape = value.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise WrongTypeError(f'"{name}" must have a shape: a list of whole numbers')
    return tuple(shape)


def _tensor(value: dict[str, Any], data: memoryview | None, port: Port) -> bytes:
    if value.get("datatype") != datatype(port.dtype):
        raise WrongTypeError(f'"{port.name}" must have the datatype {datatype(port.dtype)}')
    if data is None:
        if "data" not in value:
            raise WrongFieldError(f'"{port.name}" has no data')
        flat = value["data"]
        # A single number is [x] in JSON, whatever its shape.
        return tensor(flat[0] if port.shape == () and isinstance(flat, list) and len(flat) == 1 else flat, port)
    if len(data) != port.size:
        raise WrongShapeError(f'"{port.name}" has {len(data)} bytes; its shape and datatype make {port.size}')
    raw = bytes(data)
    # Compiled code may take any byte but these for both true and false.
    if port.dtype == "bool" and raw.translate(None, b"\0\1"):
        raise WrongTypeError(f'"{port.name}" must hold bytes of 0 and 1 only')
    return require_finite(raw, port, f'"{port.name}"')


def _require_elements(name: str, shape: tuple[int, ...], most: int) -> None:
    """Raises WrongShapeError, TooManyImagesError."""
    if not shape or not shape[0] or shape[1:] not in ((), (1,)):
        raise WrongShapeError(f'"{name}" must have the shape [n] where it holds BYTES, one picture or text each')
    if shape[0] > most:
        raise TooManyImagesError(f'"{name}" has {shape[0]} elements; at most {most} are allowed at a time')


def _strings(
    name: str,
    value: dict[str, Any],
    data: memoryview | None,
    shape: tuple[int, ...],
    one: StringInput,
    limits: Limits,
) -> list[Any]:
    """The items of an input of strings: BYTES, strings in JSON, UTF-8 in binary data. Raises HandlerError."""
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
            return flat  # type: ignore[return-value]  # which ``strings_of`` looks at
        found: list[Any] = flat
    else:
        found = [_string(element, name) for element in _elements(name, data, shape[0] * one.each)]
    if len(found) != shape[0] * one.each:
        raise WrongShapeError(f'"{name}" has the shape {list(shape)}, but not as many elements')
    for length in reversed(one.shape[1:] if one.each != 1 else ()):
        found = [found[at : at + length] for at in range(0, len(found), length)]
    return found


def _string(data: bytes, name: str) -> str:
    """An element of an input of strings, which may be empty. Raises NotTextError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotTextError(f'"{name}" is not UTF-8') from None


def _bytes(name: str, value: dict[str, Any], data: memoryview | None, shape: tuple[int, ...]) -> list[Any]:
    """The elements of BYTES: as JSON has them, or bytes. Raises HandlerError."""
    if data is not None:
        files: list[Any] = _elements(name, data, shape[0])
    else:
        files = value.get("data")  # type: ignore[assignment]  # as is seen next
        if not isinstance(files, list):
            raise WrongTypeError(f'"{name}" must have its data as a list of strings')
    if len(files) != shape[0]:
        raise WrongShapeError(f'"{name}" has the shape {list(shape)}, but not as many elements')
    if shape[1:] and all(isinstance(file, list) and len(file) == 1 for file in files):
        files = [file[0] for file in files]
    return files


def _elements(name: str, data: memoryview, count: int) -> list[bytes]:
    """BYTES in their binary form: each with its length before it, 4 bytes, little-endian. At most ``count`` + 1."""
    elements: list[bytes] = []
    at = 0
    while at < len(data) and len(elements) <= count:
        start = at + 4
        at = start + int.from_bytes(data[at:start], "little")
        if max(start, at) > len(data):
            raise WrongShapeError(f'"{name}" ends inside an element')
        elements.append(bytes(data[start:at]))
    return elements


def _outputs(event: dict[str, Any], description: Description) -> list[tuple[str, dict[str, Any]]]:
    """What is asked for, by name; everything, where nothing is."""
    default = {"binary_data": _parameters(event).get("binary_data_output", False)}
    asked = _objects(event, "outputs")
    names = [fetch.name for fetch in description.answers]
    for parameters in (default, *map(_parameters, asked.values())):
        if not isinstance(parameters.get("binary_data", False), bool):
            raise WrongTypeError('"binary_data" and "binary_data_output" must be true or false')
    for name, value in asked.items():
        count = _parameters(value).get("classification", 0)
        if name not in names:
            raise WrongFieldError(f'there is no output "{name[:64]}"; choose from {", ".join(names)}')
        if type(count) is not int or count < 0:
            raise WrongTypeError('"classification" must be a whole number')
    return [(name, default | _parameters(asked.get(name, {}))) for name in asked or names]


def _shortest(wanted: list[tuple[str, dict[str, Any]]], count: int, description: Description) -> int:
    """Characters that the outputs ``wanted`` of ``count`` items have at least."""
    ports = {port.name: port for port in description.fetches}
    total = 0
    for name, parameters in wanted:
        port, classes = ports[name], parameters.get("classification", 0)
        each = port.of_items(description.batch)
        least = prod(port.least)
        elements = least * count // description.batch if each else least
        if classes:
            items_there = count if each else 1
            total += _SHORTEST_CLASS * min(elements, classes * items_there)
        elif parameters["binary_data"]:
            total += elements * port.size // (port.elements or 1) * 4 // 3  # carried as base64
        else:
            total += shortest(port.dtype, elements)
    return total


def _output(tensor: Tensor, parameters: dict[str, Any], description: Description) -> tuple[dict[str, Any], bytes]:
    """An output's JSON, and its binary data."""
    shape, kind = tensor.shape, datatype(tensor.dtype)
    classes = parameters.get("classification", 0)
    texts: list[str] = []
    if classes:
        shape, texts = _classes(tensor, classes, description)
        kind = "BYTES"
    answer: dict[str, Any] = {"name": tensor.name, "datatype": kind, "shape": list(shape)}
    if not parameters["binary_data"]:
        return answer | {"data": texts if classes else tensor.numbers()}, b""
    elements = (text.encode() for text in texts)
    data = b"".join(len(e).to_bytes(4, "little") + e for e in elements) if classes else tensor.data.tobytes()
    return answer | {"parameters": {"binary_data_size": len(data)}}, data


def _classes(tensor: Tensor, count: int, description: Description) -> tuple[tuple[int, ...], list[str]]:
    """The ``count`` largest of each item as Triton writes them, "value:index:label", and their shape. Where the data
    decides how many rows there are, those of each row."""
    port = next(fetch for fetch in description.fetches if fetch.name == tensor.name)
    labels = next((output.labels for output in description.outputs if output.fetch == port.name), ())
    items = tensor.shape[:1] if port.of_items(description.batch) else ()
    values = tensor.numbers()
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
