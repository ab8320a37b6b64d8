"""What ``make test`` leaves out, and what ``REQUIRE_ALL=1`` makes of a missing tool."""

from __future__ import annotations

import re
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support import needs, parts


@pytest.mark.parametrize("module", parts.QUICK)
def test_the_quick_tests_are_there(module: str) -> None:
    """A test that was given another name would leave ``make test`` unnoticed."""
    found = re.findall(
        r"^ *def (test_\w*)", (ROOT / "tests" / "integration" / f"{module}.py").read_text(), re.MULTILINE
    )
    for start in parts.QUICK[module]:
        assert any(name.startswith(start.partition("[")[0]) for name in found), start


@pytest.mark.parametrize("place", parts.CHECKOUT)
def test_what_builds_in_the_checkout_is_there(place: str) -> None:
    assert (ROOT / place).exists()


@pytest.mark.parametrize(
    ("nodeid", "full"),
    [
        ("tests/unit/test_cli.py::test_a", False),
        ("tests/native/test_cpus.py::test_a[1]", False),
        ("tests/integration/test_golden.py::test_a", False),
        ("tests/integration/test_zoo.py::test_agrees_with_tensorflow[lstm-faithful]", False),
        ("tests/integration/test_zoo.py::test_agrees_with_tensorflow[resnet50-faithful]", True),
        ("tests/integration/test_nothing_of_the_kind.py::test_a", True),
        ("tests/e2e/test_deploy.py::test_a", True),
    ],
)
def test_make_test_leaves_out_what_is_not_named(nodeid: str, full: bool) -> None:
    assert parts.is_full(nodeid, nodeid.rpartition("::")[2]) == full


@pytest.mark.parametrize(
    ("nodeid", "fixtures", "group"),
    [
        ("tests/unit/test_cli.py::test_a", (), "tests/unit/test_cli.py"),
        ("tests/integration/test_pipeline.py::test_a", ("digits",), "checkout"),
        ("tests/integration/test_readme.py::test_a", (), "checkout"),
        ("tests/e2e/test_deploy.py::test_a", (), "checkout"),
        ("tests/handler/test_fuzz_corpus.py::test_a", (), "fuzz"),
    ],
)
def test_what_shares_a_folder_shares_a_process(nodeid: str, fixtures: tuple[str, ...], group: str) -> None:
    item: Any = SimpleNamespace(nodeid=nodeid, fixturenames=fixtures)
    assert parts.group(item) == group


def test_a_missing_tool_skips_by_name_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is no abacus"):
        needs.needs("abacus")
    with pytest.raises(pytest.skip.Exception, match="no_such_module"):
        needs.needs_module("no_such_module")
    monkeypatch.setenv("REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="there is no abacus"):
        needs.needs("abacus")
    assert needs.needs("sh")


def test_the_tools_are_a_script_that_the_shell_reads() -> None:
    subprocess.run(["bash", "-n", ROOT / "tests" / "tools.sh"], check=True)
