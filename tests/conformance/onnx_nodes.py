"""ONNX's own cases of single operators, each run as a JAX function and held against the answers that ONNX ships.

Run it in the environment of ONNX's models: ``PYTHON -m tests.conformance.onnx_nodes [--page FILE] [--part N/M]``. It
prints the cases that fail and the numbers of cases, or writes a page with the operators.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

from builder.importers.frameworks.onnx.graph_function import GraphRunner, read_opsets

_OUT_OF_SCOPE = {
    "training": {"Adagrad", "Adam", "Gradient", "Momentum"},
    "random numbers": {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
    | {"RandomUniformLike"},
    "strings": {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"},
    "sequences and optional values": {"OptionalGetElement", "OptionalHasElement", "SequenceEmpty", "SequenceInsert"}
    | {"SequenceLength", "SequenceMap", "SplitToSequence"},
    "encoded images": {"ImageDecoder"},
    "previews": {"FlexAttention"},
}
_KINDS = frozenset({"bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))}) | {
    "bfloat16", "float16", "float32", "float64",
}  # fmt: skip
_OTHER_ANSWERS = {
    "test_resize_downsample_scales_linear_align_corners": "ONNX Runtime rounds the size of the result down first",
    "test_resize_downsample_scales_cubic_align_corners": "ONNX Runtime rounds the size of the result down first",
}
_TOLERANCE = 1e-3, 1e-6
"""Relative to an element, and to the largest one, as ONNX's own runner has them for float32."""
_COARSE_TOLERANCE = 2**-6, 2**-7
"""The same for bfloat16, whose numbers are 2⁻⁷ apart."""


def list_operators(graph: Any) -> Iterator[str]:
    """Yield the names of the operators of ``graph`` and of the graphs in it."""
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from list_operators(attribute.g)


def find_reason(case: Any) -> str:
    """Return why ``case`` is out of scope, or nothing."""
    operators = set(list_operators(case.model.graph))
    for reason, names in _OUT_OF_SCOPE.items():
        if operators & names:
            return reason
    if case.name.startswith("test_training_dropout"):
        return "training"
    if case.name in _OTHER_ANSWERS:
        return _OTHER_ANSWERS[case.name]
    values = [value for inputs, outputs in case.data_sets for value in (*inputs, *outputs)]
    if any(isinstance(value, (list, dict)) for value in values):
        return "sequences and optional values"
    kinds = {str(getattr(value, "dtype", type(value))) for value in values if value is not None}
    graphs = [*case.model.graph.node]
    casts = any(a.name == "to" and a.i > onnx.TensorProto.BFLOAT16 for node in graphs for a in node.attribute)
    if kinds - _KINDS or casts or any(name in case.name for name in ("float8", "float4", "int4", "int2", "e8m0")):
        return "numbers of less than 16 bits with a point or less than 8 without, complex numbers, strings"
    return ""


def _is_size(value: Any) -> bool:
    return value.dtype == np.int64 and value.size <= 16


def run_case(case: Any) -> str:
    """Return how ``case`` ends: "agrees", "agrees, known" (sizes and indices known), or what is wrong.

    All inputs depend on a feed at first; where the size of a result depends on one, small integers are known, then all.
    """
    (inputs, wanted), graph = case.data_sets[0], case.model.graph
    runner = GraphRunner(read_opsets(case.model.opset_import), {})
    feeds = dict(zip([value.name for value in graph.input], inputs, strict=False))
    problem = ""
    for outcome, is_known in (
        ("agrees", lambda value: value is None),
        ("agrees", lambda value: value is None or _is_size(value)),
        ("agrees, known", lambda value: value is None or value.dtype.kind in "iub"),
        ("agrees, known", lambda _: True),
    ):
        known = {name: value for name, value in feeds.items() if is_known(value)}

        def compute(traced: dict[str, Any], known: dict[str, Any] = known) -> list[Any]:
            scope = {**known, **traced}
            runner.run_graph(graph, scope)
            return [jnp.asarray(scope[value.name]) for value in graph.output]

        try:
            answers = jax.jit(compute)({name: value for name, value in feeds.items() if name not in known})
        except Exception as error:  # The next turn knows more.
            problem = str(error)
            continue
        pairs = zip(answers, wanted, strict=True)
        return outcome if all(_agree(np.asarray(a), np.asarray(w)) for a, w in pairs) else "disagrees"
    return problem


def _agree(answer: Any, wanted: Any) -> bool:
    if answer.shape != wanted.shape or answer.dtype != wanted.dtype:
        return False
    size = np.abs(wanted.astype(float))
    peak = float(np.max(size, initial=0, where=np.isfinite(size)))
    relative, absolute = _COARSE_TOLERANCE if str(wanted.dtype) == "bfloat16" else _TOLERANCE
    return np.allclose(answer.astype(float), wanted.astype(float), relative, absolute * max(peak, 1), equal_nan=True)


def main(arguments: list[str]) -> int:
    """Run the cases, and return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--part", default="0/1", help="run the cases of part N of M alone")
    chosen = parser.parse_args(arguments)
    part, parts = map(int, chosen.part.split("/"))
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    failed = []
    for case in collect_testcases(None):
        if zlib.crc32(case.name.encode()) % parts != part:
            continue
        name = next(list_operators(case.model.graph))
        outcome = f"out: {reason}" if (reason := find_reason(case)) else run_case(case)
        if not outcome.startswith(("agrees", "out: ")):
            failed.append(f"{case.name}: {outcome}")
        outcomes[name][outcome] += 1
        jax.clear_caches()
    total = sum(outcomes.values(), Counter())
    scope = sum(count for outcome, count in total.items() if not outcome.startswith("out: "))
    if chosen.page:
        chosen.page.write_text(write_page(outcomes, scope))
    print("\n".join([*failed, f"{scope - len(failed)} of {scope} cases agree"]))
    return bool(failed)


def write_page(outcomes: dict[str, Counter[str]], scope: int) -> str:
    """Return the page of operators and cases, as Markdown."""
    rows, simple = [], []
    for name, counts in sorted(outcomes.items()):
        agree, known = counts["agrees"], counts["agrees, known"]
        inside = sum(count for outcome, count in counts.items() if not outcome.startswith("out: "))
        why = "; ".join(sorted({outcome[5:] for outcome in counts if outcome.startswith("out: ")}))
        if agree == counts.total():
            simple.append(f"{name} ({agree})")
        else:
            cells = (name, inside, agree + known, known or "", counts.total() - inside or "", why)
            rows.append(f"| {' | '.join(map(str, cells))} |")
    agreeing = sum(counts["agrees"] + counts["agrees, known"] for counts in outcomes.values())
    return f"""# Operators of ONNX

<!-- Made by `make conformance GROUPS=onnx-nodes`; do not edit. -->

ONNX {onnx.__version__} has {sum(counts.total() for counts in outcomes.values())} cases of single operators with inputs
and answers. {scope} are in the scope of coldforge, and {agreeing} agree. *Known* counts those that agree if the model
itself holds the small integers (sizes, positions, conditions) that decide how large a result is. *Out* are cases of
what is refused.

| operator | cases | agree | known | out | why |
|---|---|---|---|---|---|
{chr(10).join(rows)}

All cases of the others agree:
{textwrap.fill(", ".join(simple), 120, break_on_hyphens=False)}.
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
