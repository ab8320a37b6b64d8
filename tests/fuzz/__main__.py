"""Fuzz every target for a while: ``python -m tests.fuzz [--seconds N] [TARGET …]``, which is ``make fuzz``.

Each target has a process of its own, forked from this one, which has imported and instrumented all once.

What it finds is in build/fuzz/<target>/found/, and repeated with ``python -m tests.fuzz.one TARGET FILE``: once it is
understood, it joins tests/fuzz/corpus/<target>/, which the unit tests replay. Inputs that reach new code are kept in
build/fuzz/<target>/corpus/, those that took most in build/fuzz/<target>/worst-*. The figures are a table, and
build/fuzz/report.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.fuzz import worst
from tests.fuzz.one import fuzz_target
from tests.fuzz.targets import BUILD, CORPUS, TARGETS

LONGEST_INPUT = {
    "image": 262_144,
    "audio": 65_536,
    "text": 65_536,
    "words": 65_536,
    "example": 65_536,
    "http": 131_072,
    "http_text": 131_072,
    "body": 131_072,
    "event": 65_536,
    "items": 65_536,
    "model": 32_768,
    "weights": 8192,
}
LONGEST = 4096
SLOW_SECONDS = 60  # for one input, by the clock: what hangs, where no budget of ``oracle`` sees its end
MEMORY_MB = 4096
STABLE = {"MALLOC_MMAP_THRESHOLD_": "131072", "TF_CPP_MIN_LOG_LEVEL": "3"}
"""What is freed goes back to the system, so that the next input's peak is its own."""
COLUMNS = "| target | runs | seconds | edges | worst, s | worst, MB | |\n|---|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Outcome:
    """``worst_seconds`` of the processor and ``worst_bytes`` at once, of one input each."""

    target: str
    executions: int
    seconds: float
    covered: int  # edges
    worst_seconds: float
    worst_bytes: int
    finding: str  # empty if there is none

    def __str__(self) -> str:
        return (
            f"| {self.target} | {self.executions:,} | {self.seconds:.0f} | {self.covered:,} | {self.worst_seconds:.2f} "
            f"| {self.worst_bytes / 1e6:,.0f} | {'FOUND' if self.finding else 'nothing found'} |"
        )


def fuzz(target: str, seconds: int, seed: int) -> Outcome:
    """Fuzz ``target`` until something is found, ``seconds`` at most. ``seed``: 0 is another one every time."""
    kept, found, said = (BUILD / target / name for name in ("corpus", "found", "output.txt"))
    for folder in (kept, found):
        folder.mkdir(parents=True, exist_ok=True)
    # Linux counts what this process had at its fork into the peak of the one it starts.
    here_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-timeout={SLOW_SECONDS}",
        f"-rss_limit_mb={here_mb + MEMORY_MB}",
        f"-max_len={LONGEST_INPUT.get(target, LONGEST)}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
        str(kept),
        str(CORPUS / target),
    ]
    start = time.monotonic()
    status = _fork(target, options, said)
    text = said.read_text(errors="replace")
    counts = re.findall(r"stat::number_of_executed_units: (\d+)", text)
    covered = [int(n) for n in re.findall(r"cov: (\d+)", text)]
    most = worst.read(BUILD / target)
    return Outcome(
        target,
        int(counts[-1]) if counts else 0,
        time.monotonic() - start,
        max(covered, default=0),
        most.seconds,
        most.bytes,
        text[-5000:] if status else "",  # the exception, and libFuzzer's words on the input
    )


def _fork(target: str, options: list[str], output: Path) -> int:
    """Fuzz in a fork of this process that writes into ``output``, and return its exit status."""
    sys.stdout.flush()
    with output.open("wb") as file:
        child = os.fork()
        if child == 0:
            os.dup2(file.fileno(), sys.stdout.fileno())
            os.dup2(file.fileno(), sys.stderr.fileno())
            fuzz_target(target, options)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=0, help="0: another one every time")
    options = parser.parse_args()
    if not STABLE.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | STABLE)
    print(COLUMNS, flush=True)
    outcomes = []
    for target in options.targets or TARGETS:
        outcomes.append(fuzz(target, options.seconds, options.seed))
        print(outcomes[-1], flush=True)
        (BUILD / "report.json").write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    findings = [outcome.finding for outcome in outcomes if outcome.finding]
    print("", *findings, sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
