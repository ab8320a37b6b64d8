"""Build whole lists of models: ``python -m tests.conformance [--only TEXT] [GROUP …]``, which is ``make conformance``.

The results are in build/conformance/results.json, where a later run adds to them, and in docs/conformance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict

from builder.importers.tf import ENVIRONMENT
from tests.conftest import ROOT

os.environ.update(ENVIRONMENT)  # before Keras loads TensorFlow

from builder.importers.tf import tensorflow
from tests.conformance import page
from tests.conformance.cases import GROUPS
from tests.conformance.run import Result, run_all

FOLDER = ROOT / "build" / "conformance"
RESULTS = FOLDER / "results.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="lists to build, all when none is named")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--missing", action="store_true", help="only cases that have no result yet")
    given = parser.parse_args()
    tensorflow()
    found = {(r.group, r.name): r for r in _read()}
    cases = [case for name in given.groups or GROUPS for case in GROUPS[name]() if given.only in case.name]
    if given.missing:
        cases = [case for case in cases if (case.group, case.name) not in found]
    for result in run_all(cases, FOLDER):
        found[result.group, result.name] = result
        print(
            f"{result.outcome:8} {result.seconds:6.1f} s  {result.group} {result.name}  {result.why.splitlines()[:1]}"
        )
        sys.stdout.flush()
        RESULTS.write_text(json.dumps([asdict(r) for r in found.values()], indent=1) + "\n", encoding="utf-8")
    page.PAGE.write_text(
        page.text(list(found.values()), {name: len(GROUPS[name]()) for name in GROUPS}), encoding="utf-8"
    )
    return 1 if any(result.outcome == "disagrees" for result in found.values()) else 0


def _read() -> list[Result]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    return [Result(**row) for row in json.loads(RESULTS.read_text(encoding="utf-8"))] if RESULTS.exists() else []


if __name__ == "__main__":
    sys.exit(main())
