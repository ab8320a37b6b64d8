"""The child process (``builder.verify.probe``) in which a library runs on its golden inputs."""

from __future__ import annotations

import json
import os
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

from builder.base.errors import EnvironmentSetupError, VerifyError
from builder.base.escape import escape_terminal
from builder.base.sandbox import KernelFeatures, ProcessLimits
from builder.base.sandbox.confinement import explain_out_of_memory
from builder.base.sandbox.process_output import signal_name
from builder.base.sandbox.sandbox_client import LOG_SIZE, keep_variables, read_end
from builder.base.untrusted_files import open_regular
from builder.compiler.abi import ABI_VERSION
from builder.config import Variant
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph
from builder.verify.target_runner import Machine

TIMEOUT = 1800
"""Seconds after which a library that does not return is given up."""
EMULATED_SECONDS = 45
"""Seconds after which an emulated processor gets no more golden inputs."""
GLANCE = 0.1
"""Seconds between two looks at the child's progress."""

_STEP, _ANSWERS, _FINDINGS = "step", "answers", "findings.json"
_LONGEST_STEP, _LARGEST = 4096, 64 << 20
"""The most bytes that are read of the step and of the findings."""

Watch = Callable[[int, int, str], None]
"""A function of the number of golden inputs with an answer, the number of all, and the current step."""


@dataclass(frozen=True)
class Examination:
    """Behaviour of a library: the bytes of each fetch, in the graph's order, by case that was run.

    ``description``: the text that cf_describe() returned. ``failures``: its misbehaviours, other than a wrong number.
    """

    answers: Mapping[str, Sequence[NDArray[np.uint8]]]
    description: str
    failures: tuple[str, ...] = ()


def no_progress(_done: int, _total: int, _what: str) -> None:
    """Ignore the progress."""


def examine_library(
    library: Path,
    graph: FrozenGraph,
    cases: Sequence[str],
    machine: Machine,
    variant: Variant | None = None,
    watch: Watch = no_progress,
) -> Examination:
    """Run ``library`` on ``cases`` of ``graph.golden_path`` on ``machine``, in a confined child process.

    ``variant``: the program of the library for this graph, if not the first. ``watch`` gets now and then the number of
    cases that have an answer, and the current step. Raises VerifyError when the library cannot be loaded or opened,
    fails, hangs or crashes; EnvironmentSetupError if it needs more memory than the sandbox has, or the sandbox is less
    than ``require_demanded`` wants.
    """
    KernelFeatures.from_machine().require_demanded()
    with tempfile.TemporaryDirectory(prefix="coldforge-verify-") as temporary:
        folder = Path(temporary)
        request = {
            "abi": ABI_VERSION,
            "library": str(library.resolve()),
            "golden": str(graph.golden_path.resolve()),
            "cases": list(cases),
            "feeds": list_ports(p.spec for p in graph.feeds),
            "fetches": list_ports(p.spec for p in graph.fetches),
            "signature": variant.of if variant else "",
            "state": sum(p.spec.size for p in graph.states),
            "step": str(folder / _STEP),
            "answers": str(folder / _ANSWERS),
            "findings": str(folder / _FINDINGS),
            "runner": machine.runner,
            "seconds": EMULATED_SECONDS if machine.runner else TIMEOUT,
        }
        _run_child(library.name, request, folder, watch)
        try:
            with open_regular(folder, _FINDINGS) as file:
                findings = json.loads(file.read(_LARGEST))
            if "refused" in findings:
                raise VerifyError(f"{library.name} cannot be verified: {escape_terminal(str(findings['refused']))}.")
            ran, failures, description = findings["cases"], findings["failures"], findings["describe"]
            if ran != list(cases)[: len(ran)] or not all(isinstance(text, str) for text in (description, *failures)):
                raise ValueError("no findings")
            sizes = [port.spec.size for port in graph.fetches]
            with open_regular(folder, _ANSWERS) as file:
                if os.fstat(file.fileno()).st_size != len(ran) * sum(sizes):
                    raise ValueError("another number of answers")
                answers = {case: [np.frombuffer(file.read(size), np.uint8) for size in sizes] for case in ran}
            return Examination(answers, description, tuple(map(escape_terminal, failures)))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OSError) as error:
            why = "it spoils the process that it runs in"
            raise VerifyError(f"{library.name} left no answers that can be read: {why}.") from error


def list_ports(specs: Iterable[TensorSpec]) -> list[dict[str, Any]]:
    """Describe feeds or fetches for ``builder.verify.probe``."""
    return [{"name": s.name, "bytes": s.size, "dtype": s.dtype, "beyond": list(s.indices_beyond())} for s in specs]


def _run_child(library: str, request: Mapping[str, Any], folder: Path, watch: Watch) -> None:
    """Have builder/verify/probe.py run ``request``, with its files in ``folder``. Raises VerifyError."""
    path = folder / "request.json"
    path.write_text(json.dumps(request), encoding="utf-8")
    command = [sys.executable, "-P", "-m", "builder.verify.probe", str(path)]

    def glance() -> None:
        answered, what = _read_step(folder)
        watch(answered, len(request["cases"]), what)

    try:
        code, log = _watch_child(command, glance)
    except subprocess.TimeoutExpired as error:
        raise VerifyError(f"{library} did not finish within {TIMEOUT} s while {_read_step(folder)[1]}.") from error
    if code < 0:
        name = signal_name(code)
        advice = {"SIGILL": " This machine lacks an instruction the library uses."}.get(name, "")
        raise VerifyError(
            f"{library} crashed ({name}) while {_read_step(folder)[1]}.{advice} Nothing was packed; report it with the "
            "model's build folder."
        )
    if "MemoryError" in log:
        raise EnvironmentSetupError(explain_out_of_memory(ProcessLimits.from_machine()))
    if code:
        raise VerifyError(
            f"{library} ended the verifying process (exit code {code}) while {_read_step(folder)[1]}: "
            f"{log.strip()[-2000:] or 'no message'}"
        )


def _watch_child(command: Sequence[str], glance: Callable[[], None]) -> tuple[int, str]:
    """Return a child's (exit code, standard error); call ``glance`` while it runs. Raises TimeoutExpired."""
    end = time.monotonic() + TIMEOUT
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command, env=keep_variables(os.environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
        ) as process,
    ):
        try:
            while True:
                try:
                    code = process.wait(GLANCE)
                    return code, escape_terminal(read_end(log, LOG_SIZE))
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        raise
                    glance()
        except BaseException:
            process.kill()
            raise


def _read_step(folder: Path) -> tuple[int, str]:
    """Return (number of golden inputs with an answer, current step), as ``builder.verify.probe`` wrote them."""
    try:
        with open_regular(folder, _STEP) as file:
            answered, _, what = file.read(_LONGEST_STEP).decode("utf-8", "replace").partition(" ")
        return int(answered), escape_terminal(what)
    except (FileNotFoundError, ValueError):
        return 0, "starting"
