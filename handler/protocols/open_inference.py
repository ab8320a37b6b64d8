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
    TooManyImagesError,
    WrongFieldError,
    WrongShapeError,
    WrongTypeError,
)
from ..http import HttpRequest, HttpResponse
from ..inputs import find_element_kind
from ..named_tuples import NamedTuple
from ..request import Request
from ..server import Invocation, Server
from ..tensors import name_single, read_tensor, require_finite, require_items, require_tensor_memory, reshape_port
from ..typed import Any
from . import find_version, split_model_path
from . import format_refusal as format_refusal

EXTENSIONS = ["binary_tensor_data", "classification"]
SERVER_PATHS: tuple[list[str], ...] = ([], ["health", "live"], ["health", "ready"])
_SHORTEST_CLASS = len("0.000000:0")
LENGTH = "inference-header-content-length"
EXAMPLE = '{"inputs": [{"name": …, "shape": […], "datatype": …, "data": […]}]}'


class SentTensor(NamedTuple):
    """A tensor of a request: ``values`` in JSON, None where there are none, or binary ``data``."""

    name: str
    datatype: object
    shape: tuple[int, ...]
    values: object
    data: memoryview | None

    def require_type(self, datatype: str) -> None:
        """Raise WrongTypeError for a tensor of another type."""
        if self.datatype != datatype:
            raise WrongTypeError(f'"{self.name}" must have the datatype {datatype}')

    def require_elements(self, most: int) -> None:
        """Require the shape [n] or [n, 1] with at most ``most`` items. Raises WrongShapeError, TooManyImagesError."""
        if not self.shape or not self.shape[0] or self.shape[1:] not in ((), (1,)):
            raise WrongShapeError(f'"{self.name}" must have the shape [n] where it holds BYTES, one image or text each')
        if self.shape[0] > most:
            raise TooManyImagesError(
                f'"{self.name}" has {self.shape[0]} elements; at most {most} are allowed at a time'
            )


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
        builder = server.find_description(None).builder
        metadata = {"name": "coldforge", "version": builder, "extensions": EXTENSIONS}
        return HttpResponse.from_json({segments[1]: True} if segments else metadata)
    name, version, rest = path
    description = find_version(server, name, version)
    if method == "POST":
        return _answer_inference(request, description, server, call)
    ready = {"name": description.name, "ready": True}
    return HttpResponse.from_json(ready if rest else describe_model(description))


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
    event = request._replace(body=body[:end]).parse_object(EXAMPLE, limits)
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
        from ..inputs.example import make_request

        sent = _split_tensors(tensors, blob)[examples.name]
        sent.require_type("BYTES")
        sent.require_elements(limits.items)
        return make_request(_read_elements(sent), description, limits, lambda count: require_answer(count, description))
    kind = find_element_kind(description)
    if kind and tensors.get(kind.element_input, {}).get("datatype") != "BYTES":
        kind = None
    listed, implied = (kind.element_input, kind.replaces) if kind else ("", ())
    names = [feed.name for feed in description.caller_inputs if feed.name == listed or feed.name not in implied]
    if set(tensors) != set(names):
        need = ", ".join(f'"{feed.name}" ({name_datatype(feed.dtype)})' for feed in description.caller_inputs)
        raise WrongFieldError(f'"inputs" must be {need}; some are missing or have other names')
    sent_tensors = _split_tensors(tensors, blob)
    if not (description.one_size or listed):  # images are resized to the first size
        from ..shape_buckets import choose_size

        tensor_names = {port.name for port in description.tensor_inputs}  # strings have the same shape in every size
        shapes = {name: sent.shape for name, sent in sent_tensors.items() if name in tensor_names}
        description = choose_size(shapes, description)
    ports = {feed.name: feed for feed in description.feeds}
    if kind:
        sent_tensors[listed].require_elements(kind.most_elements(limits))
    # The counts are checked before the data is read: a small request can ask for many items.
    counted = [sent for name, sent in sent_tensors.items() if description.batched or name == listed]
    counts = {sent.name: sent.shape[0] for sent in counted if sent.shape}
    require_items(counts, description, limits)
    count = max(counts.values(), default=description.batch)
    require_tensor_memory([name for name in tensors if name != listed], count, description, limits)
    require_answer(count, description)
    fields: dict[str, Any] = {"images": ()}
    inputs: dict[str, bytes] = {}
    columns: dict[str, object] = {}
    words = {port.name: port for port in description.strings}
    for name, sent in sent_tensors.items():
        if name in words:
            columns[name] = _read_strings(sent, words[name], limits)
        elif kind and name == listed:
            fields |= kind.read_elements(_read_elements(sent), description, limits)
        else:
            inputs[name] = _read_padded_tensor(sent, ports[name], description, left)
    if words:
        from ..inputs.strings import read_strings

        fields["strings"], _ = read_strings(columns, description, limits)
    size, signature = description.size, description.signature
    return Request(inputs=inputs, model=description.name, size=size, signature=signature, **fields)


def _split_tensors(tensors: dict[str, dict[str, Any]], blob: memoryview) -> dict[str, SentTensor]:
    """Return the tensors with their parts of the binary data, which are in the tensors' order. Raises HandlerError."""
    sent: dict[str, SentTensor] = {}
    for name, value in tensors.items():
        data, size = None, _read_parameters(value).get("binary_data_size")
        if size is not None:
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(blob):
                raise WrongFieldError(
                    f'"{name}" must have a binary_data_size of at most the {len(blob)} bytes that are left'
                )
            if "data" in value:
                raise WrongFieldError(f'"{name}" has both "data" and binary_data_size')
            data, blob = blob[:size], blob[size:]
        sent[name] = SentTensor(name, value.get("datatype"), _read_shape(name, value), value.get("data"), data)
    if len(blob):
        raise WrongFieldError(f"the body has {len(blob)} bytes more than binary_data_size says")
    return sent


def _read_padded_tensor(sent: SentTensor, port: Port, description: Description, left: Callable[[], float]) -> bytes:
    """Read the tensor of the feed ``port``; if it is smaller, and the model has a filler, it is filled up."""
    if port.name not in description.pad:
        return _read_tensor(sent, reshape_port(port, sent.shape, description))
    from ..shape_buckets import match_port, pad_tensor

    if description.batched:
        port = reshape_port(port, (*sent.shape[:1], *port.shape[1:]), description)
    actual = match_port(sent.shape, port, description)
    return pad_tensor(
        _read_tensor(sent, reshape_port(actual, sent.shape, description)), actual, port, description, left
    )


def _read_shape(name: str, value: dict[str, Any]) -> tuple[int, ...]:
    shape = value.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise WrongTypeError(f'"{name}" must have a shape: a list of whole numbers')
    return tuple(shape)


def _read_tensor(sent: SentTensor, port: Port) -> bytes:
    sent.require_type(name_datatype(port.dtype))
    if sent.data is None:
        if sent.values is None:
            raise WrongFieldError(f'"{port.name}" has no data')
        # In JSON, a scalar is sent as [x].
        alone = port.shape == () and isinstance(sent.values, list) and len(sent.values) == 1
        return read_tensor(sent.values[0] if alone else sent.values, port)  # type: ignore[index]
    raw = bytes(sent.data)
    if len(raw) != port.size:
        raise WrongShapeError(f'"{port.name}" has {len(raw)} bytes; its shape and datatype make {port.size}')
    # Compiled code may treat any other byte as both true and false.
    if port.dtype == "bool" and raw.translate(None, b"\0\1"):
        raise WrongTypeError(f'"{port.name}" must hold bytes of 0 and 1 only')
    return require_finite(raw, port, f'"{port.name}"')


def _read_strings(sent: SentTensor, one: StringInput, limits: RequestLimits) -> Any:
    """Read an input of strings: BYTES, which are strings in JSON, or UTF-8 in binary data. Raises HandlerError."""
    name, shape, values = sent.name, sent.shape, sent.values
    sent.require_type("BYTES")
    if not shape or (shape[1:] != one.shape[1:] and (one.each != 1 or shape[1:] not in ((), (1,)))):
        raise WrongShapeError(f'"{name}" must have the shape {["n", *one.shape[1:]]}')
    if shape[0] > limits.items:
        raise TooManyImagesError(f'"{name}" has {shape[0]} items; at most {limits.items} are allowed at a time')
    if sent.data is not None:
        elements = _split_elements(name, sent.data, shape[0] * one.each)
        try:
            values = [element.decode() for element in elements]
        except UnicodeDecodeError:
            raise NotTextError(f'"{name}" is not UTF-8') from None
    elif not isinstance(values, list) or (values and isinstance(values[0], list)):
        return values  # nested lists, or what ``read_strings`` refuses
    if len(values) != shape[0] * one.each:
        raise WrongShapeError(f'"{name}" has the shape {list(shape)}, but not as many elements')
    for length in reversed(one.shape[1:] if one.each != 1 else ()):
        values = [values[at : at + length] for at in range(0, len(values), length)]
    return values


def _read_elements(sent: SentTensor) -> list[Any]:
    """Read the elements of BYTES, as JSON has them or from binary data. Raises HandlerError."""
    files = sent.values if sent.data is None else _split_elements(sent.name, sent.data, sent.shape[0])
    if not isinstance(files, list):
        raise WrongTypeError(f'"{sent.name}" must have its data as a list of strings')
    if len(files) != sent.shape[0]:
        raise WrongShapeError(f'"{sent.name}" has the shape {list(sent.shape)}, but not as many elements')
    if sent.shape[1:] and all(isinstance(file, list) and len(file) == 1 for file in files):
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
