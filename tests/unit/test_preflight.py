"""The preflight's own logic, on hand-made nodes: no compiler, no model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.errors import PreflightError, SizeLimitError
from builder.importers import xla_ops
from builder.importers.rewrite import walk_nodes
from builder.importers.xla_ops import HINTS, Unsupported, explain_gap
from builder.pipeline.preflight import LIBRARY_OVERHEAD, Preflight, format_preflight, require_buildable

FLOAT, INT32, STRING = 1, 3, 7
NAMES = {FLOAT: "float32", INT32: "int32", STRING: "string"}


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's table of dtype names, without the three seconds it takes to import it."""
    monkeypatch.setattr(xla_ops, "dtype_name", NAMES.__getitem__)


@dataclass
class Value:
    """An attribute: a type, a list of types, or functions."""

    type: int = 0
    list: Any = None
    func: Any = None

    def HasField(self, name: str) -> bool:
        return bool({"type": self.type, "list": self.list, "func": self.func}[name])


@dataclass
class Node:
    op: str
    name: str = "n"
    attr: dict[str, Value] = field(default_factory=dict)


def functions(**bodies: list[Node]) -> Any:
    return SimpleNamespace(
        function=[SimpleNamespace(signature=SimpleNamespace(name=n), node_def=b) for n, b in bodies.items()]
    )


def calls(*names: str) -> Value:
    return Value(list=SimpleNamespace(func=[SimpleNamespace(name=n) for n in names], type=[]))


def call(name: str) -> Value:
    return Value(func=SimpleNamespace(name=name))


def plain(**changes: Any) -> Preflight:
    return replace(Preflight(10, (), 4_000_000, 4_400_000, 8_600_000, 262_144_000, 262_144_000), **changes)


class TestGap:
    def test_no_kernel(self) -> None:
        assert explain_gap(Node("AsString"), lambda op: ()) == "XLA has no kernel for it"

    def test_a_type_that_no_kernel_has(self) -> None:
        kernels = ((("T", frozenset({FLOAT})),), (("T", frozenset({INT32})),))
        assert explain_gap(Node("Neg", attr={"T": Value(INT32)}), lambda op: kernels) is None
        reason = explain_gap(Node("Neg", attr={"T": Value(STRING)}), lambda op: kernels)
        assert reason == "XLA has no kernel for T = string, only for float32, int32"

    def test_every_type_of_a_list_counts(self) -> None:
        kernels = ((("T", frozenset({FLOAT})),),)
        types = Value(list=SimpleNamespace(type=[FLOAT, STRING], func=[]))
        assert "T = string" in (explain_gap(Node("While", attr={"T": types}), lambda op: kernels) or "")

    def test_an_op_that_only_the_runtime_lacks(self) -> None:
        assert "outside the model" in (explain_gap(Node("XlaSend"), lambda op: ((),)) or "")

    @pytest.mark.parametrize("op", ["Placeholder", "Switch", "Merge", "Enter"])
    def test_what_the_compiler_takes_without_a_kernel(self, op: str) -> None:
        assert explain_gap(Node(op), lambda op: ()) is None

    @given(st.sets(st.sampled_from([FLOAT, INT32, STRING])), st.sampled_from([FLOAT, INT32, STRING]))
    def test_one_kernel_agrees_with_its_constraint(self, allowed: set[int], given_type: int) -> None:
        kernels = ((("T", frozenset(allowed)),),)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(xla_ops, "dtype_name", NAMES.__getitem__)
            reason = explain_gap(Node("Op", attr={"T": Value(given_type)}), lambda op: kernels)
        assert (reason is None) == (given_type in allowed)


class TestWalk:
    def test_paths_lead_through_callers(self) -> None:
        graph = SimpleNamespace(
            node=[Node("While", "model/loop", {"body": call("body"), "cond": call("cond")})],
            library=functions(
                body=[Node("Case", "pick", {"branches": calls("one", "two")})],
                cond=[Node("Less", "less")],
                one=[Node("AsString", "a")],
                two=[Node("one", "again")],
                unused=[Node("PyFunc", "never")],
            ),
        )
        found = [(path, node.op) for path, node in walk_nodes(graph)]
        assert found == [
            ("loop", "While"),
            ("loop > pick", "Case"),
            ("loop > pick > a", "AsString"),
            ("loop > less", "Less"),
        ]

    def test_recursion_ends(self) -> None:
        graph = SimpleNamespace(node=[Node("f", "start")], library=functions(f=[Node("Neg", "neg"), Node("f", "self")]))
        assert [path for path, _ in walk_nodes(graph)] == ["start > neg"]


class TestResult:
    missing = Unsupported("AsString", "XLA has no kernel for it", HINTS["AsString"], ("a", "b", "c", "d"))

    def test_what_is_fine_passes(self) -> None:
        require_buildable(plain())
        assert "XLA has a kernel for each of the graph's 10 nodes." in format_preflight(plain())
        assert plain().to_json()["ok"] is True

    def test_unsupported_ops_are_listed_with_count_nodes_and_hint(self) -> None:
        with pytest.raises(PreflightError) as error:
            require_buildable(plain(unsupported=(self.missing,)))
        assert "4 of the graph's 10 nodes" in str(error.value)
        assert "AsString x4: XLA has no kernel for it\n    at a, b, c and 1 more\n    it works on" in str(error.value)
        (row,) = plain(unsupported=(self.missing,)).to_json()["unsupported"]
        assert (row["op"], row["count"], row["nodes"]) == ("AsString", 4, ["a", "b", "c", "d"])

    def test_too_large_is_a_size_limit_error(self) -> None:
        large = plain(weights=300_000_000, library=300_400_000)
        with pytest.raises(SizeLimitError, match=r"Too large by at least 46\.1 MB"):
            require_buildable(large)
        assert large.to_json()["fits"] is False
        assert "PACKAGE=image" in format_preflight(large)
        larger = replace(large, weights=11 * 10**9, library=11 * 10**9, max_unzipped=10**10)
        assert "PACKAGE=image" not in format_preflight(larger)

    def test_a_large_zip_is_only_pointed_out(self) -> None:
        result = plain(weights=100_000_000, library=100_600_000)
        require_buildable(result)
        assert "through S3" in format_preflight(result)
        assert "S3" not in format_preflight(plain(weights=50_000_000, library=50_600_000))

    def test_a_zip_over_the_limit_of_the_spec_is_told_of_before_the_build(self) -> None:
        assert "over `zipped` under [limits]" in format_preflight(plain(weights=20_000_000, max_zipped=10_000_000))

    @given(st.integers(0, 10**9), st.integers(0, 10**9))
    def test_what_is_certain_is_held_against_the_limit(self, weights: int, limit: int) -> None:
        result = plain(weights=weights, library=weights + LIBRARY_OVERHEAD, max_unzipped=limit)
        assert weights < result.least < result.unzipped
        assert result.fits == (result.least <= limit)
        assert result.ok == result.fits

    def test_what_only_may_be_too_large_is_let_pass(self) -> None:
        """A limit of 16 MB refused a bundle of 14."""
        require_buildable(plain(weights=5_400_000, library=5_800_000, max_unzipped=16_000_000))
        close = plain(max_unzipped=12_900_000)
        require_buildable(close)
        assert "may be too large" in format_preflight(close)
