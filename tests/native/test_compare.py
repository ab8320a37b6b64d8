"""Verification, on real libraries: a good one, and one for each way of going wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from builder.base.errors import VerifyError
from builder.base.targets import X86_64
from builder.config import ModelSpec, OutputSpec, Tolerance
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph
from builder.verify.agreement import OutputAgreement, compare_output
from builder.verify.compare_answers import verify_library
from builder.verify.expected_answers import Rounding
from builder.verify.probe_client import Watch, no_progress
from builder.verify.target_runner import HERE, Machine, build_runner
from builder.verify.verification import Verification, require_passed
from tests.support.hand_model import CASES, HAND_MODEL, Case, golden_case, model_spec, write_golden
from tests.support.zig import CACHE, shared_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_library(tmp_path_factory.mktemp("abi") / "libmodel.so", HAND_MODEL, "-lm")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """What runs a library of another architecture, built for this one: all but the emulation is the same."""
    cache = tmp_path_factory.mktemp("runner")
    (cache / "zig").symlink_to(CACHE)
    return Machine("the runner", (str(build_runner(X86_64, cache)),))


@pytest.fixture(params=["here", "runner"])
def check(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[..., Verification]:
    machine = HERE if request.param == "here" else request.getfixturevalue("runner")

    def run(
        behaviour: str = "", cases: dict[str, Case] = CASES, spec: ModelSpec | None = None, watch: Watch = no_progress
    ) -> Verification:
        monkeypatch.setenv("COLDFORGE_TEST_BEHAVIOUR", behaviour)
        return verify_library(library, write_golden(tmp_path, cases), spec or model_spec(), machine, watch=watch)

    return run


def row(verification: Verification, fetch: str) -> OutputAgreement:
    return next(output for output in verification.outputs if output.fetch == fetch)


def test_a_right_library_passes(check: Callable[..., Verification]) -> None:
    verification = check()
    require_passed(verification)
    assert verification.passed
    assert verification.failures == ()
    assert verification.warnings == ()
    assert verification.cases == tuple(CASES)
    assert [o.output for o in verification.outputs] == ["class", "k", "b"]
    assert [o.exact for o in verification.outputs] == [False, True, True]
    assert row(verification, "y").top1_rows == 4
    assert row(verification, "y").worst is None
    assert row(verification, "y").elements == 12


def test_whoever_watches_is_told_how_many_inputs_have_an_answer(check: Callable[..., Verification]) -> None:
    told: list[tuple[int, int, str]] = []
    check(watch=lambda *now: told.append(now))
    assert told  # the child's start alone takes longer than one glance
    assert {total for _, total, _ in told} == {len(CASES)}
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert told[-1][0] <= len(CASES)
    assert all(what for _, _, what in told)


def test_the_result_is_json(check: Callable[..., Verification]) -> None:
    parsed = json.loads(json.dumps(check("nan").to_dict(), allow_nan=False))
    assert parsed["passed"] is False
    assert parsed["outputs"][0]["worst"]["ours"] == "nan"


def test_a_difference_within_the_tolerance_is_measured_and_passes(check: Callable[..., Verification]) -> None:
    verification = check("slightly")
    require_passed(verification)
    y = row(verification, "y")
    assert 0 < y.max_absolute < 1e-4
    assert 5e-6 < y.max_relative < 2e-5
    assert y.worst is not None
    assert y.worst.index == (0, 1)
    assert y.beyond == 0


def test_a_wrong_number_is_reported_with_its_place_and_both_values(check: Callable[..., Verification]) -> None:
    verification = check("wrong")
    worst = row(verification, "y").worst
    assert worst is not None
    assert (worst.case, worst.index, worst.ours, worst.theirs) == ("zeros", (0, 1), 0.25, 0.0)
    assert row(verification, "y").beyond == 4
    with pytest.raises(VerifyError) as caught:
        require_passed(verification)
    text = str(caught.value)
    for part in ("output class (fetch y)", "4 of 12", "case zeros", "element [0, 1]", "ours 0.25", "model.toml"):
        assert part in text


def test_the_tolerance_of_an_output_overrides_the_models(check: Callable[..., Verification]) -> None:
    loose = OutputSpec("class", "y", "raw", absolute=0.3, relative=0.0)
    require_passed(check("wrong", spec=model_spec((loose,))))
    with pytest.raises(VerifyError):
        require_passed(check("slightly", spec=model_spec((), Tolerance(0.0, 1e-7))))


def test_what_tensorflows_own_answer_moves_by_is_allowed_twice(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that is "noticeably" off fails, and passes where TensorFlow is that unsure."""
    monkeypatch.setenv("COLDFORGE_TEST_BEHAVIOUR", "noticeably")
    spec = model_spec(())
    assert not verify_library(library, write_golden(tmp_path, CASES), spec).passed
    off = row(verify_library(library, write_golden(tmp_path, CASES, {"y": 1e-3}), spec), "y")
    assert off.passed
    assert off.sensitivity == 1e-3
    assert not verify_library(library, write_golden(tmp_path, CASES, {"y": 1e-5}), spec).passed


def test_a_tolerance_that_is_stated_holds_as_it_is(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_TEST_BEHAVIOUR", "slightly")
    unsure = write_golden(tmp_path, CASES, {"y": 1e-3})
    assert verify_library(library, unsure, model_spec((), Tolerance(0.0, 2e-5))).passed
    found = row(verify_library(library, unsure, model_spec((), Tolerance(0.0, 1e-7))), "y")
    assert not found.passed
    assert found.sensitivity == 0.0


def test_no_sensitivity_excuses_a_wrong_kernel(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_TEST_BEHAVIOUR", "wrong")
    verification = verify_library(library, write_golden(tmp_path, CASES, {"y": math.inf}), model_spec())
    assert row(verification, "y").beyond >= 3
    with pytest.raises(VerifyError, match=r"0.0001 × \|TensorFlow's\| \+ 0.002 × max \|TensorFlow's\|"):
        require_passed(verification)
    monkeypatch.setenv("COLDFORGE_TEST_BEHAVIOUR", "off by one")
    assert not verify_library(library, write_golden(tmp_path, CASES, {"k": 1.0}), model_spec()).passed


def test_rounded_weights_may_move_an_answer_by_a_share_of_the_largest(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest is 100, and the library a quarter off; what must be equal must be so all the same."""
    graph, spec = write_golden(tmp_path, CASES), model_spec()

    def rounded(rounding: Rounding, behaviour: str = "wrong") -> Verification:
        monkeypatch.setenv("COLDFORGE_TEST_BEHAVIOUR", behaviour)
        return verify_library(library, graph, spec, HERE, rounding)

    coarse = rounded(Rounding("float16", None, "some weights were not found"))
    assert coarse.passed
    assert coarse.same_weights == ()
    assert "some weights were not found" in coarse.warnings
    assert row(coarse, "y").absolute == pytest.approx(Tolerance().absolute + 0.02 * 100)
    assert not rounded(Rounding("float32", None)).passed
    assert not rounded(Rounding("int8", None), "off by one").passed
    # Against TensorFlow with the same rounding, here its own answers, the spec's tolerance holds as it is.
    known = rounded(Rounding("float16", graph.golden_path))
    assert [output.output for output in known.outputs] == ["class"]
    assert [(output.output, output.passed) for output in known.same_weights] == [
        ("class", False),
        ("k", True),
        ("b", True),
    ]
    assert not known.too_coarse
    with_inputs = rounded(Rounding("int8", graph.golden_path, inputs=True))
    assert with_inputs.passed
    assert with_inputs.same_weights[0].absolute == pytest.approx(Tolerance().absolute + 0.05 * 100)
    assert not rounded(Rounding("int8", graph.golden_path, inputs=True), "off by one").passed


def test_a_library_that_nothing_can_run_is_said_to_be_unverified(library: Path, tmp_path: Path) -> None:
    found = verify_library(
        library, write_golden(tmp_path, CASES), model_spec(), Machine("elsewhere", missing="no emulator")
    )
    assert found.cases == ()
    assert found.machine == ""
    assert found.warnings == ("the library was built and audited, but NOT RUN: no emulator",)


@pytest.mark.parametrize(
    ("behaviour", "output", "part"),
    [
        ("off by one", "k", "must be equal"),
        ("bool", "b", "ours 2, TensorFlow's 1"),
        ("nan", "class", "ours nan"),
    ],
)
def test_what_must_be_equal_must_be_equal(
    check: Callable[..., Verification], behaviour: str, output: str, part: str
) -> None:
    verification = check(behaviour)
    assert [o.output for o in verification.outputs if not o.passed] == [output]
    with pytest.raises(VerifyError, match=part):
        require_passed(verification)


def test_nan_equals_nan_and_infinities_go_by_sign(check: Callable[..., Verification]) -> None:
    cases = CASES | {
        "nan": golden_case([0.0, 1.0, 2.0, math.nan]),
        "infinite": golden_case([0.0, 1.0, 2.0, math.inf]),
    }
    require_passed(check(cases=cases))
    worst = row(check("infinite", cases={"infinite": cases["infinite"], "zeros": CASES["zeros"]}), "y").worst
    assert worst is not None
    assert (worst.ours, worst.theirs) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("behaviour", "part"),
    [
        ("stateful", "state leaks between runs"),
        ("aligned", "in reverse order from unaligned buffers"),
        ("partial", "8 bytes of the fetch k are never written"),
        ("overrun", "outside the buffer of the fetch b"),
        ("feed", "writes to the feed n"),
        ("sloppy", "one byte too many for the fetch y is accepted"),
        ("content", "one byte too few for the feed x is accepted"),
        ("countless", "one feed too few is accepted"),
        ("countless", "one fetch too many is accepted"),
        ("mute", "without a text in cf_last_error"),
        ("hasty", "is refused, but a fetch was written"),
        ("flat", "through the flat run()"),
        ("describe", "cf_describe does not return JSON"),
        ("shape", "cf_describe says the feeds are"),
    ],
)
def test_bad_manners_are_failures(check: Callable[..., Verification], behaviour: str, part: str) -> None:
    verification = check(behaviour)
    assert not verification.passed
    with pytest.raises(VerifyError) as caught:
        require_passed(verification)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("behaviour", "part"),
    [
        ("crash", r"crashed \(SIGSEGV\) while running case last once"),
        ("illegal", "crashed .SIG(ILL|TRAP). while running case zeros"),
        ("exit", r"exit code 7\) while running case zeros"),
        ("trusting", "crashed .SIGSEGV. while being called with a null pointer for the feed x"),
        ("close", r"crashed \(SIGABRT\) while closing it"),
        ("open", "cf_open failed with CF_ERR_CPU: this processor has no AVX2"),
        ("kernel", "cf_run failed on case zeros with CF_ERR_KERNEL: the kernel fell over"),
        ("abi", "its ABI version is 9, not 1"),
    ],
)
def test_what_cannot_be_compared_is_an_error(check: Callable[..., Verification], behaviour: str, part: str) -> None:
    with pytest.raises(VerifyError, match=part):
        check(behaviour)


def test_a_file_that_is_no_library_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "libmodel.so"
    path.write_bytes(b"nothing")
    with pytest.raises(VerifyError, match="cannot be loaded"):
        verify_library(path, write_golden(tmp_path, CASES), model_spec())


def test_a_library_without_the_abi_is_an_error(tmp_path: Path) -> None:
    path = shared_library(tmp_path / "libmodel.so", "int cf_abi_version(void) { return 1; }\n")
    with pytest.raises(VerifyError, match="does not export cf_describe"):
        verify_library(path, write_golden(tmp_path, CASES), model_spec())


def test_golden_answers_that_do_not_fit_are_an_error(library: Path, tmp_path: Path) -> None:
    broken = {"only": {"feed": CASES["zeros"]["feed"], "fetch": CASES["zeros"]["fetch"] | {"k": np.zeros(3, np.int64)}}}
    with pytest.raises(VerifyError, match=r"fetch/only/k is int64\[3\], the model's is int64\[2\]"):
        verify_library(library, write_golden(tmp_path, broken), model_spec())
    lacking = {"only": {"feed": CASES["zeros"]["feed"], "fetch": {"y": CASES["zeros"]["fetch"]["y"]}}}
    with pytest.raises(VerifyError, match="has no fetch/only/k"):
        verify_library(library, write_golden(tmp_path, lacking), model_spec())
    with pytest.raises(VerifyError, match="no cases"):
        verify_library(library, write_golden(tmp_path, {}), model_spec())
    (tmp_path / "golden.npz").write_bytes(b"PK nonsense")
    graph = FrozenGraph(tmp_path, (), ())
    with pytest.raises(VerifyError, match="cannot be read"):
        verify_library(library, graph, model_spec(()))


def test_an_output_of_an_unknown_fetch_is_an_error(check: Callable[..., Verification]) -> None:
    with pytest.raises(VerifyError, match="names the fetch z"):
        check(spec=model_spec((OutputSpec("class", "z"),)))


def test_one_answer_for_all_inputs_is_a_warning(check: Callable[..., Verification]) -> None:
    same_n = {name: golden_case([float(i), 1.0, i * 2.0, -i * 1.0]) for i, name in enumerate(("one", "two", "three"))}
    verification = check(cases=same_n)
    require_passed(verification)
    assert len(verification.warnings) == 1
    assert "output k is the same for all 3 golden inputs" in verification.warnings[0]
    assert verification.warnings[0].endswith(
        "proves nothing. Name inputs of your own: `samples` under [golden] in model.toml"
    )
    (known,) = check(cases={f"sample-{name}": case for name, case in same_n.items()}).warnings
    assert known.endswith("proves nothing")
    assert "only one golden input" in check(cases={"zeros": CASES["zeros"]}).warnings[0]


def test_one_answer_for_all_photographs_is_a_warning(check: Callable[..., Verification]) -> None:
    """Though others answer differently, as they do where pixels are scaled twice."""
    near = {f"photo-{i}": golden_case([0.58 + i / 1000, 0.1, 0.3, 0.2], (i, 1)) for i in range(3)}
    verification = check(cases=CASES | near)
    require_passed(verification)
    (warning,) = verification.warnings
    assert "class" in warning
    assert "coldforge accuracy" in warning
    far = near | {"photo-2": golden_case([0.2, 0.1, 0.3, 0.2])}
    assert check(cases=CASES | far).warnings == ()
    assert check(cases=CASES | {"photo-0": near["photo-0"]}).warnings == ()


def compare(
    ours: np.ndarray, theirs: np.ndarray, kind: Any = "raw", tolerance: Tolerance | None = None
) -> OutputAgreement:
    spec = TensorSpec("y", theirs.dtype.name, theirs.shape)
    return compare_output("y", spec, kind, tolerance or Tolerance(), [("case", ours, theirs)])


def test_another_top_class_is_a_disagreement_unless_it_is_a_tie() -> None:
    theirs = np.array([[0.1, 0.5, 0.4], [0.3, 0.300001, 0.2]], np.float32)
    ours = np.array([[0.1, 0.4, 0.5], [0.300001, 0.3, 0.2]], np.float32)
    result = compare(ours, theirs, "classification", Tolerance(1.0, 0.0))
    assert result.beyond == 0
    assert (result.top1_rows, result.top1_wrong, result.top1_ties) == (2, 0, 2)
    result = compare(ours, theirs, "classification")
    assert (result.top1_rows, result.top1_wrong, result.top1_ties) == (2, 1, 1)
    assert result.top1_example == "case case, row 0: ours is class 2, TensorFlow's is class 1"
    assert not result.passed
    assert compare(ours, theirs, "raw").top1_rows == 0


def test_the_sensitivity_is_a_share_of_the_largest_magnitude() -> None:
    theirs = np.array([0.0, -50.0, 1.0, np.nan, np.inf], np.float32)
    spec = TensorSpec("y", "float32", (5,))
    for error, beyond in ((0.0099, 0), (0.0101, 3)):
        ours = theirs + np.float32(error)
        found = compare_output("y", spec, "raw", Tolerance(0.0, 0.0), [("case", ours, theirs)], sensitivity=1e-4)
        assert found.beyond == beyond
    assert found.describe_rule("|y|") == "0 + 0 × |y| + 0.0002 × max |y|"


def test_two_classes_have_a_top_one_too_and_one_class_has_none() -> None:
    theirs = np.array([[0.6, 0.4], [0.4, 0.6]], np.float32)
    found = compare(theirs[:, ::-1].copy(), theirs, "classification", Tolerance(0.15, 0.0))
    assert (found.top1_rows, found.top1_wrong) == (2, 2)
    assert compare(theirs[:, :1], theirs[:, :1], "classification").top1_rows == 0


@pytest.mark.parametrize("unknown", ["sensitivity", "absolute", "relative"])
def test_a_tolerance_that_is_no_number_allows_nothing(unknown: str) -> None:
    theirs = np.array([1.0, 2.0], np.float32)
    numbers = {"sensitivity": 0.0, "absolute": 1.0, "relative": 1.0} | {unknown: math.nan}
    found = compare_output(
        "y", TensorSpec("y", "float32", (2,)), "raw", Tolerance(numbers["absolute"], numbers["relative"]),
        [("case", theirs + np.float32(0.5), theirs)], numbers["sensitivity"],
    )  # fmt: skip
    assert found.beyond == 2


def test_64_bit_integers_that_share_a_float_are_still_different() -> None:
    theirs = np.array([2**53], np.int64)
    result = compare(theirs + 1, theirs)
    assert result.beyond == 1
    assert result.worst is not None
    assert result.worst.ours == 2**53 + 1


def test_a_scalar_and_an_empty_output() -> None:
    assert compare(np.array(1.0, np.float32), np.array(1.0, np.float32)).passed
    empty = compare(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), "classification")
    assert empty.passed
    assert empty.elements == 0


FLOATS = hnp.arrays(np.float32, (2, 3), elements=st.floats(width=32))


@given(theirs=FLOATS)
def test_anything_agrees_with_itself(theirs: np.ndarray) -> None:
    result = compare(theirs.copy(), theirs, "classification", Tolerance(0.0, 0.0))
    assert result.passed
    assert result.worst is None
    json.dumps(result.to_dict(), allow_nan=False)


@given(ours=FLOATS, theirs=FLOATS)
def test_the_rule_is_the_one_in_the_docs(ours: np.ndarray, theirs: np.ndarray) -> None:
    tolerance = Tolerance(1e-3, 1e-2)
    expected = 0
    for a, b in zip(ours.flat, theirs.flat, strict=True):
        a, b = float(a), float(b)
        if math.isnan(a) or math.isnan(b):
            agrees = math.isnan(a) and math.isnan(b)
        elif math.isinf(a) or math.isinf(b):
            agrees = a == b
        else:
            agrees = abs(a - b) <= 1e-3 + 1e-2 * abs(b)
        expected += not agrees
    result = compare(ours, theirs, tolerance=tolerance)
    assert result.beyond == expected
    assert result.passed == (expected == 0)
    json.dumps(result.to_dict(), allow_nan=False)
