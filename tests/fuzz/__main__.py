"""Fuzz every target for a while: ``python -m tests.fuzz [--seconds N] [TARGET …]``, which is ``make fuzz``.

What it finds is in build/fuzz/<target>/found/, and repeated with ``python -m tests.fuzz.one TARGET FILE``: once it is
understood, it joins tests/fuzz/corpus/<target>/, which the unit tests replay. Inputs that reach new code are kept in
build/fuzz/<target>/corpus/.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.fuzz.targets import BUILD, CORPUS, TARGETS

LONGEST_INPUT = {"image": 8192}
SLOW_SECONDS = 10  # for one input: a finding
MEMORY_MB = 1024


@dataclass(frozen=True)
class Outcome:
    target: str
    executions: int
    seconds: float
    covered: int  # edges
    finding: str  # empty if there is none


def fuzz(target: str, seconds: int, seed: int = 0) -> Outcome:
    """Fuzz ``target`` until something is found, ``seconds`` at most. ``seed``: 0 is another one every time."""
    kept, found = BUILD / target / "corpus", BUILD / target / "found"
    for folder in (kept, found):
        folder.mkdir(parents=True, exist_ok=True)
    # Linux counts what this process had at its fork into the peak of the one it starts.
    here_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-timeout={SLOW_SECONDS}",
        f"-rss_limit_mb={here_mb + MEMORY_MB}",
        f"-max_len={LONGEST_INPUT.get(target, 4096)}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
    ]
    command = [sys.executable, "-m", "tests.fuzz.one", target, *options, str(kept), str(CORPUS / target)]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    said = done.stdout + done.stderr
    counts = re.findall(r"stat::number_of_executed_units: (\d+)", said)
    covered = [int(n) for n in re.findall(r"cov: (\d+)", said)]
    return Outcome(
        target,
        int(counts[-1]) if counts else 0,
        time.monotonic() - start,
        max(covered, default=0),
        said[-4000:] if done.returncode else "",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    options = parser.parse_args()
    code = 0
    for target in options.targets or TARGETS:
        outcome = fuzz(target, options.seconds)
        print(
            f"{target:8} {outcome.executions:>10,} executions in {outcome.seconds:.0f} s, {outcome.covered} edges: "
            f"{'FOUND' if outcome.finding else 'nothing found'}",
            flush=True,
        )
        if outcome.finding:
            print(outcome.finding)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
