"""Results of several machines: where each is kept, and that the published pages are made of them."""

from __future__ import annotations

from copy import deepcopy

from benchmarks import machine, readme_table, report
from benchmarks.function import report as function_report

FIRST, *OTHERS = report.read_machines()


def test_the_pages_are_what_was_measured() -> None:
    secondary = map(report.read_results, report.SECONDARY)
    written = report.PAGE.read_text(encoding="utf-8")
    assert written == report.page([FIRST, *OTHERS], *secondary), "run `python -m benchmarks.report`"
    functions = function_report.read_subjects()
    written = function_report.PAGE.read_text(encoding="utf-8")
    assert written == function_report.page(functions), "run `python -m benchmarks.function.report`"
    shown = readme_table.PLACE.search(readme_table.README.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0] == readme_table.render(), "run `python -m benchmarks.readme_table`"


def test_results_are_kept_under_the_name_of_their_machine() -> None:
    """One file a machine: the names of the files are those of the machines in them."""
    kept = {path.stem for path in (report.RESULTS / "machines").glob("*.json")}
    assert kept == {report.machine_name(results["machine"]) for results in (FIRST, *OTHERS)}
    assert report.machine_name(FIRST["machine"]) == report.MAIN
    other = deepcopy(FIRST["machine"])
    other["family_model_stepping"] = ["6", "143", "8"]
    other["processor"] = "Intel(R) Xeon(R) Processor"
    assert report.machine_name(other) == "intel-r-xeon-r-processor-sapphire-rapids-2-cpus"


def test_a_processor_is_named_by_what_a_hypervisor_leaves() -> None:
    assert machine.name(FIRST["machine"]) == "AMD EPYC, Zen 3 (Milan)"
    assert machine.wide(FIRST["machine"]) == "AVX2"
    unknown = {"processor": "AMD EPYC", "family_model_stepping": ["99", "9", "9"], "instruction_sets": []}
    assert machine.name(unknown) == "AMD EPYC"
    assert machine.name(machine.describe())
    graviton = {
        "processor": "Neoverse V1",
        "family_model_stepping": ["0x41", "0xd40", "1"],
        "instruction_sets": ["asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve"],
    }
    assert (machine.name(graviton), machine.wide(graviton)) == ("Neoverse V1, Graviton3", "NEON with i8mm")


def test_machines_stand_side_by_side() -> None:
    """A network that one of them has not measured is a dash there."""
    other = deepcopy(FIRST)
    del other["networks"]["emotion"]
    other["networks"]["lstm"]["latency"]["1"] |= {"ratio": 0.5, "ratio_p10": 0.4, "ratio_p90": 0.6}
    shown = report.side_by_side([FIRST, other])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if line.startswith("| ")]
    first = {row[0]: row[1:] for row in reversed(rows)}  # of two tables, the one for one thread
    assert first["emotion"] == ["**1.16** (1.15–1.18) LiteRT", "–"]
    assert first["lstm"] == ["**1.31** (1.30–1.34) ONNX Runtime", "0.50 (0.40–0.60) ONNX Runtime"]
