"""The function in AWS's Runtime Interface Emulator, on Lambda's Python where there is one, with the built layers."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageOps

from builder.base.errors import AnswerError, EnvironmentSetupError, UsageError
from builder.base.lambda_python import LAMBDA_PYTHON, find_python
from builder.base.project import HOME, cache_folder
from builder.cli import main
from builder.measure.local import emulator_parts
from builder.measure.local.emulator import MAX_REQUEST, LambdaEmulator, ReloadingEmulator
from builder.measure.local.http_server import make_url_event as url_event
from builder.measure.local.run_event import (
    default_event,
    file_event,
    image_event,
    invoke_bundle,
    prepare_emulator,
    require_answer,
)
from builder.package.bundle import Bundle
from builder.package.lambda_limits import SizeTable
from tests.support import abi_library
from tests.support.results import printed

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.quick, pytest.mark.xdist_group("checkout")]

PHOTOS = HOME / "tests" / "data"
FACE = PHOTOS / "face.jpg"


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return abi_library.layer(tmp_path_factory.mktemp("bundle"), abi_library.picture_description(mode="rgb"))


@pytest.fixture(scope="module")
def running(layer: Path) -> Iterator[LambdaEmulator]:
    with prepare_emulator(layer) as started:
        yield started


def saved(picture: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()


def event(data: bytes) -> dict[str, str]:
    return {"image": base64.b64encode(data).decode()}


def rotated(picture: Image.Image) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(picture, "JPEG", exif=exif)


def pixels_seen(answer: dict[str, Any]) -> bytes:
    """What the model was given: the test model answers it back."""
    (prediction,) = answer["predictions"]
    return bytes(v for row in prediction["pixels"] for pixel in row for v in pixel)


def test_weights_that_are_elsewhere_are_found_beside_the_layer(layer: Path) -> None:
    assert "COLDFORGE_WEIGHTS" not in prepare_emulator(layer).environment
    apart = layer.parent / "brightness.weights"
    apart.touch()
    try:
        assert prepare_emulator(layer).environment["COLDFORGE_WEIGHTS"] == f"{layer.parent}/"
        given = prepare_emulator(layer, environment={"COLDFORGE_WEIGHTS": "/mnt/x"})
        assert given.environment["COLDFORGE_WEIGHTS"] == "/mnt/x"
    finally:
        apart.unlink()


def test_good_and_bad_requests_in_turn(running: LambdaEmulator) -> None:
    data = FACE.read_bytes()
    good = running.invoke(event(data))
    assert good["cold_start"] is True
    assert good["model"] == {"name": "brightness", "version": "7"}
    assert running.invoke({"image": "@@ not base64"})["error"]["code"] == "not_base64"
    again = running.invoke(event(data))
    assert (again["predictions"], again["cold_start"]) == (good["predictions"], False)
    assert running.invoke(event(data[: len(data) // 2]))["error"]["code"] == "truncated_image"
    assert running.invoke(event(data))["predictions"] == good["predictions"]
    assert running.init_ms > 0


def test_the_log_has_metrics_and_no_image(running: LambdaEmulator) -> None:
    running.invoke({"image": "@@"})
    lines = [json.loads(line) for line in running.log.splitlines() if line.startswith("{")]
    assert sum("ColdStart" in line for line in lines) == 1
    assert any(line.get("Error") == [1.0] and line["Code"] == "not_base64" for line in lines)
    assert base64.b64encode(FACE.read_bytes()).decode()[:100] not in running.log


@pytest.mark.parametrize(
    "form",
    [
        "JPEG",
        "PNG",
        "WEBP",
        "WEBP lossless",
        "GIF",
        "BMP",
        "grey",
        "palette",
        "alpha",
        "rotated",
        "CMYK",
        "16 bit",
        "1 bit",
    ],
)
def test_every_kind_of_image_decodes_with_the_trimmed_layer(running: LambdaEmulator, form: str) -> None:
    with Image.open(FACE) as photo:
        picture = photo.convert("RGB")
    data = {
        "JPEG": lambda: saved(picture, "JPEG"),
        "PNG": lambda: saved(picture, "PNG"),
        "WEBP": lambda: saved(picture, "WEBP"),
        "WEBP lossless": lambda: saved(picture, "WEBP", lossless=True),
        "GIF": lambda: saved(picture, "GIF"),
        "BMP": lambda: saved(picture, "BMP"),
        "grey": lambda: saved(picture.convert("L"), "JPEG"),
        "palette": lambda: saved(picture.quantize(64), "PNG"),
        "alpha": lambda: saved(white_cut(picture), "PNG"),
        "rotated": lambda: rotated(picture),
        "CMYK": lambda: saved(picture.convert("CMYK"), "JPEG"),
        "16 bit": lambda: saved(Image.new("I;16", (8, 8), 0x8000), "PNG"),
        "1 bit": lambda: saved(picture.convert("1"), "PNG"),
    }[form]()
    with Image.open(io.BytesIO(data)) as opened:
        reference = ImageOps.exif_transpose(opened)
        if form == "alpha":
            reference = Image.alpha_composite(Image.new("RGBA", reference.size, "white"), reference)
        elif form == "16 bit":
            reference = Image.new("L", reference.size, 0x80)
        expected = reference.convert("RGB").resize((8, 8), Image.Resampling.BILINEAR).tobytes()
    seen = pixels_seen(running.invoke(event(data)))
    # The Pillow here may have other decoder builds than the layer's.
    assert max(abs(a - b) for a, b in zip(seen, expected, strict=True)) <= 1


def white_cut(picture: Image.Image) -> Image.Image:
    """The picture with its left half transparent."""
    cut = picture.convert("RGBA")
    cut.paste((0, 0, 0, 0), (0, 0, picture.width // 2, picture.height))
    return cut


def test_invoke_gives_answer_and_times(layer: Path) -> None:
    result = invoke_bundle(layer, image_event(FACE))
    assert result.answer["cold_start"] is True
    assert result.init_ms > 0
    assert result.warm_ms > 0
    assert (result.note is None) == (result.python == LAMBDA_PYTHON)
    assert result.times.startswith("init ")


def test_another_python_runs_with_packages_of_its_own_and_says_so(layer: Path) -> None:
    if find_python(Path(sys.executable)).matches_lambda:
        pytest.skip("the tests run on Lambda's Python themselves")
    result = invoke_bundle(layer, image_event(FACE), Path(sys.executable))
    assert result.note is not None
    assert result.note.startswith(f"NOTE: this ran on Python {result.python}")
    assert result.answer["predictions"]


def test_a_model_without_images(tmp_path: Path) -> None:
    layer = abi_library.layer(tmp_path, abi_library.tensor_description())
    with prepare_emulator(layer) as running:
        answer = running.invoke({"inputs": {"a": [[1, 2, 3], [4, 5, 6]], "n": [2, -1]}})
        assert answer["predictions"] == [{"product": [2, 4, 6], "total": -3}, {"product": [-4, -5, -6], "total": -3}]
        assert running.invoke({"inputs": {"a": [1], "n": [2, 3]}})["error"]["code"] == "wrong_shape"


def test_a_failed_start_names_the_cause_to_the_operator_only(tmp_path: Path) -> None:
    layer = abi_library.layer(tmp_path, abi_library.picture_description(), open_status=1)
    with prepare_emulator(layer) as running:
        answer = running.invoke(image_event(FACE))
        assert answer["errorType"] == "Runtime.ExitError"
        assert "stackTrace" not in answer
        assert "AVX2" not in json.dumps(answer)
        assert "AVX2" in running.log
    with pytest.raises(EnvironmentSetupError, match=r"did not start: the model cannot be opened .*AVX2"):
        invoke_bundle(layer, image_event(FACE))


def test_no_process_is_left(layer: Path) -> None:
    with prepare_emulator(layer) as running:
        running.invoke(image_event(FACE))
        marker = f"COLDFORGE_LIBRARY={layer.resolve()}/lib/libmodel.so"
        assert len(with_environment(marker, running)) >= 2  # the emulator and the function's Python
        mine = running._folder.name if running._folder else ""
    assert not [pid for pid in processes() if mine and mine in environment_of(pid)]


def with_environment(marker: str, running: LambdaEmulator) -> list[int]:
    assert running._folder is not None
    return [p for p in processes() if marker in environment_of(p) and running._folder.name in environment_of(p)]


def processes() -> list[int]:
    return [int(p.name) for p in Path("/proc").glob("[0-9]*") if int(p.name) != os.getpid()]


def environment_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_too_large_a_request_is_refused_before_it_is_cut(running: LambdaEmulator) -> None:
    with pytest.raises(UsageError, match=r"6,291,556"):
        running.invoke(b"x" * (MAX_REQUEST + 1))


def test_a_missing_bundle_or_image_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make bundle"):
        prepare_emulator(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        image_event(tmp_path / "none.jpg")


def test_a_file_that_is_no_request_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        file_event(tmp_path / "none.json")
    (tmp_path / "request.json").write_text("{")
    with pytest.raises(UsageError, match=r"request\.json is not JSON"):
        file_event(tmp_path / "request.json")
    (tmp_path / "picture.jpg").write_bytes(FACE.read_bytes())
    with pytest.raises(UsageError, match=r"picture\.jpg is not JSON.*--image"):
        file_event(tmp_path / "picture.jpg")
    with pytest.raises(UsageError, match="make bundle"):
        default_event(tmp_path)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": {"code": "wrong_field", "message": '"a" is missing'}}, r"\"a\" is missing \(wrong_field\)"),
        ({"statusCode": 422, "body": "{}"}, "HTTP status 422"),
        ({"batchItemFailures": [{"itemIdentifier": "1"}]}, "1 of the messages"),
    ],
)
def test_an_answer_that_is_an_error_fails_the_command(answer: dict[str, Any], said: str) -> None:
    with pytest.raises(AnswerError, match=said):
        require_answer(answer)


@pytest.mark.parametrize(
    "answer", [{"predictions": []}, {"statusCode": 200}, {"batchItemFailures": []}, [], {"error": [0.5]}]
)
def test_other_answers_do_not(answer: Any) -> None:
    require_answer(answer)


def test_zeros_are_what_a_model_without_images_takes(tmp_path: Path) -> None:
    description = abi_library.tensor_description()
    (tmp_path / "model.json").write_text(json.dumps(description))
    answer = invoke_bundle(abi_library.layer(tmp_path, description), default_event(tmp_path)).answer
    assert answer["predictions"] == [{"product": [0, 0, 0], "total": 0}] * 2


def write_project(folder: Path) -> None:
    """Write a project with a bundle of the test library, so far as commands read it that run it."""
    (folder / "model.toml").write_text('[model]\nname = "tensors"\nsource = "tensors.keras"\n')
    description, bundle = abi_library.tensor_description(), folder / "dist" / "tensors"
    bundle.mkdir(parents=True)
    (bundle / "manifest.json").write_text(json.dumps({"sizes": SizeTable((), 1, 1).to_dict()}))
    (bundle / "model.json").write_text(json.dumps(description))
    assert abi_library.layer(bundle, description) == bundle / "layer"


def test_serve_says_where_it_listens(tmp_path: Path) -> None:
    write_project(tmp_path)
    command = [sys.executable, "-m", "builder.cli", "-C", str(tmp_path), "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=HOME, stdout=subprocess.PIPE) as serving:
        assert serving.stdout
        try:
            text = "".join(serving.stdout.readline().decode() for _ in range(3))
            with urllib.request.urlopen(f"{printed('serve', text)['url']}/openapi.json", timeout=30) as answer:
                assert answer.status == 200
        finally:
            serving.terminate()


def test_the_command_sends_zeros_or_the_request_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path)
    spec, request = tmp_path / "model.toml", tmp_path / "request.json"
    text = json.dumps({"inputs": {"a": [[1, 2, 3], [4, 5, 6]], "n": [2, -1]}})
    request.write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["invoke", str(spec)]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"][0]["total"] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    for given in (["--inputs", str(request)], ["--inputs", "-"], ["--payload", text]):
        assert main(["invoke", str(spec), *given]) == 0
        assert json.loads(capsys.readouterr().out)["predictions"][0]["product"] == [2, 4, 6]
    assert main(["invoke", str(spec), "--payload", text, "--json", "--quiet"]) == 0
    told = capsys.readouterr()
    assert printed("invoke", told.out)["answer"]["predictions"][0]["product"] == [2, 4, 6]
    assert told.err == ""
    assert main(["invoke", str(spec), "--payload", '{"inputs": {"a": 1}}']) == AnswerError.exit_code
    told = capsys.readouterr()
    assert json.loads(told.out)["error"]["code"] in told.err


def test_make_invoke_without_an_image_sends_the_tests_own(emotion: Bundle) -> None:
    command = ["make", "--silent", "invoke", "MODEL=emotion"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["predictions"][0]["emotion"][0]["label"] == "happy"


def test_make_invoke(emotion: Bundle) -> None:
    command = ["make", "--silent", "invoke", "MODEL=emotion", f"IMAGE={FACE}"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["model"]["name"] == "emotion"
    assert answer["predictions"][0]["emotion"][0]["label"] == "happy"
    assert done.stderr.splitlines()[-1].startswith("init ")


def test_the_dependencies_layer_is_whole_and_small(layer: Path) -> None:
    python = find_python()
    packages = (
        emulator_parts.build_dependencies(cache_folder() / "local", python, HOME / "layers" / "dependencies") / "python"
    )
    size = sum(p.stat().st_size for p in packages.rglob("*") if p.is_file())
    assert size < 6_000_000
    for gone in ("cffi", "pycparser", "numpy", "boto3", "PIL/_avif*", "aws_lambda_powertools/event_handler"):
        assert not list(packages.glob(gone))
    # Every module of Powertools that was left has all it imports.
    code = (
        "import importlib, pkgutil, sys; sys.path.insert(0, sys.argv[1]); import aws_lambda_powertools as p\n"
        "for m in pkgutil.walk_packages(p.__path__, p.__name__ + '.'):\n"
        "    if 'datadog' not in m.name: importlib.import_module(m.name)\n"
        "import io\n"
        "from PIL import Image\n"
        "for kind in ('JPEG', 'PNG', 'WEBP', 'GIF', 'BMP'):\n"
        "    file = io.BytesIO(); Image.new('RGB', (9, 7), 'red').save(file, kind)\n"
        "    with Image.open(file, formats=[kind]) as again: assert again.convert('RGB').size == (9, 7)"
    )
    done = subprocess.run([python.path, "-S", "-c", code, packages], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_bundle_that_was_built_again_is_served(tmp_path: Path) -> None:
    """Also after one that does not open; while there is none for a moment, the last one answers."""
    names = ["brightness", "product"]
    described = (abi_library.picture_description(), abi_library.tensor_description())
    layers = [abi_library.layer(tmp_path / name, one) for name, one in zip(names, described, strict=True)]
    served, told = tmp_path / "served", list[str]()
    library = served / "lib" / "libmodel.so"

    def build(source: Path) -> None:
        fresh = tmp_path / "fresh"
        shutil.copytree(source, fresh)
        shutil.rmtree(served, ignore_errors=True)
        fresh.rename(served)

    def status(function: ReloadingEmulator, name: str) -> Any:
        event = url_event("GET", f"/v2/models/{name}/ready", Message(), b"", "id")
        return function.invoke(event).get("statusCode")

    build(layers[0])
    with ReloadingEmulator(lambda: prepare_emulator(served), library, told.append) as function:
        assert [status(function, name) for name in [*names, names[0]]] == [200, 404, 200]
        assert told == []
        build(layers[1])
        assert [status(function, name) for name in names] == [404, 200]
        assert len(told) == 1
        aside = library.rename(tmp_path / "aside")
        assert status(function, "product") == 200
        aside.rename(library)
        assert status(function, "product") == 200
        assert len(told) == 1
        library.unlink()
        library.write_bytes(b"no library")
        assert status(function, "product") is None
        assert '"CRITICAL"' in told[-1]
        build(layers[0])
        assert [status(function, name) for name in names] == [200, 404]
    shutil.rmtree(served)
    with (
        pytest.raises(UsageError, match="libmodel"),
        ReloadingEmulator(lambda: prepare_emulator(served), library, told.append),
    ):
        pass
