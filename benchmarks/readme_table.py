"""Write README's table of proof, from benchmarks/results/: ``python -m benchmarks.readme_table``."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.engines import ENGINES, OURS
from benchmarks.models import ROOT
from benchmarks.report import MAIN, read_results
from benchmarks.tables import NONE, table

README = ROOT / "README.md"
PLACE = re.compile(r"(?<=`python -m benchmarks.readme_table`\. -->\n\n)\|.*?(?=\n\n)", re.DOTALL)
"""The table in README."""

SHOWN_ENGINES = (OURS, "onnxruntime", "openvino", "litert")
NETWORKS = ("emotion", "mobilenet_v2", "resnet50")

Measured = dict[str, Any]


def render() -> str:
    """Return the table of the results that are kept."""
    networks = read_results(f"machines/{MAIN}")["networks"]
    functions = read_results("function-emotion")["functions"]
    rows = [["", *(ENGINES[engine].label for engine in SHOWN_ENGINES)]]
    for name in NETWORKS:
        warm, cold = networks[name]["latency"]["1"]["engines"], networks[name]["cold"]["engines"]
        cells = [f"{_figure(warm[e]['median_ms'])} / {cold[e]['start_ms']:.0f}" for e in SHOWN_ENGINES]
        rows.append([f"{name}: answer / start, ms", *cells])
    cold = networks["mobilenet_v2"]["cold"]["engines"]
    cells = [f"{cold[e]['peak_rss_mb']:.0f} / {_size(cold[e]):.0f}" for e in SHOWN_ENGINES]
    rows.append(["mobilenet_v2: memory / size, MB", *cells])
    whole = [_whole(functions[e]) if e in functions else NONE for e in SHOWN_ENGINES]
    rows.append(["the whole function, emotion: cold start, ms / memory, MB", *whole])
    return table(rows)


def _whole(row: Measured) -> str:
    return f"{row['answer_ms']['median']:.0f} / {row['peak_rss_mb']['median']:.0f}"


def _size(row: Measured) -> float:
    return float(row["engine_bytes"] + row["model_bytes"]) / 1e6


def _figure(ms: float) -> str:
    return f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"


def main() -> None:
    README.write_text(PLACE.sub(lambda _: render(), README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
