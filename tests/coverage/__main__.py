"""How much of builder/runtime and handler the tests run: ``python -m tests.coverage``, which is ``make coverage``.

The tests are those of tests/handler and tests/native, on a runtime that gcc compiles with counters, and under
coverage.py. The report is build/coverage/report.md and report.json.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.coverage import gcov
from tests.coverage.table import Row, share, table, to_dict, total
from tests.native.test_runtime_kernels import LIBRARY as RUNTIME_LIBRARY
from tests.support import fused, runtime
from tests.support.instrumented import OBJECTS, compile_objects
from tests.support.layers import LIBRARY as FUSED_LIBRARY

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "coverage"

KERNELS = tuple(f"test_{name}_kernels" for name in ("runtime", "fused", "norm", "recurrent", "attention", "integer"))
LIBRARIES = (
    "abi", "arena", "batches", "cpus", "emit_fused", "failing_open", "outside_weights", "signatures", "sizes",
    "weights_from_s3", "work_groups",
)  # fmt: skip


def main() -> int:
    """Run the tests and write the report. Returns 1 where a test fails: its figures would say less than they seem."""
    shutil.rmtree(BUILD, ignore_errors=True)
    folders = [BUILD / name for name in ("objects", "kernels", "fused", "tests")]
    objects, kernels, layers, temporary = folders
    for folder in (kernels, layers):
        folder.mkdir(parents=True)
    compile_objects(objects, gcov.FLAGS)
    environment = os.environ | {
        OBJECTS: str(objects),
        RUNTIME_LIBRARY: str(runtime.build_with_gcc(kernels, gcov.SHARED)),
        FUSED_LIBRARY: str(fused.build_with_gcc(layers, gcov.SHARED)),
        "COVERAGE_FILE": str(BUILD / "data"),
    }
    native = [f"tests/native/test_{name}.py" for name in LIBRARIES] + [f"tests/native/{name}.py" for name in KERNELS]
    measured = [sys.executable, "-m", "coverage", "run", "-m"]
    tests = ["pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={temporary}", "tests/handler", *native]
    failed = subprocess.run([*measured, *tests], cwd=ROOT, env=environment, check=False).returncode != 0
    rows = {"builder/runtime": gcov.read(folders), "handler": _handler(environment)}
    report = {part: to_dict(found) for part, found in rows.items()}
    report["builder/runtime"]["unmeasured"] = gcov.unmeasured(rows["builder/runtime"])
    (BUILD / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (BUILD / "report.md").write_text("\n".join(table(part, found) for part, found in rows.items()))
    for part, found in rows.items():
        sums = total(found)
        lines, branches = share(sums.lines_run, sums.lines), share(sums.branches_run, sums.branches)
        print(f"{part:16} lines {lines} of {sums.lines}, branches {branches} of {sums.branches}")
    print(f"each file: {BUILD / 'report.md'}")
    return int(failed)


def _handler(environment: dict[str, str]) -> list[Row]:
    """coverage.py's report of what the processes of the tests have left."""
    for command in (["combine", "--quiet"], ["json", "--quiet", "-o", str(BUILD / "handler.json")]):
        subprocess.run([sys.executable, "-m", "coverage", *command], cwd=ROOT, env=environment, check=True)
    files = json.loads((BUILD / "handler.json").read_text())["files"]
    return [
        Row(
            file=Path(name).relative_to("handler").as_posix(),
            lines=found["summary"]["num_statements"],
            lines_run=found["summary"]["covered_lines"],
            branches=found["summary"]["num_branches"],
            branches_run=found["summary"]["covered_branches"],
            missed=tuple(found["missing_lines"]),
            partial=tuple(sorted({start for start, _ in found["missing_branches"]} - set(found["missing_lines"]))),
        )
        for name, found in files.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
