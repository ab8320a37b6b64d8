"""Results of several machines: where each is kept, and that the published pages are made of them."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest

from benchmarks import machine, machines, report

FIRST, DOCS, OTHERS = machines.published()


@pytest.mark.parametrize("name", [machines.NAME, "benchmarks-batch16", "benchmarks-minilm"])
def test_a_page_is_what_was_measured(name: str) -> None:
    results = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
    written = report.page(results, True, OTHERS if name == machines.NAME else ())
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == written, (
        f"run `.venv-bench/bin/python -m benchmarks.report docs/{name}.json`"
    )
    assert (DOCS / f"{name}.svg").exists()


def test_results_go_to_the_file_of_their_machine(tmp_path: Path) -> None:
    assert machines.place(FIRST, tmp_path) == tmp_path / "benchmarks.json"  # nobody is there yet
    assert machines.place(FIRST) == DOCS / "benchmarks.json"
    other = deepcopy(FIRST)
    other["machine"]["family_model_stepping"] = ["6", "143", "8"]
    other["machine"]["processor"] = "Intel(R) Xeon(R) Processor"
    assert machines.place(other) == DOCS / "machines" / "intel-r-xeon-r-processor-sapphire-rapids-2-cpus.json"
    assert {machines.place(results) for results in OTHERS} == set((DOCS / "machines").glob("*.json"))


def test_a_processor_is_named_by_what_a_hypervisor_leaves() -> None:
    assert machine.name(FIRST["machine"]) == "AMD EPYC, Zen 3 (Milan)"
    assert machine.wide(FIRST["machine"]) == "AVX2"
    unknown = {"processor": "AMD EPYC", "family_model_stepping": ["99", "9", "9"], "instruction_sets": []}
    assert machine.name(unknown) == "AMD EPYC"
    assert machine.name(machine.describe())


def test_machines_stand_side_by_side() -> None:
    """A network that one of them has not measured is a dash there."""
    other = deepcopy(FIRST)
    del other["networks"]["emotion"]
    other["networks"]["lstm"]["latency"]["1"] |= {"ratio": 0.5, "ratio_p10": 0.4, "ratio_p90": 0.6}
    shown = machines.side_by_side([FIRST, other])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if line.startswith("| ")]
    first = {row[0]: row[1:] for row in reversed(rows)}  # of two tables, the one for one thread
    assert first["emotion"] == ["**1.16** (1.15–1.18) LiteRT", "–"]
    assert first["lstm"] == ["**1.31** (1.30–1.34) ONNX Runtime", "0.50 (0.40–0.60) ONNX Runtime"]


def test_a_page_has_the_spread_of_every_engine() -> None:
    rows = {row[0]: row[1:] for row in report.spread_rows(FIRST, "1")}
    found = FIRST["networks"]["resnet50"]["latency"]["1"]["engines"]["coldforge"]
    assert rows["resnet50"][0] == f"{found['p10_ms']:.1f}–{found['p90_ms']:.1f}"
    assert all("–" in cell for cell in rows["resnet50"])
