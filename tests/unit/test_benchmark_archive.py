"""What `make bench-arm64` packs runs under Python 3.9 and imports nothing that is not packed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from benchmarks import machine
from benchmarks.pack import MODULES, PEERS, _pins
from tests.conftest import ROOT

ENGINES_OWN = {"numpy", "onnxruntime", "ai_edge_litert"}
LATER = {"builder", "keras", "matplotlib", "numpy"}
MAKES = "benchmarks.weights"
"""Imported in functions, which are not called there or can do without."""


def source(module: str) -> ast.Module:
    return ast.parse((ROOT / "benchmarks" / f"{module}.py").read_text(encoding="utf-8"), feature_version=(3, 9))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_needs_only_what_is_packed(module: str) -> None:
    packed = {f"benchmarks.{name}".replace("/", ".").removesuffix(".__init__") for name in MODULES}
    for name in imported(source(module)):
        top = name.partition(".")[0]
        if top == "benchmarks":
            assert {name, name.rpartition(".")[0]} & {*packed, MAKES}, name
        elif top not in sys.stdlib_module_names:
            assert top in (ENGINES_OWN if module.startswith("engines/") else LATER), name


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_no_argument_that_python_3_9_lacks(module: str) -> None:
    if module == "plot":  # which draws only where matplotlib is
        return
    for node in ast.walk(source(module)):
        if isinstance(node, ast.Call):
            assert {keyword.arg for keyword in node.keywords}.isdisjoint({"strict", "process_group"})


def test_peers_are_those_of_make_bench() -> None:
    (litert,) = _pins(["litert"])
    assert litert.startswith("ai-edge-litert==")
    assert len(_pins(list(PEERS))) == len(PEERS)


def test_a_graviton_is_named_by_its_cores() -> None:
    three = {
        "processor": "Neoverse V1",
        "family_model_stepping": ["0x41", "0xd40", "1"],
        "instruction_sets": ["asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve"],
        "cpus": 2,
        "system": "Linux 6.1",
    }
    assert machine.name(three) == "Neoverse V1, Graviton3"
    assert machine.wide(three) == "NEON with i8mm"
    assert machine.said(three).startswith("Neoverse V1, Graviton3 (0x41/0xd40/1), 2 CPUs, asimd, asimdhp, asimddp,")
