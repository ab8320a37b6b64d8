"""Where a project's files, coldforge's own and the shared cache are."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.base.commands import CHECKOUT, bundle_command, choose_command
from builder.base.project import HOME, Project, cache_folder
from builder.base.targets import ARM64


def test_a_project_elsewhere_gets_what_is_built_and_the_checkout_keeps_its_own(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert not project.is_checkout
    assert {project.build.parent, project.dist.parent, project.layers.parent} == {tmp_path}
    for own in (project.function / "app.py", project.dependencies / "build.py", project.lock, project.examples):
        assert own.exists()
        assert own.is_relative_to(HOME)
    assert Project(HOME).is_checkout


@pytest.mark.parametrize(
    ("named", "wanted"), [("/x/cache", "/x/cache"), ("", "~/.cache"), ("not/absolute", "~/.cache")]
)
def test_the_cache_is_where_xdg_says(named: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert cache_folder() == Path(wanted).expanduser() / "coldforge"


def test_messages_name_make_in_a_checkout() -> None:
    assert CHECKOUT
    assert choose_command("make a", "coldforge a") == "make a"
    assert bundle_command("my model.toml", ARM64) == "make bundle MODEL='my model.toml' TARGET=arm64"
    assert bundle_command() == "make bundle"
