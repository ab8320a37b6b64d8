"""Build whole lists of models: ``python -m tests.conformance [--only TEXT] [GROUP …]``, which is ``make conformance``.

The results are added to docs/conformance.json, of which docs/conformance.md is made.
"""

from __future__ import annotations

import argparse
import os
import sys

from builder.variables import ENVIRONMENT
from tests.conftest import ROOT

os.environ.update(ENVIRONMENT)  # before Keras loads TensorFlow

from builder.importers.tf import tensorflow
from tests.conformance import results
from tests.conformance.cases import GROUPS
from tests.conformance.run import run

FOLDER = ROOT / "build" / "conformance"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="lists to build, all when none is named")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--missing", action="store_true", help="only cases that have no result yet")
    given = parser.parse_args()
    tensorflow()
    cases = [case for name in given.groups or GROUPS for case in GROUPS[name]() if given.only in case.name]
    if given.missing:
        known = results.read()
        cases = [case for case in cases if (case.group, case.name) not in known]
    wrong = False
    for case in cases:
        result = run(case, FOLDER)
        results.add(result)
        wrong |= result.outcome == "disagrees"
        print(
            f"{result.outcome:8} {result.seconds:6.1f} s  {result.group} {result.name}  {result.why.splitlines()[:1]}"
        )
        sys.stdout.flush()
    results.PAGE.write_text(results.text(), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
