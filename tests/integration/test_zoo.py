"""Every graph of the zoo, compiled, linked, run and compared with TensorFlow; and those that must be refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from builder.audit import audit
from builder.errors import ColdforgeError
from builder.preflight import check
from builder.preflight import require as require_preflight
from builder.verify.compare import require, verify
from tests.integration.build import TARGET, build_library, freeze_function, spec_of, write_golden
from tests.integration.run import run_library
from tests.integration.zoo import CASES, REFUSED, Case

pytestmark = pytest.mark.integration

SAMPLES = 3


@pytest.fixture(autouse=True)
def _inside_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # tfcompile writes into the current folder


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_agrees_with_tensorflow(case: Case, tmp_path: Path) -> None:
    graph = freeze_function(case.trace(), [f.name for f in case.feeds], tmp_path)
    assert check(graph).unsupported == ()
    spec = spec_of(case.name, case.absolute, case.relative)
    library = build_library(graph, spec, tmp_path)
    assert audit(library.path, TARGET).violations == ()
    samples = [case.sample(i) for i in range(SAMPLES)]
    if case.random:
        for answers in run_library(library.path, [[s[f.name] for f in case.feeds] for s in samples]):
            assert all(np.isfinite(a).all() for a in answers)
        return
    write_golden(graph, samples)
    require(verify(library.path, graph, spec))


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.name)
def test_is_refused_by_name(case: Case, tmp_path: Path) -> None:
    with pytest.raises(ColdforgeError, match=case.refused_op):
        require_preflight(check(freeze_function(case.trace(), [f.name for f in case.feeds], tmp_path)))
