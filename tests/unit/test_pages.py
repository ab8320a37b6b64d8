"""Pages of docs/ that are made from something else agree with it, and none leaves a case out."""

from __future__ import annotations

import re

import pytest

from builder.base.errors import INTERRUPTED, PIPE_CLOSED, ColdforgeError
from builder.cli.docs_pages import DOCS, HEADER, format_pages
from handler.errors import HandlerError
from tests.support.pages import ROOT, SERVED, served_commands


def test_pages_say_what_the_code_says() -> None:
    outdated = [path.name for path, text in format_pages().items() if path.read_text(encoding="utf-8") != text]
    assert not outdated, "run `python -m builder.cli.docs_pages`"


def test_the_abis_page_has_every_function() -> None:
    declared = re.findall(r"^[a-z].*?\b(cf_\w+)\(", HEADER.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(declared) > 10
    headings = (
        " ".join(re.findall(r"^## (.+)$", (DOCS / "abi.md").read_text(encoding="utf-8"), re.MULTILINE))
        .replace(",", "")
        .split()
    )
    assert not set(declared) - set(headings)


def test_the_site_has_every_page() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f": {page.name}\n" not in config]
    assert not missing, "give each a line under nav in mkdocs.yml"


CODES = [*(error.code for error in HandlerError.__subclasses__()), "internal"]
EXITS = [*(error.exit_code for error in ColdforgeError.__subclasses__()), INTERRUPTED, PIPE_CLOSED]


@pytest.mark.parametrize("code", [*(f"`{code}`" for code in CODES), *map(str, EXITS)])
def test_there_is_help_for_every_error(code: str) -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    first = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    assert any(code in re.findall(r"`\w+`|\d+", cell) for cell in first)


def test_commands_to_a_served_function_are_run_somewhere() -> None:
    pages = {page.relative_to(ROOT).as_posix() for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
    assert {page for page in pages if served_commands(page)} == set(SERVED)
    for page, test in SERVED.items():
        assert f'served_commands("{page}")' in (ROOT / test).read_text(encoding="utf-8"), page
