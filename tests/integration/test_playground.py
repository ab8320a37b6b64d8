"""The playground in a real browser: pictures chosen, pasted and dropped, tensors as JSON, errors, two schemes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.conftest import ROOT
from tests.support import abi_library
from tests.support.browser import chromium
from tests.support.http import Client, served

FACE = ROOT / "tests" / "data" / "face.jpg"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("playground")
    client = Client.of(folder, abi_library.picture_description(), abi_library.tensor_description())
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


def test_a_picture_becomes_bars_and_times(page: Any, dark_picture: Path) -> None:
    assert shown(page, "#title").text == "brightness"
    send(page, dark_picture)
    assert rows(page) == ["dark 80.0 %", "light 20.0 %"]
    bars = page.find_elements(By.CSS_SELECTOR, ".bar")
    WebDriverWait(page, 5).until(lambda d: [b.get_attribute("style") for b in bars] == ["width: 80%;", "width: 20%;"])
    assert page.find_element(By.ID, "preview").is_displayed()
    times = [e.text for e in page.find_elements(By.CSS_SELECTOR, "#timings dt")]
    assert times == ["Decode", "Inference", "Function", "Round trip"]
    assert page.find_element(By.ID, "results").get_attribute("aria-busy") == "false"


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_a_picture_may_be_pasted_or_dropped(page: Any, dark_picture: Path, way: str) -> None:
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


def test_an_error_is_said_and_the_next_picture_works(page: Any, tmp_path: Path, dark_picture: Path) -> None:
    wrong = tmp_path / "wrong.png"
    wrong.write_bytes(b"hello")
    send(page, wrong)
    assert "not an image in a format that is taken here" in shown(page, "#error").text
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
    assert shown(page, "#answer pre").text == "[2,4,6]"
    assert page.find_element(By.CSS_SELECTOR, "#answer h2").text == "product, item 1"


def test_the_keyboard_reaches_everything(page: Any) -> None:
    reached = []
    for _ in range(3):
        ActionChains(page).send_keys(Keys.TAB).perform()
        focused = page.switch_to.active_element
        reached.append(focused.get_attribute("id") or focused.tag_name)
        assert focused.accessible_name
    assert reached == ["models", "file", "a"]


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

    with bundle_served(emotion, COLDFORGE_PLAYGROUND="on") as url:
        browser.get(url)
        send(browser, FACE)
        assert rows(browser)[0].startswith("happy 99.")
