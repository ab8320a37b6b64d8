"""``python -m benchmarks.frames.prepare``: each network's Python package, and the same graph for ONNX Runtime.

Below ``build/bench/frames/NETWORK``: ``package/``, and ``model.onnx`` for one row. Needs the environment of
``make bench``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.convert import to_onnx
from benchmarks.models import FOLDER, ROOT
from builder.importers.graph import FrozenGraph

NETWORKS = ("emotion", "age_gender")


def prepare(name: str) -> None:
    folder = FOLDER / "frames" / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "builder.cli"]
    subprocess.run([*command, "bundle", name, "--in", "host"], cwd=ROOT, check=True)
    subprocess.run(
        [*command, "bindings", name, "--lang", "python", "--out", str(folder / "package")], cwd=ROOT, check=True
    )
    target = folder / "model.onnx"
    to_onnx(FrozenGraph.load(ROOT / "build" / name / "import"), Path(), name, target)


if __name__ == "__main__":
    for network in NETWORKS:
        prepare(network)
