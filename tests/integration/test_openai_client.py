"""OpenAI's own client asks the function for embeddings, in Lambda's emulator."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from builder.measure.local import http_server, run_event
from tests.conftest import ROOT
from tests.support import abi_library, needs, vocabulary
from tests.support.vocabulary import ids

pytestmark = pytest.mark.integration

PYTHON = ROOT / ".venv-openai" / "bin" / "python"
PROGRAM = """
import json, sys
import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
found = []
for request in json.load(sys.stdin):
    try:
        answer = client.embeddings.create(**request)
        vectors = [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]
        found.append({"vectors": vectors, "model": answer.model, "tokens": answer.usage.total_tokens})
    except openai.APIStatusError as error:
        found.append({"error": type(error).__name__, "code": error.code, "type": error.type, "says": error.message})
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The model whose embedding of a text are the ids of its tokens."""
    description = abi_library.text_description()
    vector = {"name": "vector", "fetch": "_ids", "kind": "embedding", "labels": [], "top_k": None, "format": "float32"}
    layer = abi_library.layer(tmp_path_factory.mktemp("bundle"), description | {"outputs": [vector]})
    vocabulary.write_prepared(layer / "lib")
    with run_event.prepare_emulator(layer) as running, http_server.serve_function(running.invoke) as address:
        yield address


def asked(url: str, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    if not PYTHON.is_file():
        needs.missing("there is no .venv-openai (make test-all makes it)")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OPENAI_BASE_URL")}
    command = [str(PYTHON), "-c", PROGRAM, url]
    done = subprocess.run(
        command, input=json.dumps(requests), env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_what_the_client_asks_for_is_what_it_gets(url: str) -> None:
    good, bad = ids("good", "film"), [*ids("bad"), 0]
    one, several, tokens, lists, exact, short = asked(
        url,
        {"input": "Good film", "model": "sized"},
        {"input": ["good film", "bad"], "model": "sized"},
        {"input": good, "model": "sized"},
        {"input": [good, ids("bad")], "model": "sized"},
        {"input": "good film", "model": "sized", "encoding_format": "float"},
        {"input": "good film", "model": "sized", "dimensions": 2, "encoding_format": "base64"},
    )
    assert one == {"vectors": [good], "model": "sized", "tokens": 4}
    assert several == {"vectors": [good, bad], "model": "sized", "tokens": 7}
    assert tokens["vectors"] == exact["vectors"] == [good]
    assert lists == several
    (text,) = short["vectors"]  # which the client decodes only where nobody asks for it
    assert array("f", base64.b64decode(text)).tolist() == good[:2]


def test_the_client_knows_the_errors(url: str) -> None:
    unknown, empty, large = asked(
        url,
        {"input": "a", "model": "text-embedding-3-small"},
        {"input": "", "model": "sized"},
        {"input": "a", "model": "sized", "dimensions": 4096},
    )
    assert (unknown["error"], unknown["code"]) == ("NotFoundError", "model_not_found")
    assert (empty["error"], empty["code"], empty["type"]) == ("BadRequestError", "wrong_field", "invalid_request_error")
    assert "at most 4" in large["says"]
