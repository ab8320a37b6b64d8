"""The function as Lambda imports and calls it, in this process: the emulator's tests go further, and slower."""

from __future__ import annotations

import ast
import base64
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from handler.model import Model
from tests.support import abi_library, measured

REPOSITORY = Path(__file__).parents[2]
FACE = base64.b64encode((REPOSITORY / "tests/data/face.jpg").read_bytes()).decode()
CONTEXT = SimpleNamespace(
    function_name="f",
    memory_limit_in_mb="128",
    invoked_function_arn="arn:aws:lambda:us-east-1:1:function:f",
    aws_request_id="request-1",
    get_remaining_time_in_millis=lambda: 15_000,
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return abi_library.build(tmp_path_factory.mktemp("app"), abi_library.picture_description(batch=2))


@pytest.fixture
def app(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A freshly started function."""
    monkeypatch.setenv("COLDFORGE_LIBRARY", str(library))
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "f")
    sys.modules.pop("handler.app", None)
    yield importlib.import_module("handler.app")
    sys.modules.pop("handler.app", None)


def started(*, library: str, code: str = "", sent: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """``import handler.app`` in a process of its own with ``more`` in its environment, then ``code``."""
    environment = {
        "PATH": os.environ["PATH"],
        "COLDFORGE_LIBRARY": library,
        "PYTHONPATH": str(REPOSITORY),
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "POWERTOOLS_LOGGER_LOG_EVENT": "true",
        **measured.environment(),
        **more,
    }
    command = [sys.executable, "-c", f"import sys; before = set(sys.modules); import handler.app\n{code}"]
    return subprocess.run(command, env=environment, cwd="/", input=sent, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("start", "loaded"),
    [("on-demand", {"Jpeg"}), ("provisioned-concurrency", {"Jpeg", "Png"}), ("snap-start", {"Jpeg", "Png"})],
)
def test_the_usual_image_alone_is_prepared_for_when_somebody_waits(library: Path, start: str, loaded: set[str]) -> None:
    code = "print([m for m in sys.modules if m.endswith('ImagePlugin')])"
    done = started(library=str(library), code=code, AWS_LAMBDA_INITIALIZATION_TYPE=start)
    assert done.returncode == 0, done.stderr
    assert set(ast.literal_eval(done.stdout)) == {f"PIL.{name}ImagePlugin" for name in loaded}


@pytest.mark.parametrize(("start", "runs"), [("on-demand", 0), ("snap-start", 1)])
def test_a_snapshot_is_taken_of_a_model_that_has_run(
    library: Path, monkeypatch: pytest.MonkeyPatch, start: str, runs: int
) -> None:
    seen: list[int] = []
    run = Model.run
    monkeypatch.setattr(Model, "run", lambda self, feeds, *more: (seen.append(len(feeds)), run(self, feeds, *more))[1])
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", start)
    monkeypatch.setenv("COLDFORGE_LIBRARY", str(library))
    sys.modules.pop("handler.app", None)
    restored = importlib.import_module("handler.app")
    sys.modules.pop("handler.app", None)
    assert len(seen) == runs
    assert restored.lambda_handler({"image": FACE}, CONTEXT)["cold_start"] is True


def test_a_start_that_fails_otherwise_is_logged_and_ends(library: Path) -> None:
    done = started(library=str(library), AWS_LAMBDA_FUNCTION_MEMORY_SIZE="much")
    (line,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (1, "")
    assert (line["level"], line["message"]) == ("CRITICAL", "the model cannot be opened")
    assert "ValueError" in line["exception"]


def test_a_start_without_a_model_is_one_line_in_the_log(tmp_path: Path) -> None:
    done = started(library=str(tmp_path / "libmodel.so"))
    assert done.returncode == 1
    (line,) = (done.stdout + done.stderr).splitlines()
    assert json.loads(line)["level"] == "CRITICAL"
    assert "add the model layer" in json.loads(line)["message"]


def test_an_image_is_answered(app: ModuleType) -> None:
    answer = app.lambda_handler({"image": FACE}, CONTEXT)
    assert answer["model"] == {"name": "brightness", "version": "7"}
    (prediction,) = answer["predictions"]
    assert {c["label"] for c in prediction["tone"]} == {"light", "dark"}
    assert sum(c["probability"] for c in prediction["tone"]) == pytest.approx(1)
    assert set(answer["timings_ms"]) == {"decode", "infer", "total"}
    json.dumps(answer, allow_nan=False)


def test_only_the_first_request_is_a_cold_start(app: ModuleType) -> None:
    assert [app.lambda_handler({"image": FACE}, CONTEXT)["cold_start"] for _ in range(3)] == [True, False, False]


def test_a_bad_request_is_an_answer_and_the_next_one_works(app: ModuleType) -> None:
    good = app.lambda_handler({"image": FACE}, CONTEXT)["predictions"]
    for event, code in (
        ({"image": "@"}, "not_base64"),
        ({"picture": FACE}, "wrong_field"),
        (None, "wrong_type"),
        ({"image": FACE[: len(FACE) // 8 * 4]}, "truncated_image"),
    ):
        assert app.lambda_handler(event, CONTEXT)["error"]["code"] == code
        assert app.lambda_handler({"image": FACE}, CONTEXT)["predictions"] == good


def test_several_images_keep_their_order(app: ModuleType) -> None:
    levels = [3, 200, 90]
    answer = app.lambda_handler({"images": [flat(v) for v in levels]}, CONTEXT)
    assert [p["level"] for p in answer["predictions"]] == [[v] for v in levels]


def flat(level: int) -> str:
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.new("L", (8, 8), level).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


SERVE = """
import json, os, types
context = types.SimpleNamespace(function_name="f", memory_limit_in_mb="128", invoked_function_arn="arn",
                                aws_request_id="request-1", get_remaining_time_in_millis=lambda: 15_000)
for line in sys.stdin:
    sys.stderr.write(json.dumps(handler.app.lambda_handler(json.loads(line), context)) + "\\n")
"""


def served(library: Path, *events: object) -> tuple[list[dict[str, Any]], str]:
    """The answers and all that was logged, from a process of its own."""
    done = started(library=str(library), code=SERVE, sent="".join(json.dumps(event) + "\n" for event in events))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()], done.stdout


def test_an_unexpected_failure_tells_the_caller_nothing(library: Path) -> None:
    answers, log = served(library, {"image": flat(abi_library.POISON)}, {"image": flat(1)})
    assert answers[0]["error"]["code"] == "internal"
    assert "request-1" in answers[0]["error"]["message"]
    assert "kernel" not in json.dumps(answers[0])
    assert any("the kernel fell over" in json.loads(line).get("exception", "") for line in log.splitlines())
    assert "predictions" in answers[1]


def test_errors_are_counted_and_no_image_is_logged(library: Path) -> None:
    poison = flat(abi_library.POISON)
    _, log = served(library, {"image": FACE}, {"image": FACE[:400]}, {"image": poison}, {FACE: 1})
    lines = [json.loads(line) for line in log.splitlines()]
    of_models = [line for line in lines if "ModelVersion" in line]
    assert [line["Code"] for line in of_models if "Error" in line] == ["truncated_image", "internal", "wrong_field"]
    assert [line["ColdStart"] for line in lines if "ColdStart" in line] == [[1.0]]
    assert FACE[:100] not in log
    assert poison[:60] not in log


@pytest.mark.parametrize("as_base64", [False, True])
def test_the_function_url_takes_the_same(app: ModuleType, as_base64: bool) -> None:
    event = json.loads((REPOSITORY / "events" / "function_url.json").read_text())

    def post(text: str) -> dict[str, Any]:
        body = base64.b64encode(text.encode()).decode() if as_base64 else text
        answer: dict[str, Any] = app.lambda_handler(event | {"body": body, "isBase64Encoded": as_base64}, CONTEXT)
        return answer | {"body": json.loads(answer["body"])}

    good = post(json.dumps({"image": FACE}))
    assert (good["statusCode"], good["headers"]["content-type"]) == (200, "application/json")
    assert good["body"]["predictions"]
    for text, status, code in (
        ("not JSON", 400, "not_json"),
        ("", 400, "not_json"),
        ("[" * 100_000, 400, "not_json"),
        (json.dumps({"image": "@"}), 400, "not_base64"),
        (json.dumps({"image": base64.b64encode(b"hello").decode()}), 415, "not_an_image"),
        (json.dumps({"image": flat(abi_library.POISON)}), 500, "internal"),
    ):
        answer = post(text)
        assert (answer["statusCode"], answer["body"]["error"]["code"]) == (status, code)
