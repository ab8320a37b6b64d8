"""Verify libmodel.so: its answers on the golden feeds against TensorFlow's, and its manners."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from builder.errors import VerifyError
from builder.importers.graph import FrozenGraph
from builder.library.machine import HERE, Machine
from builder.spec import ModelSpec, OutputKind, Tolerance, Variant, WeightType
from builder.spec.tensor import TensorSpec
from builder.verify.agreement import Array, OutputAgreement, agree

ABI_VERSION = 1
TIMEOUT = 1800
"""Seconds after which a library that does not come back is given up."""
EMULATED_SECONDS = 45
"""Seconds after which an emulated processor is given no more golden inputs."""


ROUNDING_SHARE: dict[WeightType, float] = {"float32": 0.0, "float16": 0.02, "bfloat16": 0.1, "int8": 0.25}
"""How far rounded weights may move an answer, as a share of the output's largest magnitude over all golden inputs;
the spec's tolerance comes on top."""

INPUT_SHARE = 0.25
"""What rounded inputs add to that."""

FLIPPED_SHARE = 0.05
"""How far an answer may be from TensorFlow's with the same rounded weights and inputs, likewise: a number between two
steps goes to the other one where TensorFlow's sum differs in its last bit, and the steps after it amplify that."""


@dataclass(frozen=True)
class Rounding:
    """Weights that are not TensorFlow's own: ``type`` is the coarsest of them.

    ``golden``: TensorFlow's answers to the golden feeds with the same rounding; None, and a ``warning``, where
    some of them could not be found in the graph. ``inputs``: layers round their inputs as well.
    """

    type: WeightType
    golden: Path | None
    warning: str = ""
    inputs: bool = False

    @property
    def share(self) -> float:
        """How far it may move an answer from TensorFlow's own; see ``ROUNDING_SHARE``."""
        return ROUNDING_SHARE[self.type] + (INPUT_SHARE if self.inputs else 0.0)

    @property
    def same_share(self) -> float:
        """How far an answer may be from TensorFlow's with the same rounding."""
        return FLIPPED_SHARE if self.inputs else 0.0


@dataclass(frozen=True)
class Verification:
    """What verifying found. ``failures`` are misbehaviours other than a wrong number; ``warnings`` do not
    stop a build."""

    library: str
    cases: tuple[str, ...]
    outputs: tuple[OutputAgreement, ...]
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    machine: str = HERE.name  # what ran it; "" when nothing here could: then there are no cases, and a warning
    same_weights: tuple[OutputAgreement, ...] = ()
    """Where weights are rounded: against TensorFlow with the rounded ones, at the spec's own tolerance, and with inputs
    rounded too, within ``FLIPPED_SHARE`` more."""

    @property
    def passed(self) -> bool:
        return not self.failures and all(output.passed for output in (*self.outputs, *self.same_weights))

    @property
    def too_coarse(self) -> bool:
        """Whether rounding alone is at fault: with the same rounding TensorFlow agrees."""
        right = bool(self.same_weights) and all(output.passed for output in self.same_weights)
        return right and not self.failures and not self.passed

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "library": self.library,
            "passed": self.passed,
            "run_by": self.machine or None,
            "cases": list(self.cases),
            "outputs": [output.to_dict() for output in self.outputs],
            "same_weights": [output.to_dict() for output in self.same_weights],
            "failures": list(self.failures),
            "warnings": list(self.warnings),
        }


def verify(
    library: Path,
    graph: FrozenGraph,
    spec: ModelSpec,
    machine: Machine = HERE,
    rounding: Rounding | None = None,
    *,
    variant: Variant | None = None,
) -> Verification:
    """Run ``library`` on every case of ``graph.golden_path`` and compare each fetch with TensorFlow's.

    Every case is run three times (twice in a row, then in reverse order from unaligned buffers), the first
    also through the flat ``run()``, and bad calls must be refused. Of a graph with state the cases are one sequence
    of calls, which ``builder.verify.run`` repeats. All in a child process. ``machine``: what runs
    the library; an emulated one runs less (see ``builder.verify.run.examine``), and none at all gives a
    verification without cases whose only warning says so. ``rounding``: of the library's weights, if they are.
    ``variant``: which program of the library is of this graph, if not the first.
    Raises VerifyError when the library cannot be loaded or opened, fails, hangs or crashes, or the golden
    file does not fit the graph; a disagreement is no error here: see ``require``.
    """
    feeds = tuple(port.spec for port in graph.feeds)
    fetches = tuple(port.spec for port in graph.fetches)
    outputs = tuple(_outputs(spec, fetches))
    if machine.missing:
        unverified = f"the library was built and audited, but NOT RUN: {machine.missing}"
        return Verification(library.name, (), (), (), (unverified,), "")
    try:
        golden = np.load(graph.golden_path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise VerifyError(f"TensorFlow's answers ({graph.golden_path.name}) cannot be read: {error}") from error
    with golden, tempfile.TemporaryDirectory(prefix="coldforge-verify-") as temporary:
        cases = _cases(golden, feeds, fetches)
        findings, answers_path = _examine(library, graph, cases, machine, variant, Path(temporary))
        ran = tuple(findings["cases"])
        with np.load(answers_path, allow_pickle=False) as answers:
            rows, same = _agreements(outputs, fetches, golden, answers, ran, rounding)
    failures = [*_description_failures(findings["describe"], feeds, fetches, variant), *findings["failures"]]
    warnings = list(_warnings(rows, ran))
    if len(ran) < len(cases):
        warnings.append(f"only {len(ran)} of {len(cases)} golden inputs were run: {machine.name} is slow")
    if rounding is not None and rounding.warning:
        warnings.append(rounding.warning)
    return Verification(library.name, ran, rows, tuple(failures), tuple(warnings), machine.name, same)


def merged(verifications: Mapping[str, Verification]) -> Verification:
    """One of several, by what they are of in words: the first as it is, what the others found with these words."""
    (_, first), *others = verifications.items()
    outputs, same, cases, failures, warnings = (
        [*x] for x in (first.outputs, first.same_weights, first.cases, first.failures, first.warnings)
    )
    for says, other in others:
        outputs += [replace(row, output=f"{row.output} {says}") for row in other.outputs]
        same += [replace(row, output=f"{row.output} {says}") for row in other.same_weights]
        cases += [f"{case} {says}" for case in other.cases]
        failures += [f"{text} ({says})" for text in other.failures]
        warnings += [f"{text} ({says})" for text in other.warnings if text not in warnings]
    return replace(
        first,
        outputs=tuple(outputs),
        same_weights=tuple(same),
        cases=tuple(cases),
        failures=tuple(failures),
        warnings=tuple(warnings),
    )


def _agreements(
    outputs: Sequence[tuple[str, int, OutputKind, Tolerance]],
    fetches: tuple[TensorSpec, ...],
    golden: Any,
    answers: Any,
    cases: tuple[str, ...],
    rounding: Rounding | None,
) -> tuple[tuple[OutputAgreement, ...], tuple[OutputAgreement, ...]]:
    """Against TensorFlow's answers, and against those with the library's own weights where it has others."""

    def rows(theirs: Any, share: float = 0.0, exact: bool = True) -> Iterator[OutputAgreement]:
        for name, number, kind, tolerance in outputs:
            fetch = fetches[number]
            if not exact and not fetch.dtype.startswith("float"):
                continue  # a class's number, say, which other weights may well change
            allowed = _widened(tolerance, share, theirs, cases, fetch)
            yield agree(name, fetch, kind, allowed, _pairs(theirs, answers, cases, number, fetch))

    if rounding is None:
        return tuple(rows(golden)), ()
    coarse = tuple(rows(golden, rounding.share, exact=rounding.golden is None))
    if rounding.golden is None:
        return coarse, ()
    with np.load(rounding.golden, allow_pickle=False) as same:
        return coarse, tuple(rows(same, rounding.same_share))


def _widened(tolerance: Tolerance, share: float, golden: Any, cases: tuple[str, ...], fetch: TensorSpec) -> Tolerance:
    """``tolerance`` and ``share`` of the largest finite magnitude of TensorFlow's answers."""
    if not share:
        return tolerance
    values = (np.abs(golden[f"fetch/{case}/{fetch.name}"].astype(np.float64)) for case in cases)
    largest = max((float(v[np.isfinite(v)].max(initial=0.0)) for v in values), default=0.0)
    return Tolerance(tolerance.absolute + share * largest, tolerance.relative)


def require(verification: Verification) -> None:
    """Raises VerifyError naming, for every output that disagrees, the worst element and its case."""
    if verification.passed:
        return
    lines = [f"  {text}" for row in verification.outputs if not row.passed for text in _disagreement(row)]
    same = "with the same rounded weights, "
    lines += [f"  {same}{text}" for row in verification.same_weights if not row.passed for text in _disagreement(row)]
    lines += [f"  {verification.library} misbehaves: {text}." for text in verification.failures]
    advice = "Nothing was packed. This is a bug in coldforge: report it with the model's build folder."
    if not all(row.passed for row in (*verification.outputs, *verification.same_weights)):
        advice = (
            "Nothing was packed. If the model can live with this difference, raise `absolute` or `relative` for the "
            "output in model.toml; otherwise report it with the model's build folder."
        )
    if verification.too_coarse:
        advice = (
            "Nothing was packed. The library does what it should: with the same rounded weights TensorFlow agrees. "
            "They are too coarse for this model: choose another `[weights] type` in model.toml (or `[activations] "
            "type`, if it has one), or leave those layers as they are that matter most, with [[layers]]."
        )
    raise VerifyError("\n".join([f"{verification.library} does not pass verification:", *lines, advice]))


def reason(verification: Verification) -> str:
    """In a few words, why it did not pass: the output that is furthest off. Empty where it passed."""
    for row in (*verification.same_weights, *verification.outputs):
        if row.beyond and row.worst:
            return f"output {row.output} is off by {row.worst.error:.3g} where {row.worst.allowed:.3g} is allowed"
        if row.top1_wrong:
            return f"output {row.output} has another top class in {row.top1_wrong:,} of {row.top1_rows:,} rows"
    return f"the library misbehaves: {verification.failures[0]}" if verification.failures else ""


def _disagreement(row: OutputAgreement) -> Iterator[str]:
    name = row.output if row.output == row.fetch else f"{row.output} (fetch {row.fetch})"
    if row.beyond and row.worst:
        worst = row.worst
        rule = "must be equal" if row.exact else f"allowed {row.absolute:g} + {row.relative:g} × |TensorFlow's|"
        yield (
            f"output {name}: {row.beyond:,} of {row.elements:,} elements disagree with TensorFlow ({rule}). "
            f"Worst: case {worst.case}, element {list(worst.index)}: ours {worst.ours!r}, "
            f"TensorFlow's {worst.theirs!r}, off by {worst.error:.3g} where {worst.allowed:.3g} is allowed."
        )
    if row.top1_wrong:
        yield (
            f"output {name}: the top class differs in {row.top1_wrong:,} of {row.top1_rows:,} rows. "
            f"First: {row.top1_example}."
        )


def _outputs(spec: ModelSpec, fetches: tuple[TensorSpec, ...]) -> Iterator[tuple[str, int, OutputKind, Tolerance]]:
    """(output, fetch number, kind, tolerance) for each output of the spec, then each fetch it does not name."""
    numbers = {fetch.name: number for number, fetch in enumerate(fetches)}
    used = set()
    for output in spec.outputs:
        fetch = output.fetch or fetches[0].name
        if fetch not in numbers:
            raise VerifyError(
                f"output {output.name} names the fetch {fetch}, which the model does not have; "
                f"it has {', '.join(numbers)}."
            )
        used.add(fetch)
        absolute = spec.tolerance.absolute if output.absolute is None else output.absolute
        relative = spec.tolerance.relative if output.relative is None else output.relative
        yield output.name, numbers[fetch], output.kind, Tolerance(absolute, relative)
    for name, number in numbers.items():
        if name not in used:
            yield name, number, "raw", spec.tolerance


def _cases(golden: Any, feeds: tuple[TensorSpec, ...], fetches: tuple[TensorSpec, ...]) -> tuple[str, ...]:
    """The golden cases in file order; raises VerifyError when an array is missing or of another kind."""
    cases = tuple(dict.fromkeys(key.split("/", 2)[1] for key in golden.files if key.count("/") >= 2))
    if not cases:
        raise VerifyError("golden.npz has no cases to verify with; make it again.")
    for case in cases:
        for kind, ports in (("feed", feeds), ("fetch", fetches)):
            for port in ports:
                key = f"{kind}/{case}/{port.name}"
                if key not in golden.files:
                    raise VerifyError(f"golden.npz lacks {key}; make it again.")
                array = golden[key]
                if (array.dtype.name, array.shape) != (port.dtype, port.shape):
                    raise VerifyError(
                        f"golden.npz: {key} is {array.dtype.name}{list(array.shape)}, the model's is "
                        f"{port.dtype}{list(port.shape)}; make it again."
                    )
    return cases


def _examine(
    library: Path, graph: FrozenGraph, cases: tuple[str, ...], machine: Machine, variant: Variant | None, folder: Path
) -> tuple[dict[str, Any], Path]:
    """Run builder/verify/run.py; the findings and the file of answers."""

    def ports(specs: Iterator[TensorSpec]) -> list[dict[str, Any]]:
        return [{"name": s.name, "bytes": s.size} for s in specs]

    step, answers, findings_path = folder / "step", folder / "answers.npz", folder / "findings.json"
    request = {
        "abi": ABI_VERSION,
        "library": str(library.resolve()),
        "golden": str(graph.golden_path.resolve()),
        "cases": cases,
        "feeds": ports(p.spec for p in graph.feeds),
        "fetches": ports(p.spec for p in graph.fetches),
        "signature": variant.of if variant else "",
        "state": sum(p.spec.size for p in graph.states),
        "step": str(step),
        "answers": str(answers),
        "findings": str(findings_path),
        "runner": machine.runner,
        "seconds": EMULATED_SECONDS if machine.runner else TIMEOUT,
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
    command = [sys.executable, "-P", "-m", "builder.verify.run", str(folder / "request.json")]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise VerifyError(f"{library.name} did not come back in {TIMEOUT} s while {_read(step)}.") from error
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        advice = {"SIGILL": " This machine lacks an instruction the library uses."}.get(name, "")
        raise VerifyError(
            f"{library.name} crashed ({name}) while {_read(step)}.{advice} Nothing was packed; report it with the "
            "model's build folder."
        )
    if done.returncode or not findings_path.exists():
        raise VerifyError(
            f"{library.name} ended the verifying process (exit code {done.returncode}) while {_read(step)}: "
            f"{done.stderr.strip()[-2000:] or 'no message'}"
        )
    findings: dict[str, Any] = json.loads(_read(findings_path))
    if "refused" in findings:
        raise VerifyError(f"{library.name} cannot be verified: {findings['refused']}.")
    return findings, answers


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else "starting"


def _pairs(
    golden: Any, answers: Any, cases: tuple[str, ...], number: int, fetch: TensorSpec
) -> Iterator[tuple[str, Array, Array]]:
    for index, case in enumerate(cases):
        raw = answers[f"{index}/{number}"]
        theirs = golden[f"fetch/{case}/{fetch.name}"]
        if fetch.dtype == "bool":
            # A byte that is neither 0 nor 1 is no bool, whatever NumPy makes of it.
            theirs = np.ascontiguousarray(theirs).view(np.uint8)
            yield case, raw.reshape(fetch.shape), theirs
        else:
            yield case, raw.view(fetch.dtype).reshape(fetch.shape), theirs


def _description_failures(
    text: str, feeds: tuple[TensorSpec, ...], fetches: tuple[TensorSpec, ...], variant: Variant | None = None
) -> Iterator[str]:
    """Where cf_describe() is not JSON, or tells another story than the graph."""
    try:
        description = json.loads(text)
    except ValueError:
        yield "cf_describe does not return JSON"
        return
    told: dict[str, Any] = description if isinstance(description, dict) else {}
    if variant:
        if told.get("batch") != variant.batch:
            return  # of further batches it only says that they are there
        told = _told(told, variant)
    for key, specs in (("feeds", feeds), ("fetches", fetches)):
        ours = told.get(key)
        theirs = [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape), "bytes": s.size} for s in specs]
        if ours != theirs:
            yield f"cf_describe says the {key} are {json.dumps(ours)}, the graph says {json.dumps(theirs)}"


def _told(told: dict[str, Any], variant: Variant) -> dict[str, Any]:
    """What a description says of one variant; nothing, where it does not have it."""
    if variant.of:
        told = next((one for one in told.get("signatures", []) if one["signature"] == variant.of), {})
    if variant.size:
        told = dict(enumerate(told.get("shapes", []))).get(variant.size, {})
    return told


def _warnings(rows: Sequence[OutputAgreement], cases: tuple[str, ...]) -> Iterator[str]:
    if len(cases) == 1:
        yield "there is only one golden input: one agreeing answer proves little"
        return
    for row in rows:
        if row.constant:
            yield (
                f"output {row.output} is the same for all {len(cases)} golden inputs (within the tolerance): "
                "that it agrees proves nothing"
            )


@dataclass(frozen=True)
class Golden:
    """TensorFlow's answers to the golden feeds of a graph, opened for someone who runs the model in another way."""

    arrays: Any
    cases: tuple[str, ...]
    feeds: tuple[TensorSpec, ...]
    fetches: tuple[TensorSpec, ...]
    outputs: tuple[tuple[str, int, OutputKind, Tolerance], ...]
    rounding: Rounding | None = None

    def feeds_of(self, case: str) -> list[Array]:
        """The feeds in the graph's order."""
        return [self.arrays[f"feed/{case}/{port.name}"] for port in self.feeds]


@contextmanager
def open_golden(graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None = None) -> Iterator[Golden]:
    """The golden file of ``graph``, checked; ``rounding``: of the weights of who runs it.

    Raises VerifyError when it cannot be read or does not fit.
    """
    feeds = tuple(port.spec for port in graph.feeds)
    fetches = tuple(port.spec for port in graph.fetches)
    outputs = tuple(_outputs(spec, fetches))
    try:
        arrays = np.load(graph.golden_path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise VerifyError(f"TensorFlow's answers ({graph.golden_path.name}) cannot be read: {error}") from error
    with arrays:
        yield Golden(arrays, _cases(arrays, feeds, fetches), feeds, fetches, outputs, rounding)


@contextmanager
def open_expected(graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None = None) -> Iterator[Golden]:
    """``open_golden`` with what a library whose weights are rounded is to answer: what TensorFlow does with the same.

    Where that is not known, TensorFlow's own answers, and tolerances as wide as the rounding needs.
    """
    with open_golden(graph, spec, rounding) as golden:
        if rounding is None:
            yield golden
        elif rounding.golden is not None:
            with np.load(rounding.golden, allow_pickle=False) as same:
                arrays = ChainMap(same, golden.arrays)
                yield replace(golden, arrays=arrays, outputs=_all_widened(golden, rounding.same_share))
        else:
            yield replace(golden, outputs=_all_widened(golden, rounding.share))


def _all_widened(golden: Golden, share: float) -> tuple[tuple[str, int, OutputKind, Tolerance], ...]:
    return tuple(
        (name, number, kind, _widened(tolerance, share, golden.arrays, golden.cases, golden.fetches[number]))
        for name, number, kind, tolerance in golden.outputs
    )


def judge(
    library: str, golden: Golden, answers: Mapping[str, Sequence[bytes]], description: str, failures: Sequence[str]
) -> Verification:
    """The verification of ``answers``: each case's fetches as bytes, in the graph's order."""
    raw = {
        f"{index}/{number}": np.frombuffer(data, np.uint8)
        for index, case in enumerate(golden.cases)
        for number, data in enumerate(answers[case])
    }
    rows, same = _agreements(golden.outputs, golden.fetches, golden.arrays, raw, golden.cases, golden.rounding)
    return Verification(
        library=library,
        cases=golden.cases,
        outputs=rows,
        failures=(*_description_failures(description, golden.feeds, golden.fetches), *failures),
        warnings=tuple(_warnings(rows, golden.cases)),
        same_weights=same,
    )
