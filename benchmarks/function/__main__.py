"""``python -m benchmarks.function [SUBJECT]``: prepare, measure, report. ``--quick`` shows that it works."""

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
from benchmarks.function.functions import SUBJECTS, TREES, Subject, installed, make
from benchmarks.function.measure import measure, one_cpu
from benchmarks.models import ROOT
from benchmarks.report import write_json
from builder.base.lambda_python import find_python
from builder.measure.local.run_event import image_event

PICTURE = ROOT / "tests" / "data" / "face.jpg"
TEXT = "How do I store a sentence encoder's vectors, and find the texts that are nearest to a question?"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.function", description=__doc__)
    parser.add_argument("subject", nargs="?", default="emotion", choices=list(SUBJECTS), help="the example they serve")
    parser.add_argument("--quick", action="store_true", help="3 starts: whether it works at all")
    parser.add_argument("--starts", type=int, help="fresh starts of every function (default: 15)")
    parser.add_argument("--output", type=Path, help="folder for the results (default: below build/bench)")
    options = parser.parse_args(arguments)
    subject = SUBJECTS[options.subject]
    starts = options.starts or (3 if options.quick else 15)
    output = options.output or (subject.place / "quick" if options.quick else subject.place)
    output.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    _say("preparing")
    _prepare(subject)
    kinds, left_out = subject.kinds, dict[str, str]()
    for name in subject.peers:
        if not installed(kinds[name]):
            left_out[name] = f"{' or '.join(kinds[name].distributions)} is not installed"
        elif not all((subject.models / model).is_file() for model in kinds[name].models):
            left_out[name] = "its model could not be converted"
    python = find_python(Path(sys.executable))  # the interpreter for which the peers are installed
    functions = {name: make(subject, name, python) for name in kinds if name not in left_out}
    with one_cpu():
        results: dict[str, Any] = {
            "format": 1,
            "subject": subject.name,
            "machine": machine.describe(),
            "versions": machine.versions(),
            "settings": {kind.label: kind.settings for kind in kinds.values()},
            **measure(functions, _event(subject), starts, python, _say, subject.peers),
        }
    results["machine"] |= {"load_average_after": list(os.getloadavg()), "function_python": python.version}
    results["excluded"] |= left_out
    results["seconds"] = round(time.monotonic() - begin)
    write_json(results, output / "results.json")
    print(report.text(results))
    _say(f"{output}/results.json, in {time.monotonic() - begin:.0f} s")


def _event(subject: Subject) -> dict[str, Any]:
    if subject is TREES:
        return {"inputs": {"input": [[i / 28 for i in range(28)]]}}
    return image_event(PICTURE) if subject.service == "pictures" else {"text": TEXT}


def _prepare(subject: Subject) -> None:
    subject.place.mkdir(parents=True, exist_ok=True)
    log = subject.place / "prepare.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "benchmarks.function.prepare", subject.name]
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(f"the models could not be prepared:\n{log.read_text(errors='replace')[-2000:]}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
