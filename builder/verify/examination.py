"""Have a library run on its golden inputs in a process of its own (``builder.verify.run``), and read what it found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.errors import VerifyError
from builder.importers.graph import FrozenGraph
from builder.library.abi import ABI_VERSION
from builder.spec import Variant
from builder.spec.tensor import TensorSpec
from builder.verify.machine import Machine

TIMEOUT = 1800
"""Seconds after which a library that does not come back is given up."""
EMULATED_SECONDS = 45
"""Seconds after which an emulated processor is given no more golden inputs."""
GLANCE = 0.1
"""Seconds between two looks at how far the child is."""

Watch = Callable[[int, int, str], None]
"""Gets the number of golden inputs that have an answer, the number of all, and what goes on now."""


@dataclass(frozen=True)
class Examination:
    """What a library did: the bytes of each fetch by case, in the graph's order, of those that were run.

    ``description``: what cf_describe() returned. ``failures``: its misbehaviours, other than a wrong number.
    """

    answers: Mapping[str, Sequence[NDArray[np.uint8]]]
    description: str
    failures: tuple[str, ...] = ()


def unwatched(_done: int, _total: int, _what: str) -> None:
    """For whom nobody watches."""


def examine(
    library: Path,
    graph: FrozenGraph,
    cases: Sequence[str],
    machine: Machine,
    variant: Variant | None = None,
    watch: Watch = unwatched,
) -> Examination:
    """Run ``library`` on ``cases`` of ``graph.golden_path`` on ``machine``, in a child process.

    ``variant``: which program of the library is of this graph, if not the first. ``watch`` is told now and then how
    many of the cases have an answer, and what the child does. Raises VerifyError when the library
    cannot be loaded or opened, fails, hangs or crashes.
    """
    with tempfile.TemporaryDirectory(prefix="coldforge-verify-") as temporary:
        folder = Path(temporary)
        step, answers, findings = folder / "step", folder / "answers.npz", folder / "findings.json"
        request = {
            "abi": ABI_VERSION,
            "library": str(library.resolve()),
            "golden": str(graph.golden_path.resolve()),
            "cases": list(cases),
            "feeds": list_ports(p.spec for p in graph.feeds),
            "fetches": list_ports(p.spec for p in graph.fetches),
            "signature": variant.of if variant else "",
            "state": sum(p.spec.size for p in graph.states),
            "step": str(step),
            "answers": str(answers),
            "findings": str(findings),
            "runner": machine.runner,
            "seconds": EMULATED_SECONDS if machine.runner else TIMEOUT,
        }
        found = _run(library.name, request, folder / "request.json", watch)
        with np.load(answers, allow_pickle=False) as arrays:
            fetches = range(len(graph.fetches))
            ran = {case: [arrays[f"{i}/{number}"] for number in fetches] for i, case in enumerate(found["cases"])}
        return Examination(ran, found["describe"], tuple(found["failures"]))


def list_ports(specs: Iterable[TensorSpec]) -> list[dict[str, Any]]:
    """Describe feeds or fetches for ``builder.verify.run``."""
    return [{"name": s.name, "bytes": s.size, "dtype": s.dtype, "beyond": list(s.indices_beyond())} for s in specs]


def _run(library: str, request: Mapping[str, Any], path: Path, watch: Watch) -> dict[str, Any]:
    """The findings of builder/verify/run.py on ``request``, which is written to ``path``. Raises VerifyError."""
    path.write_text(json.dumps(request), encoding="utf-8")
    step, findings_path = Path(request["step"]), Path(request["findings"])
    root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
    command = [sys.executable, "-P", "-m", "builder.verify.run", str(path)]
    try:
        code, said = _watched(command, environment, lambda: _tell(watch, len(request["cases"]), step))
    except subprocess.TimeoutExpired as error:
        raise VerifyError(f"{library} did not finish within {TIMEOUT} s while {_step(step)[1]}.") from error
    if code < 0:
        name = signal.Signals(-code).name
        advice = {"SIGILL": " This machine lacks an instruction the library uses."}.get(name, "")
        raise VerifyError(
            f"{library} crashed ({name}) while {_step(step)[1]}.{advice} Nothing was packed; report it with the "
            "model's build folder."
        )
    if code or not findings_path.exists():
        raise VerifyError(
            f"{library} ended the verifying process (exit code {code}) while {_step(step)[1]}: "
            f"{said.strip()[-2000:] or 'no message'}"
        )
    findings: dict[str, Any] = json.loads(findings_path.read_text(encoding="utf-8"))
    if "refused" in findings:
        raise VerifyError(f"{library} cannot be verified: {findings['refused']}.")
    return findings


def _watched(command: Sequence[str], environment: Mapping[str, str], glance: Callable[[], None]) -> tuple[int, str]:
    """(exit code, standard error) of a child, at which ``glance`` looks while it runs. Raises TimeoutExpired."""
    end = time.monotonic() + TIMEOUT
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        try:
            while True:
                try:
                    _, said = process.communicate(timeout=GLANCE)
                    return process.returncode, said
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        raise
                    glance()
        except BaseException:
            process.kill()
            raise


def _tell(watch: Watch, total: int, step: Path) -> None:
    answered, what = _step(step)
    watch(answered, total, what)


def _step(path: Path) -> tuple[int, str]:
    """(how many golden inputs have an answer, what goes on), as ``builder.verify.run`` wrote it."""
    answered, _, what = path.read_text(encoding="utf-8").partition(" ") if path.exists() else ("0", "", "starting")
    return int(answered), what
