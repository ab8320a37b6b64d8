"""Golden answers of the framework that a model comes from: JAX's and PyTorch's own, not TensorFlow's.

TensorFlow runs the StableHLO program made of such a model. The framework's answers to the same inputs are the truth,
and the golden file holds them; TensorFlow's run has to agree with them. Where the two differ by no more than rounding
can explain, two right runs of one program differ, and that input judges no library. The framework knows neither
preprocessing nor activations of the spec, so it gets the tensors that enter the program, and its answers go on through
the graph from the end of the program.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from builder.base.arrays import Array
from builder.base.errors import VerifyError
from builder.base.tf import load_graph, reference_session
from builder.config import ModelSpec
from builder.importers.frameworks.framework_model import ANSWERED, ASKED, load_cases, save_cases
from builder.importers.graph import MODEL_SCOPE, FrozenGraph
from builder.importers.loaded import tensor_name
from builder.importers.samples.golden_inputs import PROBES, is_example
from builder.importers.stablehlo_program import NODE
from builder.verify.agreement import OutputAgreement, compare_output
from builder.verify.expected_answers import ExpectedOutput, open_expected
from builder.verify.golden import GoldenCase, GoldenFile
from builder.verify.sensitivity import ENOUGH, find_unstable_cases


def write_program_inputs(graph: FrozenGraph, folder: Path) -> None:
    """Write ASKED into ``folder``: the tensors that enter the program of ``graph`` in each golden case."""
    definition = graph.read_definition()
    (program,) = (node for node in definition.node if node.name == MODEL_SCOPE + NODE)
    inputs: dict[str, Sequence[Array]] = {}
    loaded = load_graph(definition)
    with reference_session(loaded) as session, GoldenFile.open(graph.golden_path) as golden:
        entering = [loaded.get_tensor_by_name(tensor_name(name)) for name in program.input[: len(graph.feeds)]]
        for case in golden.cases:
            inputs[case] = session.run(entering, {p.tensor: golden.read_feed(case, p.spec.name) for p in graph.feeds})
    save_cases(folder / ASKED, inputs)


def adopt_answers(spec: ModelSpec, graph: FrozenGraph, folder: Path, framework: str) -> None:
    """Put the answers in ``folder``'s ANSWERED into the golden file of ``graph``.

    Leave out inputs on which TensorFlow's run of the program differs by rounding; at least ``ENOUGH`` others must stay.
    Raises VerifyError if the two disagree otherwise, or an answer is missing.
    """
    answered = _read_answers(folder / ANSWERED, framework)
    with open_expected(graph, spec) as expected:
        golden = expected.golden
        truth, has_examples = _compute_fetches(graph, golden, answered), any(map(is_example, golden.cases))
        # Beside inputs like the model's own, it may refuse others, such as a number that is no category.
        usual = [case for case in golden.cases if case not in PROBES and (not has_examples or is_example(case))]
        missing = [case for case in usual if case not in truth]
        if missing:
            raise VerifyError(f"{framework} has no answer to the golden inputs {', '.join(missing)}.")
        undecided = golden.undecided
        for output in expected.outputs:
            undecided |= _find_differing(output, golden, truth, framework)
        if graph.states and undecided.keys() & truth.keys():  # The cases are one sequence of calls.
            first = min(map(list(truth).index, undecided.keys() & truth.keys()))
            undecided |= {case: f"it follows {list(truth)[first]}" for case in list(truth)[first + 1 :]}
        cases = {
            case: GoldenCase({port.name: golden.read_feed(case, port.name) for port in expected.feeds}, fetches)
            for case, fetches in truth.items()
            if case not in undecided
        }
        sensitivity, rounding = (
            {port.name: share(port.name) for port in expected.fetches if share(port.name)}
            for share in (golden.read_sensitivity, golden.read_rounding)
        )
    GoldenFile.write(graph.golden_path, cases, sensitivity, undecided, rounding)


def _find_differing(
    output: ExpectedOutput, golden: GoldenFile, truth: Mapping[str, Mapping[str, Array]], framework: str
) -> dict[str, str]:
    """Find the cases in which TensorFlow's run differs from ``truth``, and describe the difference.

    Raises VerifyError if it differs by more than rounding, or in so many cases that fewer than ``ENOUGH`` are left.
    """
    name = output.fetch.name

    def compare(cases: Iterable[str]) -> OutputAgreement:
        rows = ((case, golden.read_fetch(case, name), truth[case][name]) for case in cases)
        return compare_output(output.name, output.fetch, output.kind, output.tolerance, rows, output.sensitivity)

    off = {case: difference for case in truth if not (difference := compare([case])).passed}
    run = {case: {name: golden.read_fetch(case, name)} for case in off}
    if off and (len(truth) - len(off) < ENOUGH or find_unstable_cases([output], truth, run, "")):
        raise VerifyError(_describe_disagreement(framework, compare(truth)))
    return {
        case: f"TensorFlow's run of the program is off {framework}'s own {output.name} by {difference.max_absolute:.3g}"
        for case, difference in off.items()
    }


def _describe_disagreement(framework: str, agreement: OutputAgreement) -> str:
    worst = agreement.worst
    where = f" (worst: {worst.case} {list(worst.index)}, {worst.ours:.6g} for {worst.theirs:.6g})" if worst else ""
    return (
        f"What was made of the model does not answer as {framework} does: output {agreement.output!r} is off by up to "
        f"{agreement.max_absolute:.3g} in {agreement.beyond} of {agreement.elements} elements{where}. Please report "
        "this model."
    )


def _read_answers(path: Path, framework: str) -> dict[str, list[Array]]:
    """Read the answers by case. Raises VerifyError."""
    try:
        return load_cases(path)
    except (OSError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise VerifyError(f"{framework}'s answers cannot be read: {error}") from error


def _compute_fetches(
    graph: FrozenGraph, golden: GoldenFile, answered: dict[str, list[Array]]
) -> dict[str, dict[str, Array]]:
    """Compute the fetches of each answered case from the program's results; its states, which come last, are zeros."""
    truth, loaded = {}, load_graph(graph.read_definition())
    with reference_session(loaded) as session:
        outputs = loaded.get_operation_by_name(MODEL_SCOPE + NODE).outputs
        results = outputs[: len(outputs) - len(graph.states)]
        states = {state: np.zeros(state.shape, state.dtype.as_numpy_dtype) for state in outputs[len(results) :]}
        for case, answers in answered.items():
            if case not in golden.cases or len(answers) != len(results):
                raise VerifyError(f"The answers to {case} are not those that were asked for.")
            fed = states | {p.tensor: golden.read_feed(case, p.spec.name) for p in graph.feeds}
            for result, value in zip(results, answers, strict=True):
                expected, actual = (f"{a.dtype.name}{list(a.shape)}" for a in (result, value))
                if expected != actual:
                    raise VerifyError(f"An answer to {case} is {actual}, not {expected}.")
                fed[result] = value
            actual = session.run([p.tensor for p in graph.fetches], fed)
            pairs = zip(graph.fetches, actual, strict=True)
            truth[case] = {port.spec.name: np.asarray(value, port.spec.dtype) for port, value in pairs}
    return truth
