"""``python -m benchmarks.wasm.run [NETWORK ...]``: prepare, measure on one thread, report.

Native code, then WebAssembly: ours in wasmtime and in Node, ONNX Runtime Web and TensorFlow.js in Node. Turns are
taken as in ``benchmarks.latency``; an engine is timed only when it answers like TensorFlow.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import latency, machine
from benchmarks.engines import OURS, WASM
from benchmarks.models import NETWORKS, ROOT, Network
from benchmarks.process import Setting, end_with

SHOWN = ("emotion", "digits", "age_gender", "mobilenet_v2", "resnet50", "transformer")
PACKAGES = Path(__file__).parent / "node_modules"
REPORT = ROOT / "docs" / "benchmarks-wasm.md"
KNOWN = {name: network for name, network in NETWORKS.items() if not network.tokens}
"""Those of one input of floats, which is all that the workers in JavaScript feed."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wasm.run", description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(KNOWN)}; {', '.join(SHOWN)}")
    parser.add_argument("--rounds", type=int, default=25, help="turns of every engine")
    parser.add_argument("--report", type=Path, default=REPORT, help="table; the JSON goes beside it")
    options = parser.parse_args()
    begin = time.monotonic()
    results: dict[str, Any] = {
        "format": 1,
        "machine": machine.describe(),
        "versions": machine.versions() | _versions(),
        "settings": {kind.label: kind.settings for kind in WASM.values()},
        "networks": _measured_before(options.report.with_suffix(".json")) if options.networks else {},
    }
    for name in options.networks or SHOWN:
        network = KNOWN[name]
        print(f"{name}: preparing", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "benchmarks.wasm.prepare", name]
        subprocess.run(command, cwd=ROOT, preexec_fn=functools.partial(end_with, os.getpid()), check=True)
        results["networks"][name] = _measure(network, options.rounds)
        results["machine"]["load_average_after"] = list(os.getloadavg())
        results["seconds"] = round(time.monotonic() - begin)
        options.report.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    results["networks"] = {name: results["networks"][name] for name in NETWORKS if name in results["networks"]}
    options.report.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    text = render(results)
    options.report.write_text(text)
    print(text)


def _measured_before(path: Path) -> dict[str, Any]:
    """The networks of an earlier run: those that are named now take their places."""
    if not path.exists():
        return {}
    networks: dict[str, Any] = json.loads(path.read_text())["networks"]
    return networks


def _measure(network: Network, rounds: int) -> dict[str, Any]:
    ready = json.loads((network.folder / "ready.json").read_text())
    engines = [OURS, *(name for name in WASM if name not in ready["failed"])]
    print(f"{network.name}: {', '.join(engines)}", file=sys.stderr, flush=True)
    found = latency.measure(network, Setting(1), rounds, engines, ready["fetches"])
    found["excluded"] |= {name: why for name, why in ready["failed"].items() if name in WASM}
    return {"what": network.what, "wasm": ready["wasm"], **found}


def _versions() -> dict[str, str]:
    found = {"node": subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()}
    for package in ("onnxruntime-web", "@tensorflow/tfjs-backend-wasm"):
        found[package] = json.loads((PACKAGES / package / "package.json").read_text())["version"]
    return found


def render(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    kinds = {OURS: "coldforge, native", **{name: kind.label for name, kind in WASM.items()}}
    lines = [
        "# WebAssembly: speed",
        "",
        "Written by `make bench-wasm`. Each cell has the milliseconds for one answer on one thread: the median of the",
        "rounds' medians, and the smallest round in brackets. × is that time over native code's time. Inputs and",
        "outputs are float32, with batch 1. In each round one engine after the other has a turn; the others are",
        "stopped meanwhile. Only engines that answer like TensorFlow are timed.",
        "",
        "| network | " + " | ".join(kinds.values()) + " |",
        "|---" * (len(kinds) + 1) + "|",
    ]
    for name, network in results["networks"].items():
        engines = network["engines"]
        native = engines.get(OURS, {}).get("median_ms")
        cells = [_cell(engines.get(kind), native if kind != OURS else None) for kind in kinds]
        lines.append(f"| {name} ({network['what']}) | " + " | ".join(cells) + " |")
    lines += ["", "| network | model.wasm | model-baseline.wasm | lowered |", "|---|---|---|---|"]
    for name, network in results["networks"].items():
        simd, baseline = (network["wasm"][file] for file in ("model.wasm", "model-baseline.wasm"))
        lines.append(f"| {name} | {simd['bytes']:,} | {baseline['bytes']:,} | {simd['lowered']} |")
    left_out = [
        f"- {kinds[engine]}, {name}: {why}"
        for name, network in results["networks"].items()
        for engine, why in network["excluded"].items()
    ]
    if left_out:
        lines += ["", "Left out:", "", *left_out]
    about = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    settings = "; ".join(f"{label}: {how}" for label, how in results["settings"].items())
    rounds = sorted({e["rounds"] for network in results["networks"].values() for e in network["engines"].values()})
    load = about.get("load_average_after", about["load_average"])[0]
    lines += [
        "",
        f"{about['processor']}, {about['cpus']} CPUs, {about['system']}; load average {load:.1f} at the end;",
        f"{' to '.join(map(str, dict.fromkeys((rounds[0], rounds[-1]))))} rounds. {versions}.",
        "",
        f"{settings}.",
    ]
    return "\n".join(lines) + "\n"


def _cell(found: dict[str, Any] | None, native: float | None) -> str:
    if found is None:
        return "–"
    ratio = f" {found['median_ms'] / native:.1f}×" if native else ""
    return f"{found['median_ms']:.3g} ({found['least_ms']:.3g}){ratio}"


if __name__ == "__main__":
    main()
