"""The playground in a real browser: pictures chosen, pasted and dropped, tensors as JSON, errors, two schemes."""

from __future__ import annotations

import ast
import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.conftest import ROOT
from tests.support import abi_library, sounds, vocabulary
from tests.support.axe import violations
from tests.support.browser import chromium
from tests.support.http import Client, served

FACE = ROOT / "tests" / "data" / "face.jpg"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("playground")
    descriptions = abi_library.picture_description(), abi_library.tensor_description(), abi_library.sound_description()
    vocabulary.write_prepared(folder / "sized")
    client = Client.of(folder, *descriptions, abi_library.text_description())
    with pytest.MonkeyPatch.context() as patch, served(client) as address:
        patch.setenv("COLDFORGE_PLAYGROUND", "on")
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """The page, freshly loaded; nothing may be blocked or fail in it."""
    browser.get(url)
    yield browser
    assert [line for line in browser.get_log("browser") if "status of 4" not in line["message"]] == []


def shown(page: Any, css: str) -> Any:
    """The first element of that kind with a text, once there is one."""
    return WebDriverWait(page, 10).until(
        lambda driver: next((found for found in driver.find_elements(By.CSS_SELECTOR, css) if found.text), None)
    )


def rows(page: Any) -> list[str]:
    shown(page, "#answer ol")
    return [row.text.replace("\n", " ") for row in page.find_elements(By.CSS_SELECTOR, "#answer ol li")]


def send(page: Any, path: Path) -> None:
    page.find_element(By.ID, "file").send_keys(str(path))


@pytest.fixture
def dark_picture(tmp_path: Path) -> Path:
    path = tmp_path / "dark.png"
    Image.new("L", (8, 8), 51).save(path)
    return path


def test_an_image_becomes_bars_and_times(page: Any, dark_picture: Path) -> None:
    assert shown(page, "#title").text == "brightness"
    send(page, dark_picture)
    assert rows(page) == ["dark 80.0 %", "light 20.0 %"]
    bars = page.find_elements(By.CSS_SELECTOR, ".bar")
    WebDriverWait(page, 5).until(lambda d: [b.get_attribute("style") for b in bars] == ["width: 80%;", "width: 20%;"])
    assert page.find_element(By.ID, "preview").is_displayed()
    times = [e.text for e in page.find_elements(By.CSS_SELECTOR, "#timings dt")]
    assert times == ["Decode", "Inference", "Function", "Round trip"]
    assert page.find_element(By.ID, "results").get_attribute("aria-busy") == "false"


def test_a_recording_becomes_its_windows(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "it.wav"
    path.write_bytes(sounds.wav("s16", np.full((10, 1), 0.5), 8_000))
    Select(page.find_element(By.ID, "models")).select_by_visible_text("echo")
    assert shown(page, "#verb").text == "Choose a recording"
    assert "8000" in shown(page, "#format").text
    send(page, path)
    shown(page, "#answer h2")
    heads = [head.text for head in page.find_elements(By.CSS_SELECTOR, "#answer h2")]
    assert heads == ["samples, 0 to 0.001 s", "samples, 0.0005 to 0.00125 s"]
    assert not page.find_element(By.ID, "preview").is_displayed()


def test_a_row_of_a_table_is_a_form(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_PLAYGROUND", "on")
    with served(Client.of(tmp_path, abi_library.table_description())) as address:
        browser.get(address)
        assert shown(browser, "#kind").text == "A row"
        labels = browser.find_elements(By.CSS_SELECTOR, "#fields label")
        assert [label.text.split("\n")[0] for label in labels] == ["age", "colour", "size"]
        colour = Select(browser.find_element(By.CSS_SELECTOR, "#fields select"))
        assert [option.text for option in colour.options] == ["", *abi_library.COLOURS]
        colour.select_by_visible_text("red")
        browser.find_element(By.CSS_SELECTOR, "#fields input").send_keys("2.5")
        assert not violations(browser)
        browser.find_element(By.CSS_SELECTOR, "#tensors button").click()
        shown(browser, "#answer h2")
        cells = [row.text.split()[-1] for row in browser.find_elements(By.CSS_SELECTOR, "#answer tbody tr")]
        assert cells == ["2.50000", "1", "–"]
        snippet = browser.find_element(By.ID, "snippet").get_attribute("textContent")
        assert '{"row":{"age":2.5,"colour":"red"}}' in snippet


def test_a_text_is_sent_as_it_is_written(page: Any) -> None:
    Select(page.find_element(By.ID, "models")).select_by_visible_text("sized")
    assert shown(page, "#kind").text == "A text"
    box = page.find_element(By.ID, "json")
    assert not box.get_attribute("value")
    box.send_keys('good film "')
    page.find_element(By.CSS_SELECTOR, "#tensors button").click()
    shown(page, "#answer h2")
    rows = [row.text.split()[-1] for row in page.find_elements(By.CSS_SELECTOR, "#answer tbody tr")]
    assert rows[:8] == [*map(str, vocabulary.ids("good", "film", "[UNK]")), "0", "0", "0"]
    assert not violations(page)


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_an_image_may_be_pasted_or_dropped(page: Any, dark_picture: Path, way: str) -> None:
    data = base64.b64encode(dark_picture.read_bytes()).decode()
    page.execute_script(
        """
        const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0)), transfer = new DataTransfer();
        transfer.items.add(new File([bytes], "x.png", {type: "image/png"}));
        document.getElementById("drop").dispatchEvent(arguments[1] === "drop"
          ? new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true})
          : new ClipboardEvent("paste", {clipboardData: transfer, bubbles: true, cancelable: true}));
        """,
        data,
        way,
    )
    assert rows(page) == ["dark 80.0 %", "light 20.0 %"]


def test_a_large_photograph_is_made_smaller_first(page: Any, tmp_path: Path) -> None:
    """Lambda would not take it as it is."""
    path = tmp_path / "large.bmp"
    Image.new("RGB", (1600, 1200), (51, 51, 51)).save(path)
    assert path.stat().st_size > 4_000_000
    send(page, path)
    assert rows(page)[0] == "dark 80.0 %"


def test_an_error_is_said_and_the_next_image_works(page: Any, tmp_path: Path, dark_picture: Path) -> None:
    wrong = tmp_path / "wrong.png"
    wrong.write_bytes(b"hello")
    send(page, wrong)
    assert "not an image in an accepted format" in shown(page, "#error").text
    assert page.find_element(By.ID, "error").get_attribute("role") == "alert"
    send(page, dark_picture)
    assert rows(page) == ["dark 80.0 %", "light 20.0 %"]
    assert not page.find_element(By.ID, "error").is_displayed()


def test_tensors_as_json(page: Any) -> None:
    Select(page.find_element(By.ID, "models")).select_by_visible_text("product")
    box = page.find_element(By.ID, "json")
    assert json.loads(box.get_attribute("value")) == {"inputs": {"a": [[0, 0, 0], [0, 0, 0]], "n": [0, 0]}}
    assert not page.find_element(By.ID, "drop").is_displayed()
    box.clear()
    box.send_keys(json.dumps({"inputs": {"a": [1, 2, 3, 4, 5, 6], "n": [2, -1]}}))
    box.send_keys(Keys.TAB, Keys.ENTER)
    shown(page, "#answer table")
    assert cells(page)[:3] == [["0", "2", ""], ["1", "4", ""], ["2", "6", ""]]
    bars = page.find_elements(By.CSS_SELECTOR, "#answer .bar")[:3]
    assert [bar.get_attribute("style") for bar in bars] == ["width: 33.3333%;", "width: 66.6667%;", "width: 100%;"]
    assert page.find_element(By.CSS_SELECTOR, "#answer .soft").text == "3 numbers; Euclidean norm 7.48331"
    assert page.find_element(By.CSS_SELECTOR, "#answer .large").text == "-3"
    assert page.find_element(By.CSS_SELECTOR, "#answer h2").text == "product, item 1"


def cells(page: Any) -> list[list[str]]:
    found: list[list[str]] = page.execute_script(
        "return [...document.querySelectorAll('#answer tbody tr')].map((r) => [...r.cells].map((c) => c.innerText))"
    )
    return found


def test_long_and_nested_numbers_are_tables(page: Any) -> None:
    page.execute_script(
        "show({predictions: [{embedding: Array.from({length: 1000}, (_, i) => i / 1000), "
        "boxes: [[1, 2.5, 3], [4, 5, 6]], deep: [[[1]]]}], timings_ms: {}}, 1)"
    )
    texts = [found.text for found in page.find_elements(By.CSS_SELECTOR, "#answer .soft")]
    assert texts == ["1000 numbers, of which the first 256 are here; Euclidean norm 18.2437", "2 × 3 numbers"]
    found = cells(page)
    assert len(found) == 256 + 2
    assert found[255] == ["255", "0.255000", ""]
    assert found[256:] == [["0", "1", "2.50000", "3"], ["1", "4", "5", "6"]]
    assert page.find_element(By.CSS_SELECTOR, "#answer pre").text == "[[[1]]]"


def test_an_image_from_the_camera(page: Any) -> None:
    """Chromium's own test pattern."""
    page.find_element(By.ID, "camera").click()
    WebDriverWait(page, 10).until(lambda d: d.find_element(By.ID, "take").is_displayed())
    page.find_element(By.ID, "take").click()
    assert len(rows(page)) == 2
    assert page.find_element(By.ID, "preview").is_displayed()
    assert not page.find_element(By.ID, "video").is_displayed()
    assert page.execute_script("return stream") is None  # the camera's light is off


@pytest.mark.parametrize("language", ["curl", "python"])
def test_the_same_request_in_a_program(page: Any, dark_picture: Path, language: str) -> None:
    """What the page says is run, and gives the answer that the page shows."""
    odd = dark_picture.with_name('it\'s "dark".png').resolve()
    shutil.copy(dark_picture, odd)
    send(page, odd)
    rows(page)
    assert answered(page, language, odd.parent)["predictions"][0]["tone"][0]["label"] == "dark"
    Select(page.find_element(By.ID, "models")).select_by_visible_text("product")
    assert not page.find_element(By.ID, "code").is_displayed()
    box = page.find_element(By.ID, "json")
    box.clear()
    box.send_keys(json.dumps({"inputs": {"a": [1, 2, 3, 4, 5, 6], "n": [2, -1]}}))
    page.find_element(By.CSS_SELECTOR, "#tensors button").click()
    shown(page, "#answer table")
    assert answered(page, language, odd.parent)["predictions"][0]["product"] == [2, 4, 6]


def answered(page: Any, language: str, folder: Path) -> Any:
    """The answer that the program on the page gets."""
    if page.find_element(By.ID, "code").get_attribute("open") is None:
        page.find_element(By.CSS_SELECTOR, "#code summary").click()
    page.find_element(By.CSS_SELECTOR, f"[data-language={language}]").click()
    text = page.find_element(By.ID, "snippet").text
    command = ["sh", "-c", text.replace("curl ", "curl -s ")] if language == "curl" else [sys.executable, "-c", text]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return json.loads(said) if language == "curl" else ast.literal_eval(said.replace("null", "None"))


@pytest.mark.network
def test_a_phone_shows_all_of_it(url: str, dark_picture: Path) -> None:
    with chromium(phone=True, dark=True) as phone:
        phone.get(url)
        send(phone, dark_picture)
        rows(phone)
        phone.find_element(By.CSS_SELECTOR, "#code summary").click()
        assert phone.execute_script("return document.documentElement.scrollWidth") == 390
        assert "drop it here" not in phone.find_element(By.ID, "drop").text
        small = phone.execute_script(
            "return [...document.querySelectorAll('button, select')]"
            ".filter((e) => e.offsetParent && e.offsetHeight < 36).map((e) => e.textContent)"
        )
        assert small == []
        assert violations(phone) == []


@pytest.mark.network
def test_axe_finds_nothing_wrong(page: Any, dark_picture: Path) -> None:
    assert violations(page) == []
    send(page, dark_picture)
    rows(page)
    page.find_element(By.CSS_SELECTOR, "#code summary").click()
    assert violations(page) == []
    Select(page.find_element(By.ID, "models")).select_by_visible_text("product")
    page.find_element(By.CSS_SELECTOR, "#tensors button").click()
    shown(page, "#answer table")
    assert violations(page) == []


def test_the_keyboard_reaches_everything(page: Any) -> None:
    reached = []
    for _ in range(4):
        ActionChains(page).send_keys(Keys.TAB).perform()
        focused = page.switch_to.active_element
        reached.append(focused.get_attribute("id") or focused.tag_name)
        assert focused.accessible_name
    assert reached == ["models", "file", "camera", "a"]


def test_it_looks_right_in_the_dark_too(browser: Any, url: str) -> None:
    """Ink on page and card, in either scheme, has at least the contrast that WCAG's AA wants."""
    script = """
        const numbers = (element, name) => getComputedStyle(element)[name].match(/[\\d.]+/g).map(Number);
        const [title, about] = ["title", "about"].map((id) => numbers(document.getElementById(id), "color"));
        return [title, about, numbers(document.body, "backgroundColor")];
    """
    pages = []
    with chromium(dark=True) as dark:
        for driver in (browser, dark):
            driver.get(url)
            title, about, ground = driver.execute_script(script)
            pages.append(luminance(ground))
            assert contrast(title, ground) > 7
            assert contrast(about, ground) > 4.5
    assert pages[0] > 0.8 > 0.1 > pages[1]


def luminance(colour: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour[:3])]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[float], other: list[float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.integration
def test_a_face_is_happy(browser: Any, emotion: Any) -> None:
    from tests.integration.test_clients import bundle_served

    with bundle_served(emotion) as url:
        browser.get(url)
        send(browser, FACE)
        assert rows(browser)[0].startswith("happy 99.")


def test_words_are_shown_with_their_labels(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    description = abi_library.text_description(lengths=(8,))
    description["fetches"][0] = abi_library._port("_ids", "float32", 2, 8, 2)  # the ids' bytes
    description["outputs"] = [
        {"name": "words", "fetch": "_ids", "kind": "tokens", "labels": ["some", "none"], "top_k": None}
    ]
    vocabulary.write_prepared(tmp_path / "sized")
    monkeypatch.setenv("COLDFORGE_PLAYGROUND", "on")
    with served(Client.of(tmp_path, description)) as address:
        browser.get(address)
        browser.find_element(By.ID, "json").send_keys("Good film!")
        browser.find_element(By.CSS_SELECTOR, "#tensors button").click()
        WebDriverWait(browser, 10).until(lambda driver: len(driver.find_elements(By.CSS_SELECTOR, "#answer li")) == 3)
        labels = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#answer .label")]
        assert labels == ["Good: some", "film: some", "!: some"]
        assert browser.get_log("browser") == []


def test_classes_are_laid_over_the_image_and_embeddings_compared(
    browser: Any, tmp_path: Path, dark_picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = abi_library.picture_description()
    description["fetches"][2]["shape"] = [1, 8, 8]
    of_kind = {"labels": [], "top_k": None}
    description["outputs"] = [
        {"name": "vector", "fetch": "light", "kind": "embedding", "format": "base64", **of_kind},
        {"name": "parts", "fetch": "pixels", "kind": "segmentation", "format": "png", **of_kind},
    ]
    monkeypatch.setenv("COLDFORGE_PLAYGROUND", "on")
    with served(Client.of(tmp_path, description)) as address:
        browser.get(address)
        send(browser, dark_picture)
        for told in ("Send another to compare the two.", "(cosine)\n1.000"):
            WebDriverWait(browser, 10).until(
                lambda driver, told=told: told in driver.find_element(By.ID, "answer").text
            )
            if told.startswith("Send"):
                send(browser, dark_picture)
        assert "51\n100.0 %" in browser.find_element(By.ID, "answer").text
        canvas = browser.find_element(By.CSS_SELECTOR, "#answer canvas")
        assert canvas.get_attribute("aria-label") == "The picture with its classes"
        pixel = "return [...arguments[0].getContext('2d').getImageData(4, 4, 1, 1).data]"
        # Grey 51, and three fifths of the colour that PASCAL VOC has for class 51.
        wanted = [round(0.4 * 51 + 0.6 * colour) for colour in (128, 192, 64)]
        WebDriverWait(browser, 10).until(
            lambda driver: np.abs(np.array(driver.execute_script(pixel, canvas)[:3]) - wanted).max() <= 2
        )
        assert browser.get_log("browser") == []
