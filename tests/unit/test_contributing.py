"""The links of all pages lead somewhere, and the files and snippets of docs/contributing.md are of this checkout."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CONTRIBUTING = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
FOLDERS = ("builder/", "handler/", "tests/", "docs/", "events/", "layers/", ".ci/")
SKELETONS = re.findall(r"^```python\n# (\S+)\n(.*?)^```", CONTRIBUTING, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["architecture", "contributing", "threat-model"])
def test_a_named_file_exists(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    files = {word for word in re.findall(r"`([^`\s]+)`", prose) if word.startswith(FOLDERS)}
    assert len(files) > 10
    assert not [file for file in files if not (ROOT / file).exists()]


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
