"""Trace zoo cases and compile them for wasm32, all in one process whose XLA leaves its IR.

``python -m tests.support.compile_ir FOLDER NAME ...``: each case below FOLDER, with TensorFlow's answers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from builder.base.tf import import_tensorflow

import_tensorflow(leave_ir=True)  # before anything else imports it: flags are read once

from builder.base.targets import WASM32  # noqa: E402
from builder.compiler.xla import tfcompile  # noqa: E402
from tests.support.build import freeze_function, write_golden  # noqa: E402
from tests.support.zoo import CASES, TOGETHER  # noqa: E402

SAMPLES = 2


def main(folder: Path, names: list[str]) -> None:
    for case in (*CASES, TOGETHER):
        if case.name in names:
            own = folder.resolve() / case.name
            own.mkdir()
            graph = freeze_function(case.trace(), [feed.name for feed in case.feeds], own)
            write_golden(graph, [case.sample(i) for i in range(SAMPLES)])
            os.chdir(own)
            tfcompile.run_tfcompile(own, WASM32)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
