"""The site that `make docs` builds: strictly, with every page, and without a network to read it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.needs import missing
from tests.support.pages import ROOT

pytestmark = pytest.mark.integration

MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"
LOADED = re.compile(r'<(?:script|img|link rel="(?:stylesheet|icon|modulepreload)")[^>]*?(?:src|href)="([^"]*)"')


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    if not MKDOCS.exists():
        missing("there is no .venv-docs (make docs installs it)")
    command = [MKDOCS, "build", "--config-file", config, "--site-dir", site]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = [path.stem for path in (ROOT / "docs").glob("*.md")]
    assert not [page for page in pages if not (site / f"{page}.html").is_file()]
    assert (site / "project" / "CHANGELOG.html").is_file()
    assert (site / "files" / "template.yaml").read_bytes() == (ROOT / "template.yaml").read_bytes()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = {file for page in site.rglob("*.html") for file in LOADED.findall(page.read_text(encoding="utf-8"))}
    assert len(loaded) > 3
    assert not [file for file in loaded if re.match(r"(\w+:)?//", file)]


def test_a_link_to_nothing_fails(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "troubleshooting.md").open("a", encoding="utf-8") as page:
        page.write("\n[there](abi.md#nowhere)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: docs\nhooks: [{ROOT}/docs/hooks.py]\n")
    done = build(config, tmp_path / "site")
    assert done.returncode != 0
    assert "#nowhere" in done.stdout + done.stderr
