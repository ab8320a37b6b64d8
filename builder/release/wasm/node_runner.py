"""A run of the golden feeds through predict.mjs in Node.js: the module as JavaScript calls it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import VerifyError
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph
from builder.verify.compare_answers import judge_answers
from builder.verify.expected_answers import Rounding, open_expected
from builder.verify.probe_client import Examination
from builder.verify.verification import Verification

PREDICT = Path(__file__).with_name("predict.mjs")
RUN_CASES = Path(__file__).with_name("run_cases.mjs")
TIMEOUT = 1800
"""Seconds after which Node.js is stopped."""


def find_node() -> str | None:
    """Return the path of Node.js, if it is installed here."""
    return shutil.which("node")


def verify_in_node(path: Path, graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None = None) -> Verification:
    """Run the module at ``path`` on every golden case once. Raises VerifyError when Node.js or the module fails."""
    with (
        open_expected(graph, spec, rounding) as expected,
        tempfile.TemporaryDirectory(prefix="coldforge-node-") as temporary,
    ):
        folder = Path(temporary)
        feeds, answers = folder / "feeds.bin", folder / "answers.bin"
        feeds.write_bytes(
            b"".join(np.ascontiguousarray(a).tobytes() for case in expected.cases for a in expected.feeds_of(case))
        )
        arguments = [str(path.resolve()), str(len(expected.cases)), str(feeds), str(answers)]
        try:
            process = subprocess.run(
                [find_node() or "node", str(RUN_CASES), *arguments],
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VerifyError(f"{path.name} does not run in Node.js: {error}") from error
        if process.returncode:
            raise VerifyError(f"{path.name} fails in Node.js: {process.stderr.strip()[-2000:]}")
        data, at = answers.read_bytes(), 0
        outputs: dict[str, list[NDArray[np.uint8]]] = {}
        for case in expected.cases:
            outputs[case] = []
            for port in expected.fetches:
                outputs[case].append(np.frombuffer(data, np.uint8, port.size, at))
                at += port.size
        # The description is parsed and written again on the way, so its text itself is compared elsewhere.
        return judge_answers(path.name, expected, Examination(outputs, json.dumps(json.loads(process.stdout))))
