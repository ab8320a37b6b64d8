"""A library that was taken over is verified: it reaches nothing, and what it leaves is told from answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.base.errors import VerifyError
from builder.base.sandbox import KernelFeatures
from builder.base.targets import X86_64
from builder.verify.compare_answers import verify_library
from builder.verify.target_runner import HERE, Machine, build_runner
from tests.support.hand_model import CASES, model_spec, write_golden
from tests.support.zig import CACHE, shared_library

SOURCE = Path(__file__).parents[1] / "support" / "attacking_library.c"
KERNEL = KernelFeatures.from_machine()

FORM = {"cases": list(CASES), "describe": "{}", "failures": []}
"""What findings look like; the answers to the cases are not there."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_library(tmp_path_factory.mktemp("attacking") / "libmodel.so", SOURCE)


@pytest.mark.skipif(KERNEL.landlock < 6 or not KERNEL.seccomp, reason="this kernel has no Landlock 6, or no seccomp")
@pytest.mark.parametrize("emulated", [False, True])
def test_it_reaches_nothing(emulated: bool, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the process that loads it nor in that of an emulator, here of the same processor."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "zig").symlink_to(CACHE)
    runner = build_runner(X86_64, tmp_path / "cache") if emulated else None
    monkeypatch.setenv("COLDFORGE_TEST_OUTSIDE", str(tmp_path / "outside"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "stand-in")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    golden = write_golden(tmp_path, CASES)
    with pytest.raises(VerifyError) as caught:
        verify_library(library, golden, model_spec(), Machine("the runner", (str(runner),)) if runner else HERE)
    lines = [line.rpartition(": ") for line in str(caught.value).splitlines()]
    found = {attack.rpartition(": ")[2]: int(number) for attack, _, number in lines}
    assert len(found) == 12
    assert [attack for attack, number in found.items() if number == 0] == []
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]


@pytest.mark.parametrize(
    "findings",
    [
        "", "[]", "{}", "[" * 100_000, '{"cases": {"zeros": 1}, "describe": "", "failures": []}',
        json.dumps(FORM | {"cases": ["another"]}), json.dumps(FORM | {"failures": [1]}), json.dumps(FORM),
    ],
    ids=["nothing", "a list", "empty", "deep", "no list", "other cases", "no texts", "no answers"],
)  # fmt: skip
def test_what_it_leaves_is_no_answer(
    findings: str, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_TEST_FINDINGS", findings)
    with pytest.raises(VerifyError, match="no answers"):
        verify_library(library, write_golden(tmp_path, CASES), model_spec())
