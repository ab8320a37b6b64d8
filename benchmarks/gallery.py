"""docs/gallery.md, and README's table of proof, from the measurements in docs/: ``python -m benchmarks.gallery``.

Nothing is measured here. ``make bench`` and ``make bench-wasm`` write what this reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from benchmarks import machine
from benchmarks.engines import ENGINES, OURS
from benchmarks.models import ROOT
from benchmarks.tables import NONE, table

DOCS = ROOT / "docs"
README = ROOT / "README.md"
PROOF = re.compile(r"(?<=`python -m benchmarks.gallery`\. -->\n\n)\|.*?(?=\n\n)", re.DOTALL)
"""README's table."""

PEERS = ("onnxruntime", "openvino", "litert")
SHOWN = ("emotion", "mobilenet_v2", "resnet50")
"""The networks of README."""

Measured = dict[str, Any]


def page(native: Measured, wasm: Measured) -> str:
    """docs/gallery.md. ``native`` and ``wasm``: docs/benchmarks.json and docs/benchmarks-wasm.json."""
    processor = f"{machine.name(native['machine'])}, {machine.wide(native['machine'])}"
    parts = [
        "# Gallery",
        "<!-- Written by `python -m benchmarks.gallery` from docs/benchmarks.json and docs/benchmarks-wasm.json. -->",
        "Every network that `make bench` measures, in float32 with batch 1, beside other engines. "
        f"Processor: {processor}. [benchmarks.md](benchmarks.md) says how it was measured, and "
        "[comparison.md](comparison.md) what follows from it.",
        "- *answer*: the median time of a run, in ms, on one thread and on two.\n"
        "- *start*: a fresh process from the first import to the first answer, in ms, without Python's own start.\n"
        "- *memory*: the peak of that process, in MB, Python included.\n"
        "- *size*: the engine with its packages, and the model, in MB.",
    ]
    for name, network in native["networks"].items():
        rows = [["", "answer, 1 thread", "2 threads", "start", "memory", "size"], *_rows(network)]
        library = network["layer_bytes"] / 1e6
        parts += [
            f"## {name}",
            f"{network['what']}. {network['parameters']:,} parameters; `libmodel.so` is {library:.1f} MB.",
            table(rows),
        ]
        if name in wasm["networks"]:
            parts.append(_wasm(wasm["networks"][name]))
    return "\n\n".join(parts) + "\n"


def proof(native: Measured, function: Measured) -> str:
    """README's table. ``function``: docs/benchmarks-function.json."""
    rows = [["", *(ENGINES[engine].label for engine in (OURS, *PEERS))]]
    for name in SHOWN:
        one, cold = native["networks"][name]["latency"]["1"]["engines"], _cold(native["networks"][name])
        cells = [f"{_figure(one[e]['median_ms'])} / {cold[e]['start_ms']:.0f}" for e in (OURS, *PEERS)]
        rows.append([f"{name}: answer / start, ms", *cells])
    cold = _cold(native["networks"]["mobilenet_v2"])
    cells = [f"{cold[e]['peak_rss_mb']:.0f} / {_size(cold[e]):.0f}" for e in (OURS, *PEERS)]
    rows.append(["mobilenet_v2: memory / size, MB", *cells])
    functions = function["functions"]
    whole = [_whole(functions[e]) if e in functions else NONE for e in (OURS, *PEERS)]
    rows.append(["the whole function, emotion: cold start, ms / memory, MB", *whole])
    return table(rows)


def _whole(row: Measured) -> str:
    return f"{row['answer_ms']['median']:.0f} / {row['peak_rss_mb']['median']:.0f}"


def _rows(network: Measured) -> Iterator[list[str]]:
    for engine, kind in ENGINES.items():
        times = [network["latency"][key]["engines"].get(engine, {}).get("median_ms") for key in ("1", "2")]
        cold = _cold(network).get(engine)
        start = [f"{cold['start_ms']:.0f}", f"{cold['peak_rss_mb']:.0f}", f"{_size(cold):.1f}"] if cold else [NONE] * 3
        yield [kind.label, *(NONE if time is None else _figure(time) for time in times), *start]


def _wasm(network: Measured) -> str:
    engines = network["engines"]
    times = {name: f"{_figure(engines[name]['median_ms'])} ms" for name in ("node", "ort_web") if name in engines}
    size = network["wasm"]["model.wasm"]["bytes"] / 1e6
    beside = f"; ONNX Runtime Web takes {times['ort_web']}" if "ort_web" in times else ""
    return f"As WebAssembly ({size:.1f} MB), it answers in {times['node']} in Node{beside}: [wasm.md](wasm.md)."


def _cold(network: Measured) -> Measured:
    engines: Measured = network["cold"]["engines"]
    return engines


def _size(row: Measured) -> float:
    return float(row["engine_bytes"] + row["model_bytes"]) / 1e6


def _figure(ms: float) -> str:
    return f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"


def read(name: str) -> Measured:
    found: Measured = json.loads((DOCS / name).read_text(encoding="utf-8"))
    return found


def main() -> None:
    native = read("benchmarks.json")
    (DOCS / "gallery.md").write_text(page(native, read("benchmarks-wasm.json")), encoding="utf-8")
    shown = proof(native, read("benchmarks-function.json"))
    README.write_text(PROOF.sub(lambda _: shown, README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
