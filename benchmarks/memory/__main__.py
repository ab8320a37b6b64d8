"""``python -m benchmarks.memory MODEL...``: measure the bundles of these examples, and write the page."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks import machine
from benchmarks.memory import report
from benchmarks.models import FOLDER, ROOT
from benchmarks.report import write_json
from builder.measure.cost import costs
from builder.pack.bundle import find_bundle
from builder.targets import host_target

BELOW_MS = 50.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="an example whose bundle is in dist/")
    parser.add_argument("--rounds", type=int, default=15, help="cold starts with each size (default: 15)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of warm requests after each start (default: 2)")
    parser.add_argument("--output", type=Path, default=FOLDER / "memory", help="folder for the results")
    options = parser.parse_args()
    begin, before = time.monotonic(), machine.describe()
    found = []
    for model in options.models:
        bundle = find_bundle(ROOT / "dist", model, host_target(), model)
        print(model, file=sys.stderr, flush=True)
        found.append(costs(bundle, rounds=options.rounds, seconds=options.seconds, below=BELOW_MS, say=_say).to_dict())
    results = {
        "format": 1,
        "machine": before | {"load_average_after": list(os.getloadavg())},
        "seconds": round(time.monotonic() - begin),
        "seconds_each": options.seconds,
        "models": found,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    write_json(results, options.output / "results.json")
    report.write(results, options.output)
    _say(f"{options.output}/results.json, in {results['seconds']} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
