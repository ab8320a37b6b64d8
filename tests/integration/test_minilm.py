"""The example minilm with its trained weights, in Lambda's emulator: OpenAI's client, the commands of docs/text.md, and
the page. The shortest of its five lengths alone: each takes a quarter of a minute to build.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from builder.config import read_spec
from builder.measure.local import http_server, run_event
from builder.package.bundle import Bundle
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.workspace import Workspace
from tests.conftest import ROOT, checkout_lock
from tests.integration.test_openai_client import asked
from tests.support import pages
from tests.support.browser import chromium
from tests.support.models import empty_project

pytestmark = [pytest.mark.integration, pytest.mark.network]

LIKE = ("A dog barks.", "The hound is barking loudly.")
UNLIKE = "Quarterly revenue rose by four percent."


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    with checkout_lock():
        subprocess.run(["make", "build/minilm/model.keras"], cwd=ROOT, capture_output=True, check=True)
    folder = tmp_path_factory.mktemp("minilm")
    text = (ROOT / "examples" / "minilm" / "model.toml").read_text(encoding="utf-8")
    text = text.replace("../../build/minilm", str(ROOT / "build" / "minilm"))
    text, changed = re.subn(r"shapes = \[\[1, 16\], .*\[1, 256\]\]", "shape = [1, 16]", text)
    assert changed == 2
    (folder / "model.toml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(folder, patch)
        return build_bundle(Workspace.from_spec(read_spec(folder / "model.toml"), project)).bundle


@pytest.fixture(scope="module")
def url(minilm: Bundle) -> Iterator[str]:
    with (
        run_event.prepare_emulator(minilm.layer, environment={"COLDFORGE_PLAYGROUND": "on"}) as running,
        http_server.serve_function(running.invoke) as address,
    ):
        yield address


def test_openais_client_gets_embeddings_that_mean_something(url: str) -> None:
    texts = [*LIKE, UNLIKE, "word " * 100]
    exact, usual, short = asked(
        url,
        {"input": texts, "model": "minilm", "encoding_format": "float"},
        {"input": texts, "model": "minilm"},  # in base64, which the client decodes
        {"input": texts[0], "model": "minilm", "dimensions": 64},
    )
    vectors = np.array(exact["vectors"])
    assert vectors.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(usual["vectors"], vectors, atol=1e-7)
    assert exact["tokens"] == 7 + 8 + 9 + 16  # with [CLS] and [SEP]; the last is cut off
    alike, unlike = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert alike > 0.7 > 0.2 > unlike
    part = vectors[0][:64] / np.linalg.norm(vectors[0][:64])
    np.testing.assert_allclose(short["vectors"], [part], atol=1e-6)


def test_the_search_of_the_tutorial(url: str) -> None:
    page = (ROOT / "docs" / "hugging-face.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (question,) = re.findall(r'`python search.py "(.*?)"`', page)
    command = [sys.executable, "-c", script.replace(pages.ADDRESS, url), question]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "library" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("command", pages.served_commands("docs/text.md"))
def test_curl_as_documented(url: str, command: str) -> None:
    answer = pages.ask(command, url)
    (found,) = [answer[key] for key in ("predictions", "outputs", "data") if key in answer]
    assert found


@pytest.mark.parametrize(("command", "documented"), pages.answers("docs/text.md"))
def test_answers_as_documented(url: str, command: str, documented: str) -> None:
    pages.assert_alike(pages.ask(command, url), json.loads(documented))


def test_the_page_says_how_alike_two_texts_are(url: str) -> None:
    (found,) = asked(url, {"input": list(LIKE), "model": "minilm", "encoding_format": "float"})
    cosine = np.dot(*found["vectors"])

    def send(page: Any, text: str, told: str) -> None:
        box = page.find_element(By.ID, "json")
        box.clear()
        box.send_keys(text)
        page.find_element(By.CSS_SELECTOR, "#tensors button").click()
        WebDriverWait(page, 20).until(lambda driver: told in driver.find_element(By.ID, "answer").text)

    with chromium() as page:
        page.get(url)
        send(page, LIKE[0], "Send another to compare the two.")
        send(page, LIKE[1], f"(cosine)\n{cosine:.3f}")
        assert page.get_log("browser") == []
