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
from benchmarks.engines import ENGINES, INT8, KINDS
from benchmarks.find_network import find_network
from benchmarks.models import FOLDER, NETWORKS, READY, ROOT, Network
from benchmarks.process import Setting, end_with
from benchmarks.untuned import UNTUNED, UNTUNED_SET
from benchmarks.worker import LONG

QUICK_NETWORKS = ("lstm", "transformer")
MODULES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "litert": "ai_edge_litert"}
"""The package that each engine's module imports."""


@dataclass(frozen=True)
class Plan:
    """The extent of a measurement: ``rounds`` of latency, ``repeats`` of fresh processes (0: none).

    ``networks`` have the names that the results have for them.
    """

    networks: dict[str, Network]
    engines: tuple[str, ...]
    avx2: bool  # whether to measure also without AVX-512, if the processor has it
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
        "long_run_s": LONG,
        "tolerance": Network.tolerance,
        "networks": {},
    }
    _say(machine.said(results["machine"]))
    for name, network in plan.networks.items():
        _say(f"{name}: preparing")
        if not _prepared(network, [name for name in plan.engines if KINDS[name].int8]):
            continue
        results["networks"][name] = _measure(network, plan)
        results["machine"]["load_average_after"] = list(os.getloadavg())
        results["seconds"] = round(time.monotonic() - begin)
        # The results are written after each network, so that an interrupted run keeps them.
        report.write_json(results, plan.output / "results.json")
    if not results["networks"]:
        raise SystemExit("nothing could be measured")
    print(report.text(results))
    _say(f"{plan.output}/results.json, in {time.monotonic() - begin:.0f} s")


def _plan(arguments: list[str] | None) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    names = ", ".join((*NETWORKS, *UNTUNED))
    known = f"of {names}, with a batch of its own as lstm-batch16; those of `make bench` when left out. "
    known += "Or the path of a model.toml, .onnx or .tflite file"
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=known)
    parser.add_argument("--quick", action="store_true", help="two networks and few rounds: whether it works at all")
    parser.add_argument("--untuned", action="store_true", help="the networks that no kernel was tuned on")
    parser.add_argument("--rounds", type=int, help="turns of every engine, per network and number of threads")
    parser.add_argument("--repeats", type=int, help="fresh processes of every engine; 0 leaves cold starts out")
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads; 1 2 when left out")
    parser.add_argument("--batch", type=int, default=1, help="inputs of one run (default: 1); above 1 no cold starts")
    parser.add_argument("--engines", nargs="+", choices=[*ENGINES, *INT8], help="engines to measure; all when left out")
    parser.add_argument("--native", action="store_true", help="leave out the rows that are limited to AVX2")
    parser.add_argument("--output", type=Path, help="folder for the results; build/bench when left out")
    options = parser.parse_args(arguments)
    chosen = options.networks or (QUICK_NETWORKS if options.quick else UNTUNED_SET if options.untuned else NETWORKS)
    try:
        networks = [find_network(name) for name in chosen]
    except KeyError as error:
        parser.error(f"no network {error}; there are {names}")
    available = len(os.sched_getaffinity(0))
    threads = options.threads or [count for count in (1, 2) if count <= available]
    if max(threads) > available:
        parser.error(f"{max(threads)} threads want as many CPUs, and there are {available}")
    if options.batch < 1:
        parser.error(f"a batch of {options.batch}: at least 1")
    rounds = options.rounds if options.rounds is not None else 4 if options.quick else 40
    quick, folder = options.quick, FOLDER if options.batch == 1 else FOLDER / f"batch{options.batch}"
    return Plan(
        {network.key: network.batched(options.batch) for network in networks},
        tuple(options.engines or [*ENGINES, *INT8]),
        not options.native,
        tuple(threads),
        rounds,
        options.repeats if options.repeats is not None else 0 if options.batch > 1 else 1 if quick else 9,
        options.batch,
        options.output or (folder / "quick" if quick else folder),
    )


def _prepared(network: Network, int8_engines: list[str]) -> bool:
    """Make the network's models in a process of its own, and return whether it succeeded; if not, show its log."""
    log = network.folder / "prepare.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        command = [sys.executable, "-m", *network.preparation, *int8_engines]
        begin = functools.partial(end_with, os.getpid())
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, preexec_fn=begin, check=False)
    if done.returncode:
        _say(f"{network.name}: left out, it could not be prepared:\n{log.read_text(errors='replace')[-2000:]}")
    return done.returncode == 0


def _measure(network: Network, plan: Plan) -> dict[str, Any]:
    ready = json.loads((network.folder / READY).read_text())
    failed = dict(ready["failed"])
    for engine in plan.engines:
        module = MODULES.get(KINDS[engine].module)
        if module and importlib.util.find_spec(module) is None:
            failed.setdefault(engine, "not installed")
    failed = {name: why for name, why in failed.items() if name in plan.engines}
    engines = [name for name in plan.engines if name not in failed]
    settings = [Setting(threads) for threads in plan.threads]
    limited = plan.avx2 and "avx512f" in machine.describe()["instruction_sets"]
    settings += [Setting(threads, avx2=True) for threads in plan.threads if limited]
    figures: dict[str, Any] = {
        "what": network.what,
        "batch": network.batch,
        "parameters": ready["parameters"],
        "layer_bytes": ready["layer_bytes"],
        "how": ready["how"],
        "failed": failed,
        "claim": list(network.claim),
        "latency": {},
    }
    for setting in settings:
        _say(f"{network.name}: {setting.key} thread{'s' * (setting.threads > 1)}, {plan.rounds} rounds")
        chosen = [name for name in engines if not setting.avx2 or KINDS[name].avx2 is not None]
        figures["latency"][setting.key] = latency.measure(network, setting, plan.rounds, chosen, ready["fetches"])
    if plan.repeats and network.batch == 1:
        _say(f"{network.name}: {plan.repeats} fresh processes of each engine")
        figures["cold"] = cold.measure(network, plan.repeats, [name for name in engines if not KINDS[name].int8])
    return figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
