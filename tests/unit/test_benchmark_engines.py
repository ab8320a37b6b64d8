"""What keeps an engine to AVX2, so that a row that says so is one."""

from __future__ import annotations

from benchmarks.engines import KINDS, OURS, OURS_INT8
from builder.base.targets import X86_64
from builder.verify.step_probes import LIMIT


def test_every_engine_that_is_measured_with_avx2_is_kept_to_it() -> None:
    assert {name for name, kind in KINDS.items() if kind.avx2 == {}} == set()
    for name in (OURS, OURS_INT8):
        assert KINDS[name].avx2 == {LIMIT: X86_64.levels[0].isa}
