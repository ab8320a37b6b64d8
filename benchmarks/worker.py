"""One engine with one network in a process of its own: ``python -m benchmarks.worker REQUEST`` (JSON).

It opens the model, answers once and replies with the times. Then it takes commands, one JSON object a line on standard
input, and replies likewise, until standard input ends. It imports as little as possible itself.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

LONG = 0.5  # seconds


def main() -> None:
    request = json.loads(sys.argv[1])
    # Engines may print to standard output; replies go to a copy of its descriptor.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    # This comes before the engine's import: some engines size their pools by the CPUs that they may use.
    os.sched_setaffinity(0, request["cpus"])
    from benchmarks.engines import KINDS

    kind = KINDS[request["engine"]]
    sample = Path(request["samples"][0]).read_bytes()
    try:
        begin = time.monotonic()
        cls = kind.load_class()
        imported = time.monotonic()
        engine = cls(Path(request["model"]), request["threads"])
        loaded = time.monotonic()
        feed = engine.feed(sample)
        engine.raw(engine.run(feed))
        answered = time.monotonic()
    except Exception as error:
        reply({"error": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"})
        return
    reply(
        {
            "python_ms": 1e3 * (begin - request["spawned"]),
            "import_ms": 1e3 * (imported - begin),
            "load_ms": 1e3 * (loaded - imported),
            "first_ms": 1e3 * (answered - loaded),
            "start_ms": 1e3 * (answered - begin),
            "total_ms": 1e3 * (answered - request["spawned"]),
            "peak_rss_mb": _peak_rss() / 2**20,
            "packages": _packages(),
        }
    )
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "answer":
            answers = engine.raw(engine.run(engine.feed(Path(command["sample"]).read_bytes())))
            Path(command["to"]).write_bytes(b"".join(answers))
            reply({})
        elif command["do"] == "time":
            reply({"seconds": _time(engine, feed, command["least"], command["budget"])})


def _time(engine: Any, feed: Any, least: int, budget: float) -> list[float]:
    """Return seconds of each run after a first: ``least`` or more, for ``budget`` s, or until one exceeds LONG."""
    clock, run = time.perf_counter, engine.run
    run(feed)
    seconds: list[float] = []
    end = clock() + budget
    while len(seconds) < least or clock() < end:
        begin = clock()
        run(feed)
        seconds.append(clock() - begin)
        if seconds[-1] > LONG:
            break
    return seconds


def _peak_rss() -> int:
    """Return this program's peak memory in bytes; ru_maxrss would include the parent's at the fork."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _packages() -> list[str]:
    """Return the folders and files directly below site-packages from which modules were imported."""
    packages = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        before, here, after = path.rpartition("/site-packages/")
        # These two belong to the virtual environment, not to the engine.
        if here and not after.startswith(("_distutils_hack", "__editable__")):
            packages.add(f"{before}{here}{after.split('/')[0]}")
    return sorted(packages)


if __name__ == "__main__":
    main()
