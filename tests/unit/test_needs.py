"""Check what ``REQUIRE_ALL=1`` makes of a missing tool, and the script that installs the tools."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import ROOT
from tests.support import needs


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
