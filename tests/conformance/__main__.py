"""Build whole lists of models: ``python -m tests.conformance [--only TEXT] [GROUP …]``, which is ``make conformance``.

The results are added to docs/conformance.json, of which docs/conformance.md is made. The group ``special`` is no list
of models, but of ops that are called with special values; ``onnx-nodes`` are ONNX's own cases of operators and
``tflite-operators`` drawn ones of LiteRT's, of which docs/onnx-operators.md and docs/tflite-operators.md are made.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from builder.base.tf import ENVIRONMENT
from tests.conftest import ROOT

os.environ.update(ENVIRONMENT)  # before Keras loads TensorFlow

from builder.base.tf import import_tensorflow
from builder.cli import ops_page
from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment
from tests.conformance import results, special
from tests.conformance.cases import GROUPS
from tests.conformance.run import run

FOLDER = ROOT / "build" / "conformance"
OPERATORS = {
    "onnx-nodes": ("tests.conformance.onnx_nodes", "onnx-operators.md"),
    "tflite-operators": ("tests.conformance.tflite_operators", "tflite-operators.md"),
}
"""The modules that run cases of single operators, and the pages that they write."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    every = [*GROUPS, special.GROUP, *OPERATORS]
    parser.add_argument("groups", nargs="*", choices=[*every, []], help="lists to build, all when none is named")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--missing", action="store_true", help="only cases that have no result yet")
    given = parser.parse_args()
    import_tensorflow()
    groups = given.groups or every
    if special.GROUP in groups and not (given.only or given.missing):
        results.write_special(special.rows(FOLDER))
    wrong = False
    for module, page in (OPERATORS[name] for name in OPERATORS if name in groups):
        if not (given.only or given.missing):
            python = ensure_environment(FRAMEWORKS["onnx"], print) / "bin" / "python"
            command = [python, "-m", module, "--page", ROOT / "docs" / page]
            wrong |= bool(subprocess.run(command, cwd=ROOT, check=False).returncode)
    cases = [case for name in groups if name in GROUPS for case in GROUPS[name]() if given.only in case.name]
    if given.missing:
        known = results.read()
        cases = [case for case in cases if (case.group, case.name) not in known]
    for case in cases:
        result = run(case, FOLDER)
        results.add(result)
        wrong |= result.outcome == "disagrees"
        print(
            f"{result.outcome:8} {result.seconds:6.1f} s  {result.group} {result.name}  {result.why.splitlines()[:1]}"
        )
        sys.stdout.flush()
    results.PAGE.write_text(results.text(), encoding="utf-8")
    ops_page.PAGE.write_text(ops_page.format_ops_page(), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
