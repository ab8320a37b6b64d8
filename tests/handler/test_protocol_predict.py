"""Our own protocol over HTTP, forms and files included, and what all protocols share: CORS, methods, headers."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from urllib3 import encode_multipart_formdata
from urllib3.fields import RequestField

from handler.budget import RequestLimits
from handler.errors import HandlerError, WrongFieldError, WrongTypeError
from handler.protocols.multipart import parse_form
from tests.conftest import ROOT
from tests.support import abi_library
from tests.support.http import Client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    folder = tmp_path_factory.mktemp("predict")
    pictures, tensors = abi_library.picture_description(batch=2), abi_library.tensor_description()
    return Client.of(folder, pictures, tensors, limits=RequestLimits(images=4))


def flat(level: int, form: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), level).save(buffer, form)
    return buffer.getvalue()


def text(level: int) -> str:
    return base64.b64encode(flat(level)).decode()


def form(*files: bytes, boundary: str = "xYz") -> tuple[bytes, dict[str, str]]:
    fields = [("image", (f"{n}.png", data, "image/png")) for n, data in enumerate(files)]
    body, content_type = encode_multipart_formdata(fields, boundary)
    return body, {"content-type": content_type}


def levels(answer: dict[str, Any]) -> list[float]:
    return [prediction["level"][0] for prediction in answer["predictions"]]


@pytest.mark.parametrize("media", ["image/png", "image/jpeg", "IMAGE/*", "application/octet-stream; x=y"])
def test_an_image_as_it_is(client: Client, media: str) -> None:
    response = client.send("POST", "/predict", flat(200), {"content-type": media})
    assert response.status == 200
    assert levels(json.loads(response.body)) == [200]


@pytest.mark.parametrize("sent", [[3], [3, 200, 90]])
def test_a_form_of_files(client: Client, sent: list[int]) -> None:
    body, headers = form(*map(flat, sent))
    response = client.send("POST", "/predict", body, headers)
    assert response.status == 200
    assert levels(json.loads(response.body)) == sent


@pytest.mark.parametrize("path", ["/predict", "/"])
@pytest.mark.parametrize("media", ["", "application/json", "Application/JSON; charset=utf-8"])
def test_json(client: Client, path: str, media: str) -> None:
    headers = {"content-type": media} if media else {}
    response = client.send("POST", path, json.dumps({"images": [text(1), text(2)]}).encode(), headers)
    assert levels(json.loads(response.body)) == [1, 2]


def test_top_k_and_model(client: Client) -> None:
    _, answer = client.post("/predict", {"image": text(255)}, top_k="1", model="brightness")
    assert answer["predictions"][0]["tone"] == [{"label": "light", "probability": 1}]
    assert answer["predictions"][0]["level"] == [255]
    tensors = {"inputs": {"a": [1, 2, 3, 4, 5, 6], "n": [1, 1]}}
    status, answer = client.post("/predict", tensors, model="product", top_k="3")
    assert (status, answer["model"]["name"]) == (200, "product")
    assert client.post("/predict", tensors, model="none")[0] == 404
    # JSON Schema, in which the function describes itself, counts 1.0 among the integers.
    _, answer = client.post("/predict", {"image": text(255), "top_k": 1.0})
    assert answer["predictions"][0]["tone"] == [{"label": "light", "probability": 1}]
    wrong_in_json: list[Any] = [0.0, 1.5, 1e300, True, None]
    for wrong in wrong_in_json:
        status, answer = client.post("/predict", {"image": text(1), "top_k": wrong})
        assert (status, answer["error"]["code"]) == (400, "wrong_field")
    for wrong in ("0", "-1", "x", "", "1.5", "²", "9" * 400):
        status, answer = client.post("/predict", {"image": text(1)}, top_k=wrong)
        assert (status, answer["error"]["code"]) == (400, "wrong_field")


@pytest.mark.parametrize(
    ("body", "media", "status", "code"),
    [
        (flat(1), "text/plain", 415, "wrong_media_type"),
        (b"a=b", "application/x-www-form-urlencoded", 415, "wrong_media_type"),
        (b"", "image/png", 400, "wrong_field"),
        (b"hello", "image/png", 415, "not_an_image"),
        (flat(1, "JPEG")[:-60], "image/jpeg", 422, "truncated_image"),
        (form()[0], "multipart/form-data; boundary=xYz", 400, "wrong_field"),
        (form(flat(1), b"")[0], "multipart/form-data; boundary=xYz", 400, "wrong_field"),
        (form(*[flat(1)] * 5)[0], "multipart/form-data; boundary=xYz", 413, "too_many_images"),
        (form(flat(1), b"hello")[0], "multipart/form-data; boundary=xYz", 415, "not_an_image"),
        (form(flat(1))[0], "multipart/form-data", 400, "wrong_type"),
        (form(flat(1))[0], "multipart/form-data; boundary=other", 400, "wrong_type"),
        (form(flat(1))[0][:-4], "multipart/form-data; boundary=xYz", 400, "wrong_type"),
        (form(flat(1))[0].replace(b'name="image"', b""), "multipart/form-data; boundary=xYz", 400, "wrong_type"),
        (form(flat(1))[0].replace(b"form-data", b"inline"), "multipart/form-data; boundary=xYz", 400, "wrong_type"),
        (form(flat(1))[0].replace(b"Content-Type: image/png", b"Content-Transfer-Encoding: base64"),
         "multipart/form-data; boundary=xYz", 400, "wrong_type"),
    ],
)  # fmt: skip
def test_what_is_not_taken(client: Client, body: bytes, media: str, status: int, code: str) -> None:
    response = client.send("POST", "/predict", body, {"content-type": media})
    answer = json.loads(response.body)
    assert (response.status, answer["error"]["code"]) == (status, code), answer
    assert client.post("/predict", {"image": text(1)})[0] == 200


def test_the_file_at_fault_is_named_by_its_field(client: Client) -> None:
    body, headers = form(flat(1), b"hello")
    answer = json.loads(client.send("POST", "/predict", body, headers).body)
    assert answer["error"]["message"].startswith('file 2 ("image") is not an image')


def test_a_model_without_images_takes_json_only(client: Client) -> None:
    response = client.send("POST", "/predict", flat(1), {"content-type": "image/png"}, model="product")
    assert response.status == 415
    assert "application/json only" in json.loads(response.body)["error"]["message"]


def test_a_model_of_images_and_tensors(tmp_path: Path) -> None:
    """A file alone is not all that it takes, and a list of them has no tensors of as many items."""
    both = abi_library.picture_description()
    both["feeds"].append({"name": "k", "dtype": "float32", "shape": [1], "bytes": 4})
    client = Client.of(tmp_path, both)
    for body, headers in (form(flat(1)), (flat(1), {"content-type": "image/png"})):
        answer = json.loads(client.send("POST", "/predict", body, headers).body)
        assert "takes tensors beside the image; send JSON with both" in answer["error"]["message"]
    status, answer = client.post("/predict", {"images": [text(1)] * 2, "inputs": {"k": [1]}})
    assert (status, answer["error"]["code"]) == (413, "too_many_images")
    assert client.post("/predict", {"images": [text(1)], "inputs": {"k": [1]}})[0] == 200


def test_a_compressed_body_is_refused_by_every_protocol(client: Client) -> None:
    for path in ("/predict", "/v2/models/product/infer", "/v1/models/product:predict"):
        response = client.send("POST", path, b"\x1f\x8b", {"content-encoding": "gzip"})
        assert response.status == 415


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/predict", 405, "POST"),
        ("PUT", "/", 405, "POST"),
        ("GET", "/", 405, "POST"),
        ("OPTIONS", "/predict", 405, "POST"),
        ("POST", "/openapi.json", 405, "GET"),
        ("GET", "/openapi.json/", 404, None),
        ("GET", "/nothing", 404, None),
        ("POST", "", 404, None),
        ("GET", "//", 404, None),
        ("GET", "/v20", 404, None),
    ],
)
def test_other_paths_and_methods(client: Client, method: str, path: str, status: int, allow: str | None) -> None:
    response = client.send(method, path)
    assert (response.status, response.headers.get("allow")) == (status, allow)
    assert set(json.loads(response.body)["error"]) == {"code", "message"}


def test_head_is_get_without_a_body(client: Client) -> None:
    response = client.send("HEAD", "/v2/health/live")
    assert (response.status, response.body, response.headers["content-type"]) == (200, b"", "application/json")


@pytest.mark.parametrize(("method", "path"), [("GET", "/v2"), ("GET", "/nothing"), ("POST", "/predict")])
def test_every_response_has_the_headers_that_browsers_heed(client: Client, method: str, path: str) -> None:
    headers = client.send(method, path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["cache-control"] == "no-store"


PREFLIGHT = {"origin": "https://a.example", "access-control-request-method": "POST"}


def test_no_other_origin_is_let_in_unless_configured(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLDFORGE_CORS_ORIGINS", raising=False)
    assert client.send("OPTIONS", "/predict", b"", PREFLIGHT).status == 405
    response = client.send("GET", "/v2", b"", PREFLIGHT)
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("configured", "origin", "allowed"),
    [
        ("https://a.example", "https://a.example", "https://a.example"),
        ("https://b.example, https://a.example/", "https://a.example", "https://a.example"),
        ("https://a.example", "https://a.example.evil", None),
        ("https://a.example", "http://a.example", None),
        ("https://a.example", "null", None),
        ("https://a.example", None, None),
        ("*", "https://c.example", "*"),
    ],
)
def test_cors(
    client: Client, monkeypatch: pytest.MonkeyPatch, configured: str, origin: str | None, allowed: str | None
) -> None:
    monkeypatch.setenv("COLDFORGE_CORS_ORIGINS", configured)
    headers = {"origin": origin} if origin else {}
    for response in (
        client.send("GET", "/v2", b"", headers),
        client.send("GET", "/nothing", b"", headers),
        client.send("OPTIONS", "/predict", b"", headers | {"access-control-request-method": "POST"}),
    ):
        assert response.headers.get("access-control-allow-origin") == allowed
        assert ("origin" in response.headers.get("vary", "")) == (configured != "*")
    assert response.status == 204
    assert ("content-type" in response.headers.get("access-control-allow-headers", "")) == (allowed is not None)


def test_a_function_url_says_it_itself(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_CORS_ORIGINS", "*")
    headers = {"origin": "https://a.example", "host": "abc.lambda-url.us-east-1.on.aws"}
    assert "access-control-allow-origin" not in client.send("GET", "/v2", b"", headers).headers


@pytest.mark.parametrize("switch", ["", "off", "0"])
def test_no_playground_unless_it_is_on(client: Client, monkeypatch: pytest.MonkeyPatch, switch: str) -> None:
    monkeypatch.setenv("COLDFORGE_PLAYGROUND", switch)
    assert client.send("GET", "/").status == 405


def test_the_playground_holds_no_text_that_ends_its_script(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_PLAYGROUND", "on")
    response = client.send("GET", "/")
    page = response.body.decode()
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "'unsafe" not in response.headers["content-security-policy"]
    models = json.loads(page.partition('id="server">')[2].partition("</script>")[0])
    assert [model["name"] for model in models] == ["brightness", "product"]
    assert not [word for word in ("http://", "https://", "src=", "@import", "url(") if word in page]


FILES = st.lists(
    st.binary(max_size=60) | st.sampled_from([b"\r\n", b"--", b"\r\n--", b"\r\n--b", b"\r\n\r\n", b"--b--\r\n"]),
    max_size=6,
).map(b"".join)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
BOUNDARY = "boundary'()+_,-./:=?"


@settings(max_examples=300)
@given(fields=st.lists(st.tuples(NAMES, st.none() | NAMES, FILES), max_size=5))
def test_forms_are_read_as_they_were_written(fields: list[tuple[str, str | None, bytes]]) -> None:
    """As urllib3 writes them, which does it as browsers do."""
    made = []
    for name, filename, data in fields:
        field = RequestField(name, data, filename)
        field.make_multipart()
        made.append(field)
    body, _ = encode_multipart_formdata(made, BOUNDARY)
    found = parse_form(f'multipart/form-data; boundary="{BOUNDARY}"', body)
    assert [part.data for part in found] == [data for _, _, data in fields]
    assert [part.name for part in found] == [name.replace('"', "%22") for name, _, _ in fields]


@given(st.binary(max_size=200), st.sampled_from(["b", "a b", "", 'x"', "--"]))
@settings(max_examples=300)
def test_a_form_of_anything_is_a_form_or_refused(noise: bytes, boundary: str) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="'
    for body in (noise, b"--b" + noise, b"--b\r\n" + noise + b"\r\n--b--", head + noise):
        with suppress(WrongTypeError, WrongFieldError):
            assert all(
                type(part.data) is bytes for part in parse_form(f"multipart/form-data; boundary={boundary}", body)
            )


def test_preamble_epilogue_and_padding() -> None:
    head = b"--b \t\r\nX: y\r\ncontent-disposition: form-data; filename=a; name=x\r\n\r\n"
    (part,) = parse_form("multipart/form-data; boundary=b", b"hello\r\n" + head + b"1\r\n--b--\r\nbye\r\n--b")
    assert (part.name, part.data) == ("x", b"1")


def test_a_form_of_too_many_parts() -> None:
    with pytest.raises(HandlerError, match="more than 256"):
        parse_form(
            "multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n' * 300
        )


def test_a_protocol_is_imported_with_its_first_request() -> None:
    code = "import sys, handler.events; print(sorted(m for m in sys.modules if m.startswith('handler.protocols.')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['handler.protocols.predict']", done.stderr
