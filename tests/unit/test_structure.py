"""The shape of the builder: which module imports which, imports inside functions included."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

STAGES = (
    "import_model",
    "compile_graph",
    "resolve_options",
    "lower_program",
    "verify_library",
    "fallbacks",
    "pack_bundle",
)
"""In the order the data flows, as the package's docstring says."""


def sources() -> dict[str, Path]:
    """Every module of the builder, by its name."""
    found = {}
    for path in sorted((ROOT / "builder").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports() -> dict[str, set[str]]:
    """Which modules of the builder each one imports, at any place in it, for types alone too."""
    modules = sources()
    return {name: set(imported(name, path, modules)) - {name} for name, path in modules.items()}


def imported(name: str, path: Path, modules: Mapping[str, Path]) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in modules]
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            assert not node.level, f"{name} imports by a relative name"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [one if one in modules else node.module for one in inside]
    return found


def rooms() -> dict[str, set[str]]:
    """The same between the packages and loose modules of the builder."""

    def room(module: str) -> str:
        return ".".join(module.split(".")[:2])

    found: dict[str, set[str]] = {}
    for name, others in imports().items():
        if name != "builder":
            found.setdefault(room(name), set()).update(room(other) for other in others if other != "builder")
    return {name: others - {name} for name, others in found.items()}


def in_order(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes, each after all that it imports."""
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a cycle of imports: {' <- '.join(error.args[1])}")


def test_no_modules_import_each_other_in_a_cycle() -> None:
    assert "builder.pipeline.build_bundle" in in_order(imports())


def test_no_packages_import_each_other_in_a_cycle() -> None:
    assert "builder.pipeline" in in_order(rooms())


def test_a_stage_knows_only_those_before_it() -> None:
    graph = imports()

    def reached(name: str) -> set[str]:
        direct = {other for other in graph[name] if other.startswith("builder.pipeline.")}
        return direct.union(*(reached(other) for other in direct))

    for number, stage in enumerate(STAGES):
        later = {f"builder.pipeline.{name}" for name in STAGES[number + 1 :]}
        if stage == "resolve_options":  # it measures on libraries of its own
            later -= {"builder.pipeline.lower_program"}
        assert not reached(f"builder.pipeline.{stage}") & later, stage


def test_a_bundle_goes_through_the_stages_in_their_order() -> None:
    tree = ast.parse((ROOT / "builder" / "pipeline" / "build_bundle.py").read_text(encoding="utf-8"))
    stage_of = {
        alias.name: node.module.removeprefix("builder.pipeline.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("builder.pipeline.")
        for alias in node.names
    }
    (build,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "build_bundle")
    calls = [node for node in ast.walk(build) if isinstance(node, ast.Call)]
    called = sorted((call.lineno, call.func.id) for call in calls if isinstance(call.func, ast.Name))
    went = [stage_of[name] for _, name in called if name in stage_of]
    assert [stage for stage in went if stage in STAGES] == [
        "import_model",
        "compile_graph",
        "resolve_options",
        "fallbacks",
        "pack_bundle",
    ]


NO_VERBS = {
    "asked",
    "beside",
    "found",
    "given",
    "held",
    "here",
    "kept",
    "known",
    "met",
    "said",
    "taken",
    "told",
    "within",
}
"""Words that do not tell what a function does or a property is."""


def test_names_are_unique_and_say_what_they_name() -> None:
    modules, classes, functions = Counter[str](), Counter[str](), set()
    for path in [*(ROOT / "builder").rglob("*.py"), *(ROOT / "handler").rglob("*.py")]:
        if path.stem.strip("_") == path.stem and path.is_relative_to(ROOT / "builder"):
            modules[path.stem] += 1
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.add(node.name.strip("_"))
    assert not [name for name, count in (modules + classes).items() if count > 1]
    assert not functions & NO_VERBS
