"""What a size of memory costs: by hand, and which size is then named. Measuring it: tests/integration/test_cost.py."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.memory import report
from builder.errors import EnvironmentSetupError, UsageError
from builder.measure.bench import Spread, Start
from builder.measure.cost import Costs, Round, cheapest, render, size_of
from builder.measure.share import Quota, quota
from builder.prices import list_prices
from builder.targets import ARM64, X86_64
from tests.conftest import ROOT

START = Start(90.0, 1.2, 30.5, 4.0, 20.0)
PAGE = ROOT / "docs" / f"{report.PAGE}.md"


def rounds(*warm: tuple[float, ...]) -> list[Round]:
    return [Round(START, times, 24 << 20) for times in warm]


def test_a_million_requests_by_hand() -> None:
    found = size_of(885, rounds((2.1, 2.9, 3.5), (1.2, 1.2, 1.2), (9.0, 9.0, 9.0)))
    # Billed: (3 + 3 + 4) / 3 = 3.33 ms, 2 ms and 9 ms; the median of these is 3.33 ms.
    assert found.billed == pytest.approx(10 / 3)
    # 1,000,000 × 0.00333 s × 885 / 1024 GB = 2,880.9 GB-seconds, at 0.0000166667 USD
    assert found.dollars["x86_64"] == pytest.approx(0.2 + 0.0480145, abs=1e-6)
    assert found.dollars["arm64"] == pytest.approx(0.2 + 0.0384118, abs=1e-6)
    # A start: 122 ms, which is 121.7 begun: 105,439 GB-seconds for a million
    assert found.cold_dollars["x86_64"] == pytest.approx(0.2 + 1.757324, abs=1e-5)
    assert (found.processors, found.peak) == (pytest.approx(0.50028, abs=1e-5), 24 << 20)
    assert found.warm.runs == 9


def test_of_two_that_cost_alike_the_faster_is_named() -> None:
    slow, fast, whole = (size_of(memory, rounds((ms,) * 3)) for memory, ms in ((442, 8.0), (884, 4.0), (1769, 3.0)))
    assert cheapest([slow, fast, whole], X86_64) == 884
    assert cheapest([whole], X86_64) == 1769
    assert cheapest([], X86_64) is None
    dear = replace(slow, dollars={"x86_64": 0.1, "arm64": 9.0})
    assert (cheapest([dear, fast], X86_64), cheapest([dear, fast], ARM64)) == (442, 884)


def costs(**more: object) -> Costs:
    sizes = tuple(size_of(memory, rounds((ms,) * 3)) for memory, ms in ((442, 8.0), (1769, 3.0)))
    found = Costs(
        model="m", version="1", target="x86_64", cpu="cpu", python="3.13", note="", shared_by="a quota", rounds=3,
        prices=list_prices(), sizes=sizes, left_out={3538: "2 processors cannot be had."}, cheapest=442, below=5.0,
        cheapest_below=1769,
    )  # fmt: skip
    return replace(found, **more)  # type: ignore[arg-type]


def test_the_table_names_both_and_how_it_was_measured() -> None:
    text = render(costs())
    assert "cheapest: 442 MB; with nine of ten warm requests below 5 ms: 1,769 MB" in text
    assert "3,538 MB is left out: 2 processors cannot be had." in text
    assert "share of a processor by a quota" in text
    assert "arm64 was not measured" in text
    assert "below 5 ms: none" in render(costs(cheapest_below=None))
    assert "below" not in render(costs(below=None)).replace("cannot be had", "")


def test_more_than_there_is_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="64 processors cannot be had"), Quota(1, tmp_path, tmp_path).share(64):
        pass


@pytest.mark.parametrize(
    ("group", "mount"),
    [
        ("4:memory:/\n1:cpu,cpuacct:/own\n", "cgroup {}/cpu cgroup rw,cpu,cpuacct 0 0\n"),
        ("0::/own\n", "cgroup2 {} cgroup2 rw,nosuid 0 0\n"),
        ("0::/\n", ""),
    ],
)
def test_nothing_is_measured_without_control_groups(tmp_path: Path, group: str, mount: str) -> None:
    """A folder that is none of the kernel's gives none: no quota appears in what is made there, and nothing stays."""
    (tmp_path / "cpu" / "own").mkdir(parents=True)
    (tmp_path / "own").mkdir()
    groups, mounts = tmp_path / "groups", tmp_path / "mounts"
    groups.write_text(group)
    mounts.write_text(mount.format(tmp_path))
    with pytest.raises(EnvironmentSetupError, match=r"may make no control group.*as root"):
        quota(groups, mounts)
    assert not list(tmp_path.rglob("coldforge-*"))


def test_a_spread_is_of_all_rounds() -> None:
    assert size_of(442, rounds((1.0,) * 10, (3.0,) * 10)).warm == Spread.of([1.0] * 10 + [3.0] * 10)


def test_the_page_is_of_what_was_measured() -> None:
    results = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == report.page(results, plot=True)
    assert PAGE.with_suffix(".svg").is_file()
