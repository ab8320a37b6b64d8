"""Compile a frozen graph with the tfcompile inside the TensorFlow wheel.

The only module that calls TensorFlow's private compiler. It does so in a process of its own
(``python -m builder.xla.tfcompile``): flags are read once per process, a compiler crash is then an error with a
message, and what it writes to stderr can be kept apart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import CompileError
from builder.importers.graph import FrozenGraph
from builder.importers.tf import ENVIRONMENT, IR_FLAGS, XLA_FLAGS
from builder.targets import TARGETS, WASM32, Target

ENTRY_POINT = "coldforge_graph"
"""Prefix of every symbol in graph.o: fixed, so that the objects are the same wherever they are built."""


@dataclass(frozen=True)
class CompiledGraph:
    """What tfcompile made for one target: kernels in ``graph.o``, and all it knows of them in ``graph_metadata.o``."""

    folder: Path
    target: Target
    flags: str  # the effective XLA_FLAGS
    tensorflow: str  # version
    seconds: float

    @property
    def kernels_path(self) -> Path:
        return self.folder / "graph.o"

    @property
    def metadata_path(self) -> Path:
        return self.folder / "graph_metadata.o"

    @property
    def ir_paths(self) -> tuple[Path, ...]:
        """The kernels as LLVM IR for ``target.xla``, not yet optimised; none for targets that XLA compiles for."""
        return tuple(sorted(self.folder.glob("graph*.ll")))

    def save(self) -> None:
        """Write what is not in the objects beside them, for ``load``."""
        facts = {"flags": self.flags, "tensorflow": self.tensorflow, "seconds": round(self.seconds, 3)}
        (self.folder / "compile.json").write_text(json.dumps(facts, indent=1))

    @classmethod
    def load(cls, folder: Path, target: Target) -> CompiledGraph:
        """What ``compile_graph`` left in ``folder``."""
        return cls(folder, target, **json.loads((folder / "compile.json").read_text()))


def flags_for(target: Target) -> str:
    """XLA_FLAGS of a compilation for ``target``."""
    return IR_FLAGS if target.xla.leaves_ir else XLA_FLAGS


def compile_graph(graph: FrozenGraph, target: Target, folder: Path, part: str = "") -> CompiledGraph:
    """Compile ``graph`` for ``target`` into ``folder``; 3 to 20 s.

    ``part``: goes into every symbol's name; graphs whose kernels are in one library must differ in it.
    The same graph gives the same kernels, byte for byte, and metadata that differs in the order of maps at most.
    Raises CompileError with the compiler's own reason.
    """
    from builder.xla.descriptors import tensorflow_version

    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "builder.xla.tfcompile", str(graph.folder.resolve()), target.name, part],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    result = CompiledGraph(folder, target, flags_for(target), tensorflow_version(), time.monotonic() - started)
    if done.returncode != 0 or not result.kernels_path.exists() or not result.metadata_path.exists():
        raise CompileError(explain(done.returncode, done.stderr))
    if target.xla.leaves_ir and not result.ir_paths:
        raise CompileError("XLA left no LLVM IR; coldforge needs the TensorFlow version of `make setup`.")
    for leftover in ("graph.h", "graph_constants.o"):
        (folder / leftover).unlink(missing_ok=True)
    result.save()
    return result


_LOG_PREFIX = re.compile(r"^(?:[IWEF]\d{4} [\d:.]+\s+\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IWEF] )\S+?:\d+\] ?")
_NOISE = re.compile(
    r"^\s*(?:File \"|Traceback |\*\*\*|@ +0x|self\.|raise |WARNING: All log|To enable the following|$"
    r"|The op is created at:|dummy_file_name|Stack trace for op definition:)"
    r"|TF_DUMP_GRAPH_PREFIX|XLA compilation requires that operator arguments|cpu_feature_guard|MLIR crash reproducer"
    r"|Number of eligible GPUs|Starting new session|absl::InitializeLog"
)


def explain(code: int, stderr: str) -> str:
    """The message for a compiler process that ended with ``code``, from the lines of ``stderr`` that matter."""
    lines = [_LOG_PREFIX.sub("", line).rstrip() for line in stderr.splitlines() if not _NOISE.search(line)]
    useful = [re.sub(r"^[\w.]*\.(\w+(?:Error|Exception)): ", "", line) for line in lines if line.strip()]
    # The exception comes last, and tfcompile puts the whole reason there.
    shown = list(dict.fromkeys(useful[-8:] if code < 0 else _from_error(useful)))
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        head = f"XLA's compiler crashed ({name})."
        if name == "SIGKILL":
            head += " It was killed from outside, which mostly means that memory ran out."
    else:
        head = "XLA cannot compile this graph:"
    body = "\n".join(f"  {line[:500]}" for line in shown)
    return f"{head}\n{body or '  (it said nothing)'}"


def _from_error(lines: list[str]) -> list[str]:
    starts = [i for i, line in enumerate(lines) if re.match(r"(?:\w+(?:Error|Exception): |[A-Z_]{6,}: )", line)]
    return lines[starts[-1] :][:8] if starts else lines[-8:]


def _main(arguments: Sequence[str]) -> None:
    """In the child: compile the graph in the folder ``arguments[0]`` into the current one."""
    graph, name = Path(arguments[0]), arguments[1]
    xla = next(target.xla for target in (*TARGETS, WASM32) if target.name == name)
    part = arguments[2] if len(arguments) > 2 else ""
    from builder.importers.tf import tensorflow

    tensorflow(leave_ir=xla.leaves_ir)
    from tensorflow.python import _pywrap_tfcompile

    _pywrap_tfcompile.Compile(
        graph=str(graph / "graph.pb"),
        config=str(graph / "config.pbtxt"),
        cpp_class=f"coldforge::Graph{part}",
        target_triple=xla.triple,
        target_cpu=xla.cpu,
        target_features="",
        entry_point=f"{ENTRY_POINT}{part}",
        out_function_object="graph.o",
        out_metadata_object="graph_metadata.o",
        out_header="graph.h",
        out_constant_buffers_object="graph_constants.o",
        gen_name_to_index=False,
        gen_program_shape=False,
    )
    if xla.leaves_ir:
        # One file for each part that XLA compiles on its own; what else it left is for people who debug XLA.
        for number, path in enumerate(sorted(Path("ir").glob("*.ir-no-opt.ll"))):
            path.replace(f"graph{number}.ll")
        shutil.rmtree("ir")


if __name__ == "__main__":
    _main(sys.argv[1:])
