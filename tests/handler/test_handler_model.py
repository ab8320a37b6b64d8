"""The compiled model behind its ABI, as the function opens and calls it: a real library each time."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from handler import _abi_build
from handler.description import parse_description
from handler.errors import InferenceError, OutOfTimeError, StartupError, make_refusal
from handler.image import RequestLimits
from handler.model import DEFAULT_LIBRARY, Model, Models, open_models
from handler.request import File, Request
from handler.server import Invocation, Server
from tests.support import abi_library, hostile_images


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(str(abi_library.build(tmp_path_factory.mktemp("pictures"), abi_library.picture_description())))


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(str(abi_library.build(tmp_path_factory.mktemp("tensors"), abi_library.tensor_description())))


def test_the_committed_module_is_what_the_header_gives() -> None:
    for module, header in _abi_build.HEADERS.items():
        assert module.read_text() == _abi_build.generate_module(header)


def test_the_description_is_read(pictures: Model) -> None:
    description = pictures.description
    assert (description.name, description.version, description.batch) == ("brightness", "7", 1)
    assert description.image is not None
    assert (description.image.width, description.image.size) == (8, 64)
    light = description.fetches[0]
    assert (light.name, light.dtype, light.shape, light.size) == ("light", "float32", (1, 2), 8)


def test_every_fetch_comes_with_its_own_type(tensors: Model) -> None:
    product, total = tensors.run([struct.pack("6f", 1, 2, 3, 4, 5, 6), struct.pack("2q", 2, -1)])
    assert product.tolist() == [2, 4, 6, -4, -5, -6]
    assert (total.format, total.tolist()) == ("d", [-3.0])


def test_an_answer_outlives_the_next_run(pictures: Model) -> None:
    first = pictures.run([b"\xff" * 64])[0]
    pictures.run([b"\x00" * 64])
    assert first.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("feed", [bytes(64), bytearray(64), memoryview(bytes(64))])
def test_feeds_may_be_any_buffer(pictures: Model, feed: bytes) -> None:
    assert pictures.run([feed])[1].tolist() == [0.0]


@pytest.mark.parametrize("feeds", [[], [bytes(63)], [bytes(65)], [bytes(64), b""]])
def test_wrong_feeds_are_refused_and_leave_the_model_usable(pictures: Model, feeds: list[bytes]) -> None:
    with pytest.raises(InferenceError):
        pictures.run(feeds)
    assert pictures.run([bytes(64)])[1].tolist() == [0.0]


def test_a_failing_kernel_says_why(pictures: Model) -> None:
    with pytest.raises(InferenceError, match="status 4: the kernel fell over"):
        pictures.run([bytes([abi_library.POISON]) * 64])


def test_threads_may_share_a_model(pictures: Model) -> None:
    def level(value: int) -> float:
        return float(pictures.run([bytes([value]) * 64])[1][0])

    values = [v for v in range(256) if v != abi_library.POISON] * 4
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(level, values)) == values


def test_no_run_of_another_request_comes_between_those_of_one(tmp_path: Path) -> None:
    """A request of three items lets another one begin before its second item. The model counts its runs."""
    model = Model(str(abi_library.build(tmp_path, abi_library.counter_description())))
    server = Server({"counter": model}, RequestLimits())
    seen: dict[int, list[int]] = {}

    def ask(items: int, remaining_ms: Callable[[], int]) -> None:
        call = Invocation(
            "request", False, remaining_ms, lambda result: None, lambda error: make_refusal(error, "request")
        )
        batches = server.run_inference(Request((), {"x": bytes(4 * items)}), call).batches
        seen[items] = [fetches[0][0] for fetches, _ in batches]

    other = threading.Thread(target=ask, args=(2, lambda: 15_000))
    asked = iter((None, other))

    def remaining_ms() -> int:
        """Asked before each item."""
        if thread := next(asked, None):
            thread.start()
            thread.join(0.5)  # time to get in between, if it can
        return 15_000

    ask(3, remaining_ms)
    other.join()
    assert seen == {3: [1, 2, 3], 2: [1, 2]}
    model.close()


def test_models_beside_the_first_are_opened_when_they_are_asked_for(tmp_path: Path) -> None:
    first = abi_library.build(tmp_path, abi_library.picture_description())
    abi_library.build(tmp_path / "product", abi_library.tensor_description())
    abi_library.build(tmp_path / "old", abi_library.tensor_description(), abi=9)
    (tmp_path / "notes").mkdir()
    models = Models(str(first))
    assert (list(models), len(models)) == (["brightness", "old", "product"], 3)
    assert models["brightness"] is models.first
    assert models["product"] is models["product"]
    assert models["product"].description.name == "product"
    with pytest.raises(StartupError):
        models["old"]
    with pytest.raises(KeyError):
        models["notes"]


def test_no_time_for_the_next_image(tmp_path: Path) -> None:
    """What is done is the answer to who takes a part of it, and refused to others."""
    model = Model(str(abi_library.build(tmp_path, abi_library.picture_description())))
    server, left = Server({"brightness": model}, RequestLimits()), iter([15_000, 15_000, 15_000])
    call = Invocation("r", False, lambda: next(left, 201), lambda result: None, lambda error: make_refusal(error, "r"))
    small, large = (File(hostile_images.png(size), "it") for size in ((8, 8), (2_000, 2_000)))
    request = Request((small, large), {}, "brightness", partial=True)
    assert len(server.run_inference(request, call).batches) == 1
    left = iter([15_000, 15_000, 15_000])
    with pytest.raises(OutOfTimeError):
        server.run_inference(request._replace(partial=False), call)
    left = iter([15_000])
    with pytest.raises(OutOfTimeError):
        server.run_inference(request._replace(images=(large,)), call)


def test_a_closed_model_says_so(tmp_path: Path) -> None:
    model = Model(str(abi_library.build(tmp_path, abi_library.picture_description())))
    model.close()
    model.close()
    with pytest.raises(InferenceError, match="closed"):
        model.run([bytes(64)])


def test_a_model_that_is_warm_begins_as_one_that_was_just_opened(tmp_path: Path) -> None:
    """It counts its runs since the last reset: those of the warm-up are none of a caller's."""
    model = Model(str(abi_library.build(tmp_path, abi_library.counter_description())))
    model.warm_up()
    assert [model.run([bytes(4)])[0][0] for _ in range(2)] == [1, 2]


def test_no_library_names_the_layer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLDFORGE_LIBRARY", str(tmp_path / "libmodel.so"))
    with pytest.raises(StartupError, match="add the model layer"):
        open_models()
    monkeypatch.delenv("COLDFORGE_LIBRARY")
    with pytest.raises(StartupError, match=DEFAULT_LIBRARY):
        open_models()


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "libmodel.so"
    path.write_bytes(b"not ELF")
    with pytest.raises(StartupError, match="cannot be loaded"):
        Model(str(path))


def test_a_library_that_is_no_model(tmp_path: Path) -> None:
    import _cffi_backend

    with pytest.raises(StartupError, match="cannot be loaded"):
        Model(_cffi_backend.__file__)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"abi": 2}, "ABI version 2"),
        ({"open_status": 1}, "no AVX2.*run the function on the architecture"),
        ({"open_status": 2}, "more memory"),
        ({"open_status": 4}, "build the bundle again"),
    ],
)
def test_a_library_that_cannot_be_opened(tmp_path: Path, options: dict[str, int], message: str) -> None:
    library = abi_library.build(tmp_path, abi_library.picture_description(), **options)
    with pytest.raises(StartupError, match=message) as caught:
        Model(str(library))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps(abi_library.picture_description() | {"image": {"feed": "image"}}),
        json.dumps(abi_library.picture_description() | {"batch": 2}),
        json.dumps(abi_library.picture_description() | {"outputs": [{"name": "x", "fetch": "y", "kind": "raw"}]}),
        json.dumps(abi_library.picture_description()).replace('"bytes": 8', '"bytes": 9'),
        json.dumps(abi_library.picture_description()).replace("float32", "bfloat16"),
    ],
)
def test_a_description_of_another_kind(text: str) -> None:
    with pytest.raises(StartupError, match="same version"):
        parse_description(text)
