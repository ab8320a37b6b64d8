"""``python -m benchmarks.run``: prepare, measure, report. ``--quick`` shows in two minutes that it all works."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import cold, latency, machine, report
from benchmarks.engines import ENGINES
from benchmarks.models import FOLDER, NETWORKS, ROOT, Network
from benchmarks.process import Setting, end_with

QUICK_NETWORKS = ("lstm", "transformer")
MODULES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "litert": "ai_edge_litert"}


@dataclass(frozen=True)
class Plan:
    """How much to measure: ``rounds`` of latency, ``repeats`` of fresh processes (0: none)."""

    networks: tuple[str, ...]
    threads: tuple[int, ...]
    rounds: int
    repeats: int
    batch: int
    output: Path


def main(arguments: list[str] | None = None) -> None:
    plan = _plan(arguments)
    plan.output.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    results: dict[str, Any] = {
        "format": 1,
        "machine": machine.describe(),
        "versions": machine.versions(),
        "settings": {kind.label: kind.settings for kind in ENGINES.values()},
        "rounds": plan.rounds,
        "batch": plan.batch,
        "tolerance": latency.TOLERANCE,
        "networks": {},
    }
    for name in plan.networks:
        network = NETWORKS[name].batched(plan.batch)
        _say(f"{name}: preparing")
        if not _prepared(network):
            continue
        results["networks"][name] = _measure(network, plan)
        results["machine"]["load_average_after"] = list(os.getloadavg())
        results["seconds"] = round(time.monotonic() - begin)
        # After each network: a run that is broken off has something to show.
        report.write_json(results, plan.output / "results.json")
    if not results["networks"]:
        raise SystemExit("nothing could be measured")
    print(report.text(results))
    report.write(results, plan.output)
    _say(f"{plan.output}/results.json, benchmarks.md and benchmarks.svg, in {time.monotonic() - begin:.0f} s")


def _plan(arguments: list[str] | None) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; all when left out")
    parser.add_argument("--quick", action="store_true", help="two networks and few rounds: whether it works at all")
    parser.add_argument("--rounds", type=int, help="turns of every engine, per network and number of threads")
    parser.add_argument("--repeats", type=int, help="fresh processes of every engine; 0 leaves cold starts out")
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads; 1 2 when left out")
    parser.add_argument("--batch", type=int, default=1, help="inputs of one run (default: 1); above 1 no cold starts")
    parser.add_argument("--output", type=Path, help="folder for the results; build/bench when left out")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.networks if name not in NETWORKS]
    if unknown:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    available = len(os.sched_getaffinity(0))
    threads = options.threads or [count for count in (1, 2) if count <= available]
    if max(threads) > available:
        parser.error(f"{max(threads)} threads want as many CPUs, and there are {available}")
    if options.batch < 1:
        parser.error(f"a batch of {options.batch}: at least 1")
    quick, folder = options.quick, FOLDER if options.batch == 1 else FOLDER / f"batch{options.batch}"
    return Plan(
        tuple(options.networks or (QUICK_NETWORKS if quick else NETWORKS)),
        tuple(threads),
        options.rounds if options.rounds is not None else 4 if quick else 40,
        options.repeats if options.repeats is not None else 0 if options.batch > 1 else 1 if quick else 9,
        options.batch,
        options.output or (folder / "quick" if quick else folder),
    )


def _prepared(network: Network) -> bool:
    """Make what is measured, in a process of its own; its log is shown when that fails."""
    log = network.folder / "prepare.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        command = [sys.executable, "-m", "benchmarks.prepare", network.key]
        begin = functools.partial(end_with, os.getpid())
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, preexec_fn=begin, check=False)
    if done.returncode:
        _say(f"{network.name}: left out, it could not be prepared:\n{log.read_text(errors='replace')[-2000:]}")
    return done.returncode == 0


def _measure(network: Network, plan: Plan) -> dict[str, Any]:
    ready = json.loads((network.folder / "ready.json").read_text())
    failed = dict(ready["failed"])
    for engine, module in MODULES.items():
        if importlib.util.find_spec(module) is None:
            failed[engine] = "not installed"
    engines = [name for name in ENGINES if name not in failed]
    settings = [Setting(threads) for threads in plan.threads]
    limited = "avx512f" in machine.describe()["instruction_sets"]
    settings += [Setting(threads, avx2=True) for threads in plan.threads if limited]
    found: dict[str, Any] = {
        "what": network.what,
        "parameters": ready["parameters"],
        "layer_bytes": ready["layer_bytes"],
        "how": ready["how"],
        "failed": failed,
        "claim": list(network.claim),
        "latency": {},
    }
    for setting in settings:
        _say(f"{network.name}: {setting.key} thread{'s' * (setting.threads > 1)}, {plan.rounds} rounds")
        chosen = [name for name in engines if not setting.avx2 or ENGINES[name].avx2 is not None]
        found["latency"][setting.key] = latency.measure(network, setting, plan.rounds, chosen, ready["fetches"])
    if plan.repeats:
        _say(f"{network.name}: {plan.repeats} fresh processes of each engine")
        found["cold"] = cold.measure(network, plan.repeats, engines)
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
