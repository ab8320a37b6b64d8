"""LiteRT's builtin operators, each run as a JAX function in many types and held against LiteRT's own answers.

Run it in the environment of LiteRT's models: ``PYTHON -m tests.conformance.tflite_operators [--page FILE]
[--only NAME …] [--part N/M]``. It prints the cases that fail and the numbers of cases, or writes a page with the
operators.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import zlib
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.tflite.ops import REFUSED
from builder.importers.frameworks.tflite.tflite_file import read_file
from tests.support.frameworks.tflite_cases import KINDS, Case, Kind, list_cases, make_file
from tests.support.frameworks.tflite_files import run_interpreter

TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2}
"""Of an element, or of the largest one if that is more; 1e-5 for other floats, and integers are equal."""


_NOTES = REFUSED | dict.fromkeys(
    ("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"),
    "a variable is a state of the model: see [tflite.md](tflite.md)",
)
"""What the page says of operators without cases: why they are refused, or where they are described."""


_DIFFERENCES = {
    ("DIV", "int8"): "LiteRT's shift overflows for some quotients near zero",
    ("REDUCE_PROD", "int8"): "LiteRT rounds after each factor",
    ("REDUCE_PROD", "int16"): "LiteRT rounds after each factor",
}
"""Why quantised answers may differ by more than a step; a model for which they do is not built."""


class LiteRt:
    """LiteRT in a process of its own, since some operators end it when they get a type that they do not know."""

    def __init__(self) -> None:
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    def run(self, data: bytes, feeds: list[Any]) -> list[Any] | None:
        """Return the outputs of a file, or None if LiteRT refuses it."""
        try:
            return self._pool.submit(run_interpreter, data, feeds).result()
        except BrokenProcessPool:
            self._pool = self._start()
        except (RuntimeError, ValueError, TypeError):
            pass
        return None


def run_files(files: list[tuple[bytes, list[Any]]]) -> list[Any]:
    """Return our outputs of files on feeds: a list for each file, or what is wrong with it."""
    graphs = [read_file(data, "case").graph for data, _ in files]

    def compute(feeds: list[list[Any]]) -> list[list[Any]]:
        return [list(map(jnp.asarray, graph.run(values, {}))) for graph, values in zip(graphs, feeds, strict=True)]

    try:  # All at once, since most of the time is spent to compile.
        return [list(map(np.asarray, results)) for results in jax.jit(compute)([feeds for _, feeds in files])]
    except Exception as error:
        return [error] if len(files) == 1 else [result for file in files for result in run_files([file])]


def judge(case: Case, kind: Kind, answers: list[Any], wanted: list[Any]) -> str:
    """Return how the answers of a case agree: "agrees", "1 step" of the grid of a quantised output, or what is off."""
    if case.name == "TFLite_Detection_PostProcess":  # LiteRT leaves the rest as it was.
        wanted[:3], answers[:3] = _cut_boxes(wanted), _cut_boxes(answers)
    if [(a.shape, a.dtype) for a in answers] != [(w.shape, w.dtype) for w in wanted]:
        return f"{[(a.shape, str(a.dtype)) for a in answers]} for {[(w.shape, str(w.dtype)) for w in wanted]}"
    outcome = "agrees"
    for answer, value in zip(answers, wanted, strict=True):
        if value.dtype.kind in "iub":
            off = int(np.max(np.abs(answer.astype(np.int64) - value.astype(np.int64)), initial=0))
            if off > (1 if kind.scale else 0):
                return f"{off} off"
            outcome = "1 step" if off else outcome
            continue
        bound = TOLERANCES.get(str(value.dtype), TOLERANCES.get(kind.name, 1e-5))
        wide = np.complex128 if value.dtype.kind == "c" else np.float64
        answer, value = answer.astype(wide), value.astype(wide)
        peak = float(np.max(np.abs(value), initial=0, where=np.isfinite(value)))
        if not np.allclose(answer, value, bound, bound * peak, equal_nan=True):
            return f"{np.nanmax(np.abs(answer - value)) / max(peak, 1e-30):.1g} of the largest off"
    return outcome


def _cut_boxes(results: list[Any]) -> list[Any]:
    count = int(results[3][0]) * results[1].shape[1] // 6
    return [part[:, :count] for part in results[:3]]


def main(arguments: list[str]) -> int:
    """Run the cases, and return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--only", nargs="*", help="run the cases of some operators alone")
    parser.add_argument("--part", default="0/1", help="run the cases of part N of M alone")
    chosen = parser.parse_args(arguments)
    part, parts = map(int, chosen.part.split("/"))
    litert, failed = LiteRt(), []
    outcomes: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for case in list_cases():
        if zlib.crc32(case.name.encode()) % parts != part or case.name not in (chosen.only or [case.name]):
            continue
        kinds, files, wanted = [], [], []
        for kind in (KINDS[name] for name in case.kinds):
            data, feeds = make_file(case, kind)
            answers = litert.run(data, feeds)
            if answers is not None:
                kinds.append(kind)
                files.append((data, feeds))
                wanted.append(answers)
        for kind, ours, theirs in zip(kinds, run_files(files), wanted, strict=True):
            outcome = (
                f"{type(ours).__name__}: {ours}" if isinstance(ours, Exception) else judge(case, kind, ours, theirs)
            )
            if outcome not in ("agrees", "1 step") and (case.name, kind.name.split()[0]) not in _DIFFERENCES:
                failed.append(case.name)
                print(f"{case.name} {case.label}, {kind.name}: {outcome}", flush=True)
            outcomes[case.name][kind.name][outcome] += 1
    total = sum((counts.total() for kinds in outcomes.values() for counts in kinds.values()), 0)
    if chosen.page:
        chosen.page.write_text(write_page(outcomes))
    print(f"{total - len(failed)} of {total} cases agree")
    return bool(failed)


def write_page(outcomes: dict[str, dict[str, Counter[str]]]) -> str:
    """Return the page of operators, as Markdown."""
    rows: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name in sorted({*outcomes, *_NOTES}):
        kinds = outcomes.get(name, {})
        plain = [kind for kind, counts in kinds.items() if " " not in kind and set(counts) == {"agrees"}]
        quantised = [f"{kind.split()[0]} {_describe(counts)}" for kind, counts in kinds.items() if " " in kind]
        off = [kind for kind, counts in kinds.items() if " " not in kind and set(counts) != {"agrees"}]
        known = dict.fromkeys(why for (other, _), why in _DIFFERENCES.items() if other == name)
        notes = _NOTES.get(name, f"differs in {', '.join(off)}" if off else "; ".join(known))
        rows[", ".join(plain), "; ".join(quantised), notes].append(name)
    lines = [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in rows.items()]
    counts = Counter[str]()
    for kinds in outcomes.values():
        for numbers in kinds.values():
            counts.update(numbers)
    return f"""# Operators of LiteRT

<!-- Made by `make conformance GROUPS=tflite-operators`; do not edit. -->

Each operator runs by itself on drawn numbers, in each type that LiteRT {version("ai-edge-litert")} takes, and is held
against LiteRT's answers: {counts.total()} cases, of which {counts["agrees"] + counts["1 step"]} agree. Numbers with a
point do to 1e-5 of the element or of the largest one (float16 to 2e-3, bfloat16 to 1.6e-2), integers exactly.
*Quantised* says how the integers of a quantised output agree: to the byte, or within one step of its grid. Custom
operators that are not here are refused.

| operators | types | quantised | |
|---|---|---|---|
{chr(10).join(lines)}
"""


def _describe(counts: Counter[str]) -> str:
    """Say how quantised outputs agree."""
    if set(counts) == {"agrees"}:
        return "to the byte"
    return "within 1 step" if set(counts) <= {"agrees", "1 step"} else "differs"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
