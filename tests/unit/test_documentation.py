"""`coldforge docs`: every page as text, on a terminal, and in a browser."""

from __future__ import annotations

import ast
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from builder.base.documentation import build_site
from builder.base.errors import UsageError
from builder.cli import main
from tests.conftest import ROOT
from tests.support.results import printed

PAGES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


TEMPLATES = [ROOT / "template.yaml", *sorted((ROOT / "builder" / "release" / "addons").rglob("*.yaml"))]
SOURCES = [path for folder in ("builder", "handler") for path in (ROOT / folder).rglob("*")]


def strings(path: Path) -> Iterator[str]:
    """Each string of a module but docstrings; of another file, all of it."""
    if path.suffix != ".py":
        yield path.read_text(encoding="utf-8")
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def calls(path: Path) -> Iterator[ast.Call]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "docs_command")


def test_messages_name_pages_as_whoever_installed_a_wheel_has_them() -> None:
    files = [path for path in SOURCES if path.suffix in {".py", ".in", ".html", ".js", ".mjs", ".toml"}]
    naming = [
        (path.relative_to(ROOT).as_posix(), text)
        for path in [*files, *TEMPLATES]
        for text in strings(path)
        if re.search(r"(?<!/)docs/[\w-]+\.md", re.sub(r"`python -m [\w.]+ docs/[\w-]+\.md`", "", text))
    ]
    assert not naming


def test_each_page_that_a_message_names_exists() -> None:
    """``docs_command`` with anything but a page's name, written out, is in a function that makes pages."""
    named = [argument for path in SOURCES if path.suffix == ".py" for call in calls(path) for argument in call.args]
    written = [one.value for one in named if isinstance(one, ast.Constant)]
    texts = [path for path in SOURCES if path.suffix == ".in" or path.name == "schema.py"] + TEMPLATES
    for path in texts:
        written += re.findall(r"`coldforge\s+docs\s+(\S+)`", path.read_text(encoding="utf-8"))
    assert len(written) > 20
    assert {page for page in written if page not in PAGES} <= {r"([\w-]+)"}


def test_all_pages_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:]]
    assert [name for name, _ in rows] == sorted(PAGES)
    assert all(f"# {title}\n" in PAGES[name] for name, title in rows)


def test_a_page_is_text_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in PAGES.items():
        assert main(["docs", name]) == 0
        assert capsys.readouterr().out == text
    assert main(["docs", "projects", "--json"]) == 0
    found = printed("docs", capsys.readouterr().out)
    assert found == {"page": "projects", "text": PAGES["projects"], "address": None}


def test_a_page_that_there_is_not_gets_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "modle-toml"]) == UsageError.exit_code
    assert "model-toml" in capsys.readouterr().err


def test_a_terminal_gets_it_in_the_pager() -> None:
    """Laid out, and with links that a reader in a terminal can follow."""
    reading, writing = pty.openpty()
    command = [sys.executable, "-m", "builder.cli", "docs", "targets"]
    environment = os.environ | {"PAGER": "sed s/^/paged:/", "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=writing, stdout=writing) as process:
        os.close(writing)
        said = b""
        try:
            while piece := os.read(reading, 1 << 16):
                said += piece
        except OSError:  # how Linux says that the other end is closed
            pass
        os.close(reading)
    text = said.decode()
    assert process.returncode == 0
    assert all(line.startswith("paged:") for line in text.splitlines())
    assert "coldforge docs cost" in text
    assert "](" not in text
    assert "\x1b[1" in text


class Links(HTMLParser):
    """``found``: the targets of links and pictures; ``anchors``: the ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.anchors |= {value for name, value in attrs if name == "id" and value}
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def test_a_browser_gets_a_site_whose_links_all_lead_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/opened"\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "builder.cli", "docs", "projects", "--web"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"BROWSER": f"{browser} %s"}, capture_output=True, text=True, check=True
    )
    page = Path(unquote(urlsplit(done.stdout.strip()).path))
    assert (tmp_path / "opened").read_text() == done.stdout
    site = build_site(tmp_path / "coldforge")
    assert page == site / "projects.html"
    pages = {file.resolve(): Links(file.read_text(encoding="utf-8")) for file in site.glob("*.html")}
    assert {file.stem for file in pages} == {"index", *PAGES}
    dead = []
    for file, links in pages.items():
        for link in links.found:
            address = urlsplit(link)
            if address.scheme in ("", "file"):
                target = (file.parent / unquote(address.path)).resolve() if address.path else file
                if not target.exists() or (target in pages and unquote(address.fragment) not in pages[target].anchors):
                    dead.append((file.name, link))
    assert sum(len(links.found) for links in pages.values()) > 100
    assert not dead
