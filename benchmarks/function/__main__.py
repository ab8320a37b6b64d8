"""``python -m benchmarks.function``: prepare, measure, report. ``--quick`` shows that it all works."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.function import report
from benchmarks.function.functions import KINDS, NETWORK, OURS, PEERS, PLACE, installed, make
from benchmarks.function.imports import breakdown
from benchmarks.function.measure import measure, one_cpu
from benchmarks.models import ROOT
from benchmarks.report import write_json
from builder.local.parts import find_python
from builder.local.rie import image_event

PICTURE = ROOT / "tests" / "data" / "face.jpg"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.function", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 starts: whether it works at all")
    parser.add_argument("--starts", type=int, help="fresh starts of every function (default: 15)")
    parser.add_argument("--output", type=Path, help="folder for the results (default: build/bench/function)")
    options = parser.parse_args(arguments)
    starts = options.starts or (3 if options.quick else 15)
    output = options.output or (PLACE / "quick" if options.quick else PLACE)
    output.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    _say("preparing")
    _prepare()
    left_out = {name: f"{KINDS[name].distribution} is not installed" for name in PEERS if not installed(name)}
    left_out |= {
        name: "its model could not be converted" for name in PEERS if name not in left_out and not _ready(name)
    }
    python = find_python(Path(sys.executable))  # the one that the peers are installed for
    functions = {name: make(name, python) for name in KINDS if name not in left_out}
    with one_cpu():
        results: dict[str, Any] = {
            "format": 1,
            "machine": machine.describe(),
            "versions": machine.versions(),
            "settings": {kind.label: kind.settings for kind in KINDS.values()},
            **measure(functions, image_event(PICTURE), starts, python, _say),
            "imports": breakdown(functions[OURS].emulator, 3 if options.quick else 15),
        }
    results["machine"] |= {"load_average_after": list(os.getloadavg()), "function_python": python.version}
    results["excluded"] |= left_out
    results["seconds"] = round(time.monotonic() - begin)
    write_json(results, output / "results.json")
    print(report.text(results))
    report.write(results, output)
    _say(f"{output}/results.json, {report.PAGE} and {report.PLOT}, in {time.monotonic() - begin:.0f} s")


def _prepare() -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    log = PLACE / "prepare.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "benchmarks.function.prepare"]
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(f"the models could not be prepared:\n{log.read_text(errors='replace')[-2000:]}")


def _ready(name: str) -> bool:
    return all((NETWORK.folder / model).is_file() for model in KINDS[name].models)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
