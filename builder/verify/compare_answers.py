"""Verification of libmodel.so: its answers on the golden inputs against TensorFlow's, and its behaviour."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.config import ModelSpec, Variant
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph
from builder.importers.samples.golden_inputs import is_photograph
from builder.importers.samples.user_samples import is_sample
from builder.verify.agreement import OutputAgreement, compare_output
from builder.verify.expected_answers import ExpectedAnswers, Rounding, open_expected, widen_tolerance
from builder.verify.golden import GoldenFile
from builder.verify.probe_client import Examination, Watch, examine_library, no_progress
from builder.verify.target_runner import HERE, Machine
from builder.verify.verification import Verification

_ALIKE = 0.01
"""Answers to photographs count as equal if they differ by less than this share of the largest number in them."""

Answers = Mapping[str, Sequence[NDArray[np.uint8]]]
"""Bytes of each fetch, in the graph's order, by case."""


def verify_library(
    library: Path,
    graph: FrozenGraph,
    spec: ModelSpec,
    machine: Machine = HERE,
    rounding: Rounding | None = None,
    *,
    variant: Variant | None = None,
    watch: Watch = no_progress,
) -> Verification:
    """Run ``library`` on every case of ``graph.golden_path`` and compare each fetch with TensorFlow's.

    A child process runs every case three times (twice in a row, then in reverse order from unaligned buffers), the
    first also through the flat ``run()``, and makes bad calls, which must be refused. For a graph with state the cases
    are one sequence of calls, which ``builder.verify.probe`` repeats. ``machine``: the machine that runs the library;
    an emulated one runs less (see ``probe.run_examination``), and a missing one gives a verification without cases
    whose only warning says so. ``rounding``: that of the library's weights, if any. ``variant``: the program of the
    library for this graph, if not the first. ``watch``: see ``examine_library``.
    Raises VerifyError when the library cannot be loaded or opened, fails, hangs or crashes, or the golden
    file does not fit the graph; a disagreement is no error here: see ``builder.verify.verification.require_passed``.
    """
    if machine.missing:
        unverified = f"the library was built and audited, but NOT RUN: {machine.missing}"
        return Verification(library.name, (), (), (), (unverified,), "")
    with open_expected(graph, spec, rounding) as expected:
        examination = examine_library(library, graph, expected.cases, machine, variant, watch)
        return judge_answers(library.name, expected, examination, machine, variant)


def judge_answers(
    library: str,
    expected: ExpectedAnswers,
    examination: Examination,
    machine: Machine = HERE,
    variant: Variant | None = None,
) -> Verification:
    """Judge ``examination``, the result of running ``library``, a file's name, on (some of) the cases."""
    cases = tuple(examination.answers)
    rows, same = _compare_outputs(expected, examination.answers)
    warnings = [*expected.warnings]
    warnings += [f"golden input {case} decides nothing: {why}" for case, why in expected.golden.undecided.items()]
    warnings += _list_warnings(rows, cases)
    warnings += _list_photograph_warnings(expected, rows, list(filter(is_photograph, cases)))
    if len(cases) < len(expected.cases):
        warnings.append(f"only {len(cases)} of {len(expected.cases)} golden inputs were run: {machine.name} is slow")
    if expected.rounding and expected.rounding.warning:
        warnings.append(expected.rounding.warning)
    described = _list_description_failures(examination.description, expected.feeds, expected.fetches, variant)
    failures = (*described, *examination.failures)
    return Verification(library, cases, rows, failures, tuple(warnings), machine.name, same_weights=same)


def _compare_outputs(
    expected: ExpectedAnswers, answers: Answers
) -> tuple[tuple[OutputAgreement, ...], tuple[OutputAgreement, ...]]:
    """Compare answers with TensorFlow's, and with those on the library's own weights if they are rounded."""
    cases = tuple(answers)

    def rows(theirs: GoldenFile, share: float = 0.0, exact: bool = True) -> Iterator[OutputAgreement]:
        for output in expected.outputs:
            fetch = output.fetch
            if not exact and not fetch.dtype.startswith("float"):
                continue  # other weights may well change e.g. a class's number
            tolerance = widen_tolerance(output.tolerance, share, theirs, cases, fetch)
            pairs = _pair_answers(theirs, answers, output.number, fetch)
            yield compare_output(output.name, fetch, output.kind, tolerance, pairs, output.sensitivity)

    rounding = expected.rounding
    if rounding is None:
        return tuple(rows(expected.golden)), ()
    coarse = tuple(rows(expected.golden, rounding.share, exact=expected.same is None))
    return coarse, tuple(rows(expected.same, rounding.same_share)) if expected.same else ()


def _pair_answers(
    golden: GoldenFile, answers: Answers, number: int, fetch: TensorSpec
) -> Iterator[tuple[str, Array, Array]]:
    for case, fetches in answers.items():
        raw, theirs = fetches[number], golden.read_fetch(case, fetch.name)
        if fetch.dynamic:
            if tuple(fetches[number + 1].view(np.int32)) != theirs.shape:
                continue  # the next fetch, which holds this one's size, disagrees
            raw = raw[: theirs.nbytes]
        if fetch.dtype == "bool":
            # A byte that is neither 0 nor 1 is not a valid bool, although NumPy accepts it.
            theirs = np.ascontiguousarray(theirs).view(np.uint8)
            yield case, raw.reshape(theirs.shape), theirs
        else:
            yield case, raw.view(fetch.dtype).reshape(theirs.shape), theirs


def _list_warnings(rows: Sequence[OutputAgreement], cases: tuple[str, ...]) -> Iterator[str]:
    if len(cases) == 1:
        yield "there is only one golden input: one agreeing answer proves little"
        return
    advice = ". Name inputs of your own: `samples` under [golden] in model.toml"
    remedy = "" if any(map(is_sample, cases)) else advice
    for row in rows:
        if row.constant:
            yield (
                f"output {row.output} is the same for all {len(cases)} golden inputs (within the tolerance): "
                f"that it agrees proves nothing{remedy}"
            )


def _list_photograph_warnings(
    expected: ExpectedAnswers, rows: Sequence[OutputAgreement], photographs: Sequence[str]
) -> Iterator[str]:
    """Warn of outputs that TensorFlow gives nearly the same for all photographs, as it does if scaling is wrong."""
    constant = {row.output for row in rows if row.constant}
    for output in expected.outputs if len(photographs) > 1 else ():
        fetch = output.fetch
        if output.name in constant or fetch.dynamic or not fetch.dtype.startswith("float"):
            continue
        answers = np.stack([expected.golden.read_fetch(case, fetch.name) for case in photographs])
        if np.ptp(answers, axis=0).max(initial=0) < _ALIKE * np.abs(answers).max(initial=0):
            yield (
                f"output {output.name} is nearly the same for all {len(photographs)} photographs: if images of several "
                "classes get one answer, too, `scale`, `mean` and `channel_order` under [image] in model.toml are not "
                "those of the training. Check with `coldforge accuracy MODEL --images FOLDER`, a folder for each label"
            )


def _list_description_failures(
    text: str, feeds: tuple[TensorSpec, ...], fetches: tuple[TensorSpec, ...], variant: Variant | None = None
) -> Iterator[str]:
    """Yield the errors of a cf_describe() text that is not JSON or does not describe the graph."""
    try:
        description = json.loads(text)
    except (ValueError, RecursionError):
        yield "cf_describe does not return JSON"
        return
    described: dict[str, Any] = description if isinstance(description, dict) else {}
    if variant:
        if described.get("batch") != variant.batch:
            return  # it only states that further batches exist
        try:
            described = _select_variant(described, variant)
        except (AttributeError, LookupError, TypeError):
            described = {}
    for key, specs in (("feeds", feeds), ("fetches", fetches)):
        ours, theirs = described.get(key), [spec.to_dict() for spec in specs]
        if ours != theirs:
            yield f"cf_describe says the {key} are {json.dumps(ours)}, the graph says {json.dumps(theirs)}"


def _select_variant(described: dict[str, Any], variant: Variant) -> dict[str, Any]:
    """Return the description of one variant; it is empty if the variant is missing."""
    if variant.of:
        described = next((entry for entry in described.get("signatures", []) if entry["signature"] == variant.of), {})
    if variant.size:
        described = dict(enumerate(described.get("shapes", []))).get(variant.size, {})
    return described
