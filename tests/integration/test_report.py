"""``coldforge report``: what is in the page, and the page in a real browser, light, dark and narrow."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from builder.base.cache import file_digest
from builder.base.errors import UsageError
from builder.base.project import Project
from builder.cli import main
from builder.cli.command import load_named_spec
from builder.importers.graph import FrozenGraph
from builder.measure.html_report.document import report_page
from builder.measure.weight_accuracy import read_last_accuracy
from builder.package.bundle import Bundle
from builder.pipeline.workspace import Workspace
from builder.release.bundle_check import check_bundle
from tests.conftest import ROOT
from tests.support.axe import violations
from tests.support.browser import chromium

pytestmark = [pytest.mark.integration, pytest.mark.network]

HOSTILE = "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def page(digits: Bundle) -> Path:
    """The report of digits, made by the command; beside the bundle."""
    assert main(["report", "digits", "--seconds", "0.3", "--starts", "1"]) == 0
    return digits.folder / "report.html"


@pytest.fixture(scope="module")
def data(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    content: dict[str, Any] = json.loads(found[1])
    return content


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(width=1200, height=1000) as driver:
        yield driver


def opened(driver: Any, path: Path) -> Any:
    driver.get(path.as_uri())
    assert driver.get_log("browser") == []  # nothing fails, and the policy blocks nothing
    return driver


def test_the_page_is_one_small_file_beside_the_bundle(page: Path, digits: Bundle) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text) < 2_000_000
    assert not re.search(r'(src|href)="', text)
    assert (
        check_bundle(digits.folder).beside[-1:] == ("report.html",)
        or "report.html" in check_bundle(digits.folder).beside
    )


def test_the_figures_are_those_of_the_bundle(data: dict[str, Any], digits: Bundle) -> None:
    manifest = json.loads(digits.manifest.read_text())
    assert data["model"] == manifest["model"]
    leaves = [leaf["bytes"] for part in data["sizes"]["children"] for leaf in part["children"]]
    assert sum(leaves) == data["sizes"]["bytes"] == manifest["sizes"]["unzipped"]
    assert min(leaves) > 0
    packages = next(part for part in data["sizes"]["children"] if part["name"] == "dependencies")
    assert {"PIL", "aws_lambda_powertools"} <= {leaf["name"] for leaf in packages["children"]}
    assert len(data["program"]["steps"]) == manifest["lowering"]["steps"]
    (histogram,) = data["agreement"]["histograms"]
    (output,) = data["agreement"]["outputs"]
    assert histogram["worst"] == pytest.approx(output["max_absolute"])
    assert histogram["exact"] + sum(n for _, _, n in histogram["bars"]) == histogram["numbers"] == output["elements"]
    assert [stage["name"] for stage in data["stages"]][:4] == ["source", "import", "compile", "lower"]
    assert "/" not in data["stages"][0]["what"]  # no path of this machine
    if data["accuracy"]:  # where another test, or a person, measured it in this checkout
        assert data["accuracy"]["graph"] == file_digest(ROOT / "build" / "digits" / "import" / "graph.pb")
    for row in data["cost"]["rows"]:
        assert row["billed"] >= row["ms"] > 0
        assert row["dollars"] > data["cost"]["million_requests"]


def test_no_two_values_share_memory_at_once(data: dict[str, Any]) -> None:
    arena, lives = data["memory"]["arena"], data["memory"]["lives"]
    assert len(lives) > 3
    for number, (offset, size, first, last, *_) in enumerate(lives):
        assert 0 <= offset <= offset + size <= arena
        for other, length, begin, end, *_ in lives[:number]:
            if first < end and begin < last:  # one step may read what it writes over
                assert offset + size <= other or other + length <= offset
    edges = data["program"]["edges"]
    steps = data["memory"]["steps"]
    assert all(-1 <= start < end <= steps for start, end in edges)
    assert {end for _, end in edges} == set(range(steps + 1))  # nothing hangs in the air


def test_everything_is_drawn(browser: Any, page: Path, data: dict[str, Any]) -> None:
    opened(browser, page)
    assert browser.title == "digits 1"
    rows = browser.find_elements(By.CSS_SELECTOR, "#steps tbody tr")
    assert len(rows) == len(data["program"]["steps"])
    for place in ("roof", "graph", "start", "sizes", "memory", "histogram-0", "cost", "build"):
        drawn = browser.find_element(By.CSS_SELECTOR, f"#{place} svg")
        assert drawn.get_attribute("aria-label")
        assert len(drawn.find_elements(By.CSS_SELECTOR, "rect, circle")) > 1
    nodes = browser.find_elements(By.CSS_SELECTOR, "#graph .node")
    assert len(nodes) == data["memory"]["steps"] + 2
    assert "dense_1" in browser.find_element(By.ID, "graph").get_attribute("textContent")
    assert [c.text for c in browser.find_elements(By.CSS_SELECTOR, "#graph .chip + text")][:3] == [
        "direct",
        "bias",
        "relu",
    ]


def test_the_table_sorts_by_the_keyboard(browser: Any, page: Path) -> None:
    opened(browser, page)

    def first() -> str:
        return browser.find_element(By.CSS_SELECTOR, "#steps tbody td:nth-child(2)").text

    head = browser.find_element(By.CSS_SELECTOR, "#steps th[aria-sort]")
    assert (head.text, head.get_attribute("aria-sort"), first()) == ("Time", "descending", "dense_1")
    number = browser.find_element(By.CSS_SELECTOR, "#steps th button")
    number.send_keys(Keys.ENTER)
    numbers = [int(cell.text) for cell in browser.find_elements(By.CSS_SELECTOR, "#steps tbody td:first-child")]
    assert numbers == sorted(numbers, reverse=True)
    number.send_keys(Keys.ENTER)
    assert browser.find_element(By.CSS_SELECTOR, "#steps th").get_attribute("aria-sort") == "ascending"
    assert browser.find_element(By.CSS_SELECTOR, "#steps tbody td").text == "1"


def test_the_graph_moves_by_keys_and_buttons(browser: Any, page: Path) -> None:
    opened(browser, page)
    place = browser.find_element(By.ID, "graph")

    def view() -> list[float]:
        return [float(n) for n in place.find_element(By.TAG_NAME, "svg").get_dom_attribute("viewBox").split()]

    before = view()
    browser.execute_script("arguments[0].focus()", place)
    ActionChains(browser).send_keys(Keys.ARROW_DOWN).perform()
    moved = view()
    assert moved[1] > before[1]
    ActionChains(browser).send_keys("+").perform()
    assert view()[2] < moved[2]
    for button in browser.find_elements(By.CSS_SELECTOR, "#graph-tools button"):
        button.click()
    assert view() == before  # the last one is for the start


@pytest.mark.parametrize(("dark", "width"), [(False, 1200), (True, 390)])
def test_accessible_in_either_scheme_and_on_a_phone(page: Path, dark: bool, width: int) -> None:
    with chromium(dark=dark, width=1200) as driver:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        opened(driver, page)
        assert violations(driver) == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == dark


def test_no_name_of_a_model_becomes_markup(browser: Any, data: dict[str, Any], tmp_path: Path) -> None:
    hostile = copy.deepcopy(data)
    hostile["model"] |= {"name": HOSTILE, "version": HOSTILE}
    hostile["cpu"] = HOSTILE
    for step in hostile["program"]["steps"]:
        step |= {"step": HOSTILE, "layer": HOSTILE, "kind": HOSTILE, "algorithm": HOSTILE, "matched": [HOSTILE]}
    for group in hostile["sizes"]["children"]:
        for leaf in group["children"]:
            leaf["name"] = HOSTILE
    for port in (*hostile["feeds"], *hostile["fetches"]):
        port |= {"name": HOSTILE, "dtype": HOSTILE}
    for found in hostile["agreement"]["histograms"]:
        found["fetch"] = HOSTILE
        for case in found["cases"]:
            case["case"] = HOSTILE
    hostile["stages"][0]["name"] = HOSTILE
    path = tmp_path / "hostile.html"
    path.write_text(report_page(hostile), encoding="utf-8")
    opened(browser, path)
    assert browser.title == f"{HOSTILE} {HOSTILE}"
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 2
    assert "onerror" in browser.find_element(By.ID, "steps").text  # it is there, as text


def test_a_loop_takes_as_long_as_the_steps_in_it(browser: Any, data: dict[str, Any], tmp_path: Path) -> None:
    looped = copy.deepcopy(data)
    steps = looped["program"]["steps"]
    inner = steps[0] | {"depth": 1, "step": "inner", "microseconds": 1e6}
    looped["program"]["steps"] = [steps[0], inner, *steps[1:]]
    path = tmp_path / "looped.html"
    path.write_text(report_page(looped), encoding="utf-8")
    opened(browser, path)
    nodes = [n.get_attribute("class") for n in browser.find_elements(By.CSS_SELECTOR, "#graph .node:not(.port)")]
    assert nodes == ["node heat-4"] + ["node heat-0"] * (len(steps) - 1)
    assert "1 step inside" in browser.find_element(By.ID, "graph").get_attribute("textContent")
    assert browser.find_element(By.CSS_SELECTOR, "#steps tbody td:nth-child(2)").text == "· inner"


def test_the_policy_keeps_foreign_scripts_out(browser: Any, page: Path, tmp_path: Path) -> None:
    path = tmp_path / "changed.html"
    path.write_text(page.read_text().replace("</body>", "<script>document.title = 'hacked'</script></body>"))
    browser.get(path.as_uri())
    assert browser.title == "digits 1"
    assert "Content Security Policy" in browser.get_log("browser")[0]["message"]


def test_without_the_function_and_with_the_accuracy(browser: Any, data: dict[str, Any], tmp_path: Path) -> None:
    other = copy.deepcopy(data)
    other |= {"cost": None, "stages": None}
    other["bench"]["function"] = None
    output = {"output": "digit", "top1": 1.0, "top5": 1.0, "worst": 0.01, "mean": 0.001, "right": 0.97}
    kind = {
        "type": "int8",
        "activations": "float32",
        "library": 400_000,
        "accuracy": {"golden inputs": {"outputs": [output]}},
    }
    other["accuracy"] = {"items": {"golden inputs": 8}, "types": [kind]}
    path = tmp_path / "other.html"
    path.write_text(report_page(other), encoding="utf-8")
    opened(browser, path)
    row = browser.find_element(By.CSS_SELECTOR, "#types tbody tr").text
    assert row == "int8 400 kB digit 100.00 % 1.0e-2 1.0e-3 97.00 %"
    for place in ("start", "cost", "build"):
        assert "not" in browser.find_element(By.ID, f"{place}-about").text


def test_accuracy_of_another_graph_is_not_shown(tmp_path: Path) -> None:
    project = Project(tmp_path)
    ws = Workspace.from_spec(load_named_spec("digits", Project.in_current_folder()), project)
    graph = FrozenGraph(tmp_path, (), (), {}, ())
    assert read_last_accuracy(ws, graph) is None
    graph.graph_path.write_bytes(b"one")
    ws.build.mkdir(parents=True)
    (ws.build / "accuracy.json").write_text(json.dumps({"graph": file_digest(graph.graph_path), "types": []}))
    found = read_last_accuracy(ws, graph)
    assert found is not None
    assert found["types"] == []
    graph.graph_path.write_bytes(b"other")
    assert read_last_accuracy(ws, graph) is None


def test_without_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml = tmp_path / "model.toml"
    toml.write_text('[model]\nname = "unbuilt"\nsource = "x.keras"\n')
    assert main(["report", str(toml)]) == UsageError.exit_code
    assert "there is no bundle of unbuilt" in capsys.readouterr().err
