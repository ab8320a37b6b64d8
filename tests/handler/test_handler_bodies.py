"""Small bodies that ask for much: counts, sizes and answers are looked at before anything is made of them."""

from __future__ import annotations

import base64
import gc
import importlib
import io
import json
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext, suppress
from math import prod
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from handler.answer import compute_min_nested_length, compute_min_predictions_length, make_predictions, nest_values
from handler.budget import RequestLimits
from handler.description import Description, Port, parse_description
from handler.errors import NotJsonError, OverBudgetError
from handler.events import answer_event
from handler.http import HttpRequest
from handler.model import Model
from handler.protocols import respond_to_request
from handler.request import Request
from handler.server import Server
from handler.shape_buckets import pad_tensor
from tests.support import abi_library
from tests.support import hostile_images as hostile
from tests.support.http import Client

LIMITS = RequestLimits.for_memory(1769)
MB = 1 << 20
ECHO = abi_library.echo_description(batch=2)
SIDE = 2_700  # of a picture of 22 MB


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client.of(
        tmp_path_factory.mktemp("bodies"),
        abi_library.picture_description(width=SIDE, height=SIDE, mode="rgb"),
        abi_library.padded_description(),
        limits=LIMITS,
    )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each run of a model."""
    begun: list[int] = []
    run = Model.run
    monkeypatch.setattr(Model, "run", lambda self, *rest: (begun.append(1), run(self, *rest))[1])
    return begun


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Protocols are imported by their first request, which takes 2 MB: not what a body costs."""
    for name in ("open_inference", "predict", "tf_serving"):
        importlib.import_module(f"handler.protocols.{name}")


def peak(call: Callable[[], Any]) -> tuple[Any, int]:
    """What ``call`` gave, and the bytes of Python's that it took at once."""
    tracemalloc.start()
    try:
        result = call()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def v1(count: int) -> dict[str, Any]:
    return {"instances": [[[[1, 2, 3]]]] * count}


def v2(count: int) -> dict[str, Any]:
    data = [[[[1, 2, 3]]]] * count
    return {"inputs": [{"name": "x", "shape": [count, 1, 1, 3], "datatype": "FP32", "data": data}]}


PADDED: list[tuple[str, Callable[[int], dict[str, Any]]]] = [
    ("/v1/models/echo:predict", v1),
    ("/v2/models/echo/infer", v2),
]


@pytest.mark.parametrize(("path", "body"), PADDED)
def test_small_items_that_are_filled_up_to_gigabytes(
    client: Client, runs: list[int], path: str, body: Callable[[int], dict[str, Any]]
) -> None:
    """4,000 items of a pixel are 60 KB; filled up they would be 2.4 GB, and there twice."""
    sent = body(4_000)
    (status, told), most = peak(lambda: client.post(path, sent))
    assert status == 413
    assert "would take 4,817 MB of memory" in told["error"]
    assert most < 8 * MB
    assert runs == []


@pytest.mark.parametrize(("path", "body"), PADDED)
def test_too_many_items_are_counted_first(
    client: Client, runs: list[int], path: str, body: Callable[[int], dict[str, Any]]
) -> None:
    sent = body(5_000)
    (status, told), most = peak(lambda: client.post(path, sent))
    assert status == 413
    assert "5000 items; at most 4096" in told["error"]
    assert most < 8 * MB
    assert runs == []


@pytest.mark.parametrize(("path", "body"), PADDED)
def test_a_few_small_items_are_filled_up(
    client: Client, runs: list[int], path: str, body: Callable[[int], dict[str, Any]]
) -> None:
    status, told = client.post(path, body(2))
    assert status == 200, told
    assert len(runs) == 2


def own(count: int) -> dict[str, Any]:
    return {"model": "echo", "inputs": {"x": [[[[1, 2, 3]]]] * count}}


@pytest.mark.parametrize(("path", "body"), [*PADDED, ("/predict", own), ("direct", own)])
def test_inputs_are_not_filled_up_without_the_time_for_it(
    client: Client, runs: list[int], path: str, body: Callable[[int], dict[str, Any]]
) -> None:
    """Whoever looks at the clock for the second time finds that the time is over: so the filling has to look twice."""
    times = iter((15_000, 200))
    call = client.call()._replace(remaining_ms=lambda: next(times))
    sent = body(2)
    if path == "direct":
        assert answer_event(sent, client.server, call)["error"]["code"] == "out_of_time"
    else:
        response = respond_to_request(HttpRequest("POST", path, {}, {}, json.dumps(sent).encode()), client.server, call)
        assert response.status == 503
    assert runs == []


@pytest.mark.parametrize("shape", [(400_000, 1), (1, 400_000), (200_000, 1, 1), (1_000, 1_000)])
def test_filling_up_takes_twice_the_memory_at_most(shape: tuple[int, ...]) -> None:
    """Row by row in Python, 400,000 rows of a byte would take 90 MB."""
    most = tuple(size + 1 for size in shape)
    port, smaller = (Port("x", "uint8", s, prod(s)) for s in (most, shape))
    description = Description("m", "1", 1, (port,), (), None, (), pad={"x": 7})
    data = bytes(smaller.size)
    filled, memory = peak(lambda: pad_tensor(data, smaller, port, description))
    assert filled.count(7) == port.size - smaller.size
    assert memory < 2 * port.size + MB


def test_the_headers_of_a_forms_part_are_few(client: Client) -> None:
    """A million of them are 8 MB, and 200 MB as text."""
    head = b"".join(b"%x:\r\n" % number for number in range(100_000))
    body = b"--b\r\n" + head + b'Content-Disposition: form-data; name="x"\r\n\r\n\r\n--b--'
    headers = {"content-type": "multipart/form-data; boundary=b"}
    response, most = peak(lambda: client.send("POST", "/predict", body, headers, model="brightness"))
    assert response.status == 400
    assert b"bytes of headers" in response.body
    assert most < 6 * len(body)


@pytest.mark.parametrize(("path", "body"), PADDED)
def test_numbers_of_an_answer_that_cannot_be_passed_on_are_not_looked_at(
    client: Client, runs: list[int], path: str, body: Callable[[int], dict[str, Any]]
) -> None:
    """They would take a second, of a body of 6 MB. Here they are not even numbers."""
    sent = json.dumps(body(20)).replace("[1, 2, 3]", '["a", 2, 3]')
    response = client.send("POST", path, sent.encode())
    assert response.status == 413
    assert b"the answer has" in response.body
    assert runs == []


def test_what_is_held_together_has_to_fit(client: Client, runs: list[int]) -> None:
    """The tensors of 4 items are 2.4 MB, and what the runs give is as much, twice."""
    echo = client.server.models["echo"]
    request = Request((), {"x": bytes(4 * echo.description.feeds[0].size)}, "echo")
    for memory, fits in ((7_000_000, False), (8_000_000, True)):
        server = Server(client.server.models, LIMITS._replace(memory=memory))
        with nullcontext() if fits else pytest.raises(OverBudgetError):
            server.run_inference(request, client.call())
    assert len(runs) == 4


def gif() -> str:
    buffer = io.BytesIO()
    Image.new("L", (1, 1), 200).save(buffer, "GIF")
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/predict", {"images": [gif()] * 64}),
        ("/predict", {"image": gif()}),
        ("/v1/models/brightness:predict", {"instances": [{"b64": gif()}] * 64}),
        (
            "/v2/models/brightness/infer",
            {"inputs": [{"name": "image", "shape": [64], "datatype": "BYTES", "data": [gif()] * 64}]},
        ),
        (
            "/v2/models/brightness/infer",
            {
                "inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": [gif()]}],
                "outputs": [{"name": "pixels", "parameters": {"binary_data": True}}],
            },
        ),
    ],
)
def test_an_answer_that_cannot_be_passed_on_is_refused_before_the_work(
    client: Client, runs: list[int], path: str, body: dict[str, Any]
) -> None:
    (status, told), most = peak(lambda: client.post(path, body))
    assert status == 413
    assert "the answer has " in json.dumps(told)
    assert most < 8 * MB
    assert runs == []


def test_answers_that_are_small_may_need_too_much_memory(client: Client, runs: list[int]) -> None:
    """Of 64 pictures only the brightness is asked for; the model gives 22 MB beside it for each."""
    body = {
        "inputs": [{"name": "image", "shape": [64], "datatype": "BYTES", "data": [gif()] * 64}],
        "outputs": [{"name": "level"}],
    }
    status, told = client.post("/v2/models/brightness/infer", body)
    assert (status, told["error"][:24]) == (413, "the request would take 2")
    assert runs == []
    body["inputs"][0] |= {"shape": [1], "data": [gif()]}  # type: ignore[index]
    assert client.post("/v2/models/brightness/infer", body)[0] == 200


def test_elements_beyond_the_count_are_not_taken_out(client: Client, runs: list[int]) -> None:
    """1,100,000 empty BYTES elements."""
    size = {"binary_data_size": 4_400_000}
    images = {"name": "image", "shape": [2], "datatype": "BYTES", "parameters": size}
    text = json.dumps({"inputs": [images], "outputs": [{"name": "level"}]}).encode()
    headers = {"inference-header-content-length": str(len(text))}
    sent = text + bytes(4_400_000)
    response, most = peak(lambda: client.send("POST", "/v2/models/brightness/infer", sent, headers))
    assert response.status == 422
    assert b"not as many elements" in response.body
    assert most < MB
    assert runs == []


@pytest.mark.parametrize("path", ["/predict", "/v1/models/echo:predict", "/v2/models/echo/infer"])
def test_json_that_is_larger_in_memory_than_there_is(client: Client, path: str) -> None:
    """2,000,000 empty lists are 6 MB, and 144 MB once they are parsed."""
    small = Client(Server(client.server.models, RequestLimits.for_memory(128)))
    sent = b'{"inputs": [' + b",".join([b"[]"] * 2_000_000) + b"]}"
    (status, code), most = peak(lambda: _status(small, path, sent))
    assert (status, code) == (413, True)
    assert most < MB


def _status(client: Client, path: str, body: bytes) -> tuple[int, bool]:
    response = client.send("POST", path, body, {"content-type": "application/json"})
    return response.status, b"of memory" in response.body


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("text", [b"[]", b"["])
def test_parsing_leaves_the_garbage_collector_as_it_was(paused: bool, text: bytes) -> None:
    """It is off meanwhile: looking for circles in millions of lists took five times as long as parsing them."""
    try:
        if paused:
            gc.disable()
        with suppress(NotJsonError):
            HttpRequest("POST", "/", {}, {}, text).parse_json("{}", LIMITS)
        assert gc.isenabled() is not paused
    finally:
        gc.enable()


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3), (2, 1, 1), (3, 4, 5, 6), (1, 1, 1, 1)])
@pytest.mark.parametrize(("dtype", "zero"), [("float32", 0.0), ("int64", 0)])
def test_the_brackets_of_lists_within_lists_count(dtype: str, zero: float, shape: tuple[int, ...]) -> None:
    """Two seconds went into numbers of three channels, whose answer was then too long by its brackets."""
    assert compute_min_nested_length(dtype, shape) == len(json.dumps(nest_values([zero] * prod(shape), shape)))


def test_the_least_that_is_expected_of_an_answer_is_no_more_than_it_has() -> None:
    """Else an answer that could be passed on would be refused."""
    for text in (abi_library.picture_description(batch=2), abi_library.tensor_description(), ECHO):
        description = parse_description(json.dumps(text))
        fetches = [memoryview(bytes(port.size)).cast(port.format) for port in description.fetches]
        found = make_predictions(description, fetches, 2)
        assert 0 < compute_min_predictions_length(description, 2) <= len(json.dumps(found))


def event_of(*items: Any) -> dict[str, Any]:
    return {"Items": list(items)}


def test_a_batch_of_large_answers_stops_when_they_are_too_large(tmp_path: Path, runs: list[int]) -> None:
    description = abi_library.picture_description(width=600, height=600, mode="rgb")
    there = Client.of(tmp_path, description, limits=LIMITS)
    told = answer_event(event_of(*[{"image": gif()}] * 20), there.server, there.call())
    assert [result["error"]["code"] for result in told["results"]] == ["answer_too_large"] * 20
    assert told["failed"] == 20
    assert len(runs) == 2  # of 3.2 MB at least, each


def test_a_record_over_budget_fails_alone(tmp_path: Path, runs: list[int]) -> None:
    there = Client.of(tmp_path, abi_library.picture_description(), limits=LIMITS)
    costly = [hostile.jpeg(hostile.MEGAPIXELS_43, 1_000), hostile.bmp_in_runs((6_600, 6_600)), hostile.png((40_000, 1))]
    bodies = [gif(), *(base64.b64encode(data).decode() for data in costly), gif()]
    records = [
        {"messageId": f"m{at}", "eventSource": "aws:sqs", "body": json.dumps({"image": text})}
        for at, text in enumerate(bodies)
    ]
    told = answer_event({"Records": records}, there.server, there.call())
    assert told == {"batchItemFailures": [{"itemIdentifier": f"m{at}"} for at in (1, 2, 3)]}
    assert len(runs) == 2
