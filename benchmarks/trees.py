"""``python -m benchmarks.trees [CASE...]``: ensembles of trees on every engine, which take turns.

``--prepare`` trains and compiles what is missing, an hour at first; only what is there is measured. The peers run as
users call them in Python: tl2cgen's DMatrix and lleaves' float64 rows are made beforehand.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

from benchmarks import latency, machine
from benchmarks.engines import TREES, TREES_AVX2, TREES_OURS
from benchmarks.models import FOLDER, ROOT
from benchmarks.process import Setting
from benchmarks.report import write_json
from benchmarks.tables import NONE, bold, ms, ratio, table
from benchmarks.tree_cases import NAMES, PIECE, ROWS, SINGLE, find_case, find_model
from builder.base.cache import read_build_seconds

PATIENCE = 600  # seconds
RUNS = {f"{ROWS:,} rows": (PIECE, 1), f"{ROWS:,} rows, two threads": (PIECE, 2), "one row": (1, 1)}
"""The batch of ours, and the threads, of each table."""


def main(arguments: list[str] | None = None) -> None:
    """Write ``results.json`` after each case, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(NAMES)}; all when left out")
    parser.add_argument("--prepare", action="store_true", help="train and compile, and do not measure")
    parser.add_argument("--engines", nargs="+", choices=TREES, default=[*TREES], help="all when left out")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every engine (default: 5)")
    options = parser.parse_args(arguments)
    output = FOLDER / "trees" / "results.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "machine": machine.describe(),
        "versions": machine.versions(TREES.values()),
        "rounds": options.rounds,
        "cases": {},
    }
    for name in options.cases or NAMES:
        if options.prepare:
            _prepare(name, options.engines)
            continue
        engines = [engine for engine in options.engines if find_model(name, engine).exists()]
        results["cases"][name] = {"made": {engine: _describe(name, engine) for engine in engines}}
        for title, (batch, threads) in RUNS.items():
            print(f"{name}: {title}", file=sys.stderr, flush=True)
            outputs = [latency.Output("float32", find_case(name, batch).shape)]
            run = find_case(name, batch), Setting(threads), options.rounds, engines, outputs
            results["cases"][name][title] = latency.measure(*run, TREES_OURS)
        results["machine"]["load_average_after"] = list(os.getloadavg())
        write_json(results, output)
    if results["cases"]:
        print(text(results))


def _prepare(name: str, engines: list[str]) -> None:
    """Make each engine's model in a process of its own within PATIENCE; show why some failed."""
    framework = name.partition("-")[0]
    others = {"lightgbm", "xgboost", "forest", TREES_AVX2, "lleaves" if framework != "lightgbm" else ""} - {framework}
    for engine in dict.fromkeys([framework, "onnxruntime_trees", *TREES]):
        if engine in engines and engine not in others:
            command = ["timeout", str(PATIENCE), sys.executable, "-m", "benchmarks.prepare_trees", name, engine]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            why = f"not within {PATIENCE} s" if done.returncode == 124 else done.stderr[-300:]
            print(f"{name}: {engine}: {why if done.returncode else 'ready'}", flush=True)


def _describe(name: str, engine: str) -> str:
    model = find_model(name, engine)
    return f"{read_build_seconds(model.parent):.0f}, {model.stat().st_size / 1e6:.1f}"


def text(results: dict[str, Any]) -> str:
    """Return the tables in Markdown: times, and then seconds to make a model and its size."""
    parts = [machine.said(results["machine"]), str(results["versions"])]
    labels = [kind.label for kind in TREES.values()]
    for title, (batch, _) in RUNS.items():
        rows = [[f"{title}, {'µs' if batch == 1 else 'ms'}", *labels, "best peer / ours", "AVX2"]]
        for name, case in results["cases"].items():
            run = case[title]
            times = {engine: figures["median_ms"] for engine, figures in run["engines"].items()}
            cells = [ms(times[e] * 1e3 / SINGLE if batch == 1 else times[e]) if e in times else NONE for e in TREES]
            avx2 = (
                bold(times[run["best_peer"]] / times[TREES_AVX2]) if TREES_AVX2 in times and run["best_peer"] else NONE
            )
            rows.append([name, *cells, ratio(run), avx2])
            parts += [f"{name}: {engine} is left out: {why}" for engine, why in run["excluded"].items()]
        parts += ["", table(rows)]
    made = [["seconds to make, MB", *labels]]
    for name, case in results["cases"].items():
        made.append([name, *(case["made"].get(engine, NONE) for engine in TREES)])
    return "\n".join([*parts, "", table(made)])


if __name__ == "__main__":
    main()
