"""Clients that others wrote: tritonclient, curl, and a browser's fetch from another origin."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from PIL import Image

from builder.measure.local import http_server, run_event
from builder.measure.local.request_check import AllowedOrigins
from builder.package.bundle import Bundle
from tests.conftest import ROOT
from tests.support import abi_library, local_server, pages
from tests.support.browser import chromium
from tests.support.http import Client, served
from tests.support.process import stop

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]

FACE = ROOT / "tests" / "data" / "face.jpg"
DOCS = ROOT / "docs" / "protocols.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """An empty page of another origin, and its folder."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "index.html").write_text("<!doctype html><title>elsewhere</title>")
    with local_server.serve(partial(local_server.Files, directory=folder)) as port:
        yield f"http://127.0.0.1:{port}", folder


@contextmanager
def bundle_served(bundle: Bundle, *origins: str) -> Iterator[str]:
    """Serve a bundle as `coldforge serve --cors ORIGINS` does."""
    environment = {"COLDFORGE_CORS_ORIGINS": ",".join(origins), "COLDFORGE_PLAYGROUND": "on"}
    with (
        run_event.prepare_emulator(ROOT / "dist" / bundle.folder.name / "layer", environment=environment) as running,
        http_server.serve_function(running.invoke, allowed=AllowedOrigins(origins=origins)) as url,
    ):
        yield url


@pytest.fixture(scope="module")
def emotion_url(emotion: Bundle, page: tuple[str, Path]) -> Iterator[str]:
    """The emotion bundle in Lambda's emulator, open to the page's origin and to that of docs/protocols.md."""
    with bundle_served(emotion, page[0], "https://example.com") as url:
        yield url


@pytest.fixture
def client(emotion_url: str) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(emotion_url.removeprefix("http://")) as connected:
        yield connected


def as_picture(data: bytes) -> triton.InferInput:
    sent = triton.InferInput("input_1", [1], "BYTES")
    sent.set_data_from_numpy(np.array([data], dtype=object))
    return sent


def test_triton_about_the_server(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("emotion")
    assert client.is_model_ready("emotion", "1")
    assert not client.is_model_ready("emotion", "2")
    assert not client.is_model_ready("none")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data", "classification"]
    about = client.get_model_metadata("emotion", "1")
    assert about["inputs"] == [{"name": "input_1", "datatype": "UINT8", "shape": [-1, 64, 64, 1]}]
    assert about["outputs"] == [{"name": "predictions", "datatype": "FP32", "shape": [-1, 7]}]


@pytest.mark.parametrize("binary", [False, True])
def test_triton_with_images_and_with_their_pixels(client: triton.InferenceServerClient, binary: bool) -> None:
    """Three pictures through a model of batch 1: three runs. The same pixels give the same answers."""
    names = ["face.jpg", "astronaut.jpg", "coffee.jpg"]
    files = [(ROOT / "tests" / "data" / name).read_bytes() for name in names]
    data = files if binary else [base64.b64encode(file) for file in files]
    sent = triton.InferInput("input_1", [3, 1], "BYTES")
    sent.set_data_from_numpy(np.array(data, dtype=object).reshape(3, 1), binary_data=binary)
    wanted = triton.InferRequestedOutput("predictions", binary_data=binary)
    result = client.infer("emotion", [sent], outputs=[wanted], request_id="r1")
    probabilities = result.as_numpy("predictions")
    assert result.get_response()["id"] == "r1"
    assert probabilities.shape == (3, 7)
    assert probabilities[0].argmax() == 3
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert len({tuple(row) for row in probabilities.tolist()}) == 3
    with Image.open(FACE) as face:
        pixels = np.asarray(face.convert("L").resize((64, 64), Image.Resampling.BILINEAR))
    sent = triton.InferInput("input_1", [2, 64, 64, 1], "UINT8")
    sent.set_data_from_numpy(np.stack([pixels, 255 - pixels])[..., None], binary_data=binary)
    again = client.infer("emotion", [sent]).as_numpy("predictions")
    # The two Pillows may decode a JPEG's pixels one level apart.
    np.testing.assert_allclose(again[0], probabilities[0], atol=0.01)
    assert abs(again[1] - again[0]).max() > 0.05


def test_triton_with_classification(client: triton.InferenceServerClient) -> None:
    wanted = triton.InferRequestedOutput("predictions", class_count=2)
    result = client.infer("emotion", [as_picture(FACE.read_bytes())], outputs=[wanted])
    best, second = result.as_numpy("predictions")[0]
    assert re.fullmatch(rb"0\.99\d{4}:3:happy", best)
    assert second.endswith(b":6:neutral")


@pytest.mark.parametrize(
    ("sent", "says"),
    [(as_picture(b"hello"), "is not an image"), (triton.InferInput("x", [1], "BYTES"), '"inputs" must be "input_1"')],
)
def test_triton_reads_our_errors(client: triton.InferenceServerClient, sent: triton.InferInput, says: str) -> None:
    if sent.name() == "x":
        sent.set_data_from_numpy(np.array([b"a"], dtype=object))
    with pytest.raises(triton.InferenceServerException, match=says):
        client.infer("emotion", [sent])
    assert client.infer("emotion", [as_picture(FACE.read_bytes())]).as_numpy("predictions").argmax() == 3


def test_triton_with_digits(digits: Bundle) -> None:
    """The answers of ten rows are those of each row alone, whichever way they travel."""
    with bundle_served(digits) as url, triton.InferenceServerClient(url.removeprefix("http://")) as client:
        about = client.get_model_metadata("digits")
        (feed,) = about["inputs"]
        pixels = np.random.default_rng(0).integers(0, 256, (10, *feed["shape"][1:]), np.uint8)

        def answers(rows: Any, binary: bool) -> Any:
            sent = triton.InferInput(feed["name"], list(rows.shape), feed["datatype"])
            sent.set_data_from_numpy(rows, binary_data=binary)
            wanted = triton.InferRequestedOutput(about["outputs"][0]["name"], binary_data=binary)
            return client.infer("digits", [sent], outputs=[wanted]).as_numpy(about["outputs"][0]["name"])

        whole = answers(pixels, True)
        assert whole.shape == (10, 10)
        np.testing.assert_array_equal(whole, answers(pixels, False))
        np.testing.assert_array_equal(whole, np.concatenate([answers(row[None], True) for row in pixels]))


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("items", [1, 2, 5])
def test_triton_with_every_dtype(tmp_path: Path, items: int, binary: bool) -> None:
    random = np.random.default_rng(items)
    sent, given = [], {}
    for dtype in abi_library.DTYPES:
        kind = np.dtype(dtype)
        if kind.kind == "f":
            values = random.standard_normal((items, 2)).astype(kind)
        elif kind.kind == "b":
            values = random.integers(0, 2, (items, 2)).astype(bool)
        else:
            limits = np.iinfo(kind)
            values = random.integers(limits.min, limits.max, (items, 2), kind, endpoint=True)
        given[dtype] = values
        tensor = triton.InferInput(f"in_{dtype}", [items, 2], triton.np_to_triton_dtype(kind))
        tensor.set_data_from_numpy(values, binary_data=binary)
        sent.append(tensor)
    wanted = [triton.InferRequestedOutput(f"out_{dtype}", binary_data=binary) for dtype in given]
    with (
        served(Client.of(tmp_path, abi_library.echo_description())) as url,
        triton.InferenceServerClient(url.removeprefix("http://")) as client,
    ):
        result = client.infer("echo", sent, outputs=wanted)
        for dtype, values in given.items():
            back = result.as_numpy(f"out_{dtype}")
            assert back.dtype == values.dtype
            np.testing.assert_array_equal(back, values)


COMMANDS = pages.served_commands("docs/protocols.md")


@pytest.mark.parametrize("command", COMMANDS)
def test_curl_as_documented(emotion_url: str, command: str) -> None:
    """Every command of docs/protocols.md succeeds, and those that send the face find it happy."""
    answer = pages.ask(command, emotion_url)
    if "face.jpg" in command and "Origin" not in command:
        assert happy(answer), answer


ANSWERS = pages.answers("docs/protocols.md")


@pytest.mark.parametrize(("command", "documented"), ANSWERS)
def test_answers_as_documented(emotion_url: str, command: str, documented: str) -> None:
    """To the digits that every processor gives."""
    pages.assert_alike(pages.ask(command, emotion_url), json.loads(documented))


def test_the_python_of_the_page(emotion_url: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL) if "triton" in block)
    monkeypatch.chdir(ROOT)
    exec(code.replace("127.0.0.1:8080", emotion_url.removeprefix("http://")), {})
    assert "9.98" in capsys.readouterr().out


def test_a_preflight_without_origins_is_refused(emotion: Bundle) -> None:
    """As docs/protocols.md says of `make serve` without CORS=."""
    (command,) = [command for command in COMMANDS if "OPTIONS" in command]
    with bundle_served(emotion) as url:
        line = command.replace("http://127.0.0.1:8080", url).replace("curl ", "curl -s -o /dev/null -w '%{http_code}' ")
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout == "403"


def happy(answer: dict[str, Any]) -> bool:
    """Whether the face's answer is, in whichever protocol's shape."""
    if "outputs" in answer:
        data = answer["outputs"][0]["data"]
        return bool(str(data[0]).endswith(":happy") or np.argmax(data[:7]) == 3)
    first = answer["predictions"][0]
    return bool(np.argmax(first) == 3 if isinstance(first, list) else first["emotion"][0]["label"] == "happy")


def test_there_is_a_command_for_each_protocol() -> None:
    assert len(ANSWERS) == 3
    for path in ("/predict", "/v2/models/emotion/infer", "/v1/models/emotion:predict", "/openapi.json"):
        assert any(path in command for command in COMMANDS), path


FETCH = """
const [url, type, done] = arguments;
fetch(url, {method: "POST", headers: {"content-type": type}, body: "{}"})
  .then(async (r) => done([r.status, await r.text()]), (e) => done([0, String(e)]));
"""


def test_fetch_from_another_origin(emotion_url: str, page: tuple[str, Path]) -> None:
    """JSON is asked for by a preflight first. The page is let in, but not under its other name."""
    infer = f"{emotion_url}/v2/models/emotion/infer"
    with chromium() as browser:
        browser.get(page[0])
        status, text = browser.execute_async_script(FETCH, infer, "application/json")
        assert (status, set(json.loads(text))) == (400, {"error"})
        browser.get(page[0].replace("127.0.0.1", "localhost"))
        status, text = browser.execute_async_script(FETCH, infer, "application/json")
        assert (status, "Failed to fetch" in text) == (0, True)


@contextmanager
def process_serving(*command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a command that serves emotion; yield its process, which ends with the block, and the URL that it prints."""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()[0]
        finally:
            stop(process)


def test_make_serve(emotion: Bundle) -> None:
    with process_serving("make", "--silent", "serve", "MODEL=emotion", "PORT=0") as (process, url):
        ready = ["curl", "-sf", f"{url}/v2/health/ready"]
        done = subprocess.run(ready, capture_output=True, text=True, check=False)
        assert json.loads(done.stdout) == {"ready": True}
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
        _, log = process.communicate(timeout=20)
    assert "Traceback" not in log
    assert "GET /v2/health/ready 200" in log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("main", [True, False], ids=["main", "other"])
def test_serve_ends_whichever_thread_receives_the_signal(emotion: Bundle, number: int, main: bool) -> None:
    command = [sys.executable, "-m", "builder.cli", "serve", "emotion", "--port", "0"]
    with process_serving(*command) as (process, url):
        assert url.startswith("http://127.0.0.1:")
        threads = sorted(int(task.name) for task in Path("/proc", str(process.pid), "task").iterdir())
        assert len(threads) > 1
        os.kill(threads[0 if main else -1], number)
        _, log = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in log
