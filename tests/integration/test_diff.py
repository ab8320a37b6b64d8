"""``coldforge diff`` on a real bundle and on one that was changed by hand, as text, JSON and a page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import BundleError, UsageError
from builder.cli import main
from builder.measure.diff.bundle_difference import BundleFacts, compare_facts
from builder.measure.diff.diff_markdown import format_difference
from builder.measure.html_report.document import diff_page
from builder.package.bundle import Bundle
from tests.support.results import printed

pytestmark = pytest.mark.integration

HOSTILE = "x|y`<img src=x onerror=alert(1)>[a](javascript:1)\u202e\n| z"


def changed(bundle: Bundle, folder: Path, edit: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """A copy of ``bundle`` whose manifest and bill went through ``edit``."""
    shutil.copytree(bundle.folder, folder)
    manifest, bill = (json.loads(path.read_text()) for path in (bundle.manifest, bundle.sbom))
    edit(manifest, bill)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "sbom.cdx.json").write_text(json.dumps(bill))
    return folder


def edit(manifest: dict[str, Any], bill: dict[str, Any]) -> None:
    lowering = manifest["lowering"]
    lowering["fused_steps"][0]["algorithm"] = "winograd2"
    lowering["weights"]["layers"][1]["layer"] = HOSTILE
    manifest["files"]["layer/lib/libmodel.so"]["sha256"] = "0" * 64
    manifest["sizes"]["components"][0]["zipped"] += 1000
    manifest["verification"]["outputs"][0]["max_absolute"] *= 2
    packages = [c for c in bill["components"] if "licenses" in c]
    packages[0]["version"] = "9.9.9"
    packages[1]["licenses"] = [{"expression": "GPL-3.0-only"}]
    bill["components"].remove(packages[2])


@pytest.fixture(scope="module")
def other(digits: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return changed(digits, tmp_path_factory.mktemp("diff") / "other", edit)


def test_a_bundle_and_itself(digits: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "digits", str(digits.folder)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("### digits 1, x86_64 → digits 1, x86_64\n")
    assert "libmodel.so is the same, byte for byte." in text
    assert "**Steps**" not in text
    assert "**Packages**" not in text
    rows = [line for line in text.splitlines() if line.startswith("|") and "same" in line]
    assert len(rows) == 1 + 3  # the whole size, and the three errors of one output


def test_what_was_changed_is_said(digits: Bundle, other: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "digits", str(other), "--json"]) == 0
    found = printed("diff", capsys.readouterr().out)
    assert found["same_library"] is False
    before, after = BundleFacts.from_folder(digits.folder), BundleFacts.from_folder(other)
    names = [*before.steps]
    steps = {change["what"]: change for change in found["steps"]}
    assert set(steps) == {names[0], names[1], HOSTILE}
    assert (" direct," in steps[names[0]]["before"], " winograd2," in steps[names[0]]["after"]) == (True, True)
    assert (steps[names[1]]["after"], steps[HOSTILE]["before"]) == (None, None)
    assert found["same_steps"] == 0
    sizes = {figure["what"]: figure for figure in found["sizes"]}
    assert sizes["function and layers, zipped"]["after"] == sizes["function and layers, zipped"]["before"] + 1000
    assert sum(sizes[f"libmodel.so: {part}"]["before"] for part in ("code", "constants", "tables")) == (
        digits.library.stat().st_size
    )
    worst = next(figure for figure in found["errors"] if figure["what"] == "digit, worst absolute")
    assert worst["after"] == 2 * worst["before"] > 0
    packages = found["packages"]
    assert [p["what"] for p in packages] == [*before.packages][:3]
    assert packages[0]["after"].startswith("9.9.9, ")
    assert packages[1]["after"].endswith(", GPL-3.0-only")
    assert packages[2]["after"] is None
    assert [*after.packages.values()][1].endswith(", GPL-3.0-only")


def test_a_hostile_name_is_a_cell_of_text(digits: Bundle, other: Path) -> None:
    found = compare_facts(BundleFacts.from_folder(digits.folder), BundleFacts.from_folder(other))
    text = format_difference(found)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    (line,) = (line for line in tables if "onerror" in line)
    assert line.count("|") - line.count("\\|") == 4  # the borders of three cells
    assert not any(mark in text for mark in ("<img", "\u202e", "[a]("))
    page = diff_page(found)
    assert "<img" not in page
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")  # nothing is loaded from anywhere


def test_speed_is_measured_in_turns(digits: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again"
    shutil.copytree(digits.folder, again)
    html = tmp_path / "page.html"
    command = ["diff", str(digits.folder), str(again), "--time", "--seconds", "0.2", "--html", str(html), "--json"]
    assert main(command) == 0
    speed = printed("diff", capsys.readouterr().out)["speed"]
    assert speed["before"]["runs"] == speed["after"]["runs"] >= 20
    assert 0 < speed["low"] <= speed["ratio"] <= speed["high"]
    assert "Speed on " in html.read_text()


def test_what_is_no_bundle(digits: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "digits", str(tmp_path / "nowhere")]) == UsageError.exit_code
    (tmp_path / "manifest.json").write_text("{}")
    assert main(["diff", "digits", str(tmp_path)]) == UsageError.exit_code
    broken = changed(digits, tmp_path / "broken", lambda manifest, _: manifest.pop("lowering"))
    assert main(["diff", "digits", str(broken)]) == BundleError.exit_code
    joined = {"models": [], "sizes": {"components": [], "max_unzipped": 1, "max_zipped": 1}}
    (tmp_path / "manifest.json").write_text(json.dumps(joined))
    assert main(["diff", "digits", str(tmp_path)]) == UsageError.exit_code
    assert "is a bundle of several models" in capsys.readouterr().err
