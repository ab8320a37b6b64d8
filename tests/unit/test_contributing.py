"""docs/contributing.md and the links of all pages: what they name exists, so that they cannot go out of date."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CONTRIBUTING = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```", "", CONTRIBUTING, flags=re.MULTILINE | re.DOTALL)
FOLDERS = ("builder/", "handler/", "tests/", "docs/", "events/", "layers/", ".ci/")
FILES = sorted({word for word in re.findall(r"`([^`\s]+)`", PROSE) if word.startswith(FOLDERS)})
SKELETONS = re.findall(r"^```python\n# (\S+)\n(.*?)^```", CONTRIBUTING, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("file", FILES)
def test_a_named_file_exists(file: str) -> None:
    assert (ROOT / file).exists()


def test_a_named_definition_is_in_the_file_before_it() -> None:
    """An item such as "1. `file.py`: ... `name`": the name is a word of that file, or of a file in that folder."""
    checked = 0
    for item in re.findall(r"^\d\. (.+?)(?=^\d\. |^\n|^$)", PROSE, re.MULTILINE | re.DOTALL):
        words = re.findall(r"`([^`]+)`", item)
        text = "\n".join(
            p.read_text(encoding="utf-8")
            for p in ([ROOT / words[0]] if (ROOT / words[0]).is_file() else (ROOT / words[0]).glob("*"))
            if p.is_file()
        )
        for name in words[1:]:
            if re.fullmatch(r"_?[A-Za-z]+(_[a-z]+)*|[A-Z_]+", name):
                assert re.search(rf"\b{name}\b", text) or name in {"case", "@case"}, f"{words[0]} has no {name}"
                checked += 1
    assert checked > 15


@pytest.mark.parametrize(("file", "code"), SKELETONS, ids=[file for file, _ in SKELETONS])
def test_a_skeleton_imports_what_there_is(file: str, code: str) -> None:
    package = ".".join(Path(file).parent.parts)
    found = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)]
    assert found
    for node in found:
        module = importlib.import_module("." * node.level + (node.module or ""), package if node.level else None)
        for name in node.names:
            inside = importlib.util.find_spec(f"{module.__name__}.{name.name}") if hasattr(module, "__path__") else None
            assert hasattr(module, name.name) or inside, f"{module.__name__} has no {name.name}"


def test_every_recipe_has_a_skeleton_or_leads_to_one() -> None:
    assert [file for file, _ in SKELETONS] == [
        "builder/lower/steps.py",
        "handler/events/pigeon.py",
        "builder/importers/acorn.py",
        "builder/importers/rewrites/activations.py",
    ]
    assert "targets.md#a-new-target" in CONTRIBUTING


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]+`", "", text)):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        if anchor:
            assert anchor in _anchors(file), target


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
