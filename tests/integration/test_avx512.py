"""The AVX-512 copy of the kernels, run: on Bochs, which emulates it, whatever the processor here has.

The cases and the bounds are those of tests/native/test_fused_kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from builder.base.project import RUNTIME
from builder.base.targets import X86_64
from builder.cli import main
from builder.config import read_spec
from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle
from builder.release.selftest.programs import SOURCES as SELFTEST
from builder.release.selftest.programs import build_programs
from tests.conftest import ROOT
from tests.native import test_fused_kernels as fused
from tests.support.bochs.emulated import Emulated, build_jobs, drawn
from tests.support.bochs.machine import SOURCES as BOCHS
from tests.support.bochs.machine import link_program, machine
from tests.support.build import CACHE as BUILD_CACHE
from tests.support.fused import CACHE, Case, Kernels

pytestmark = pytest.mark.integration

SPEC = ROOT / "examples" / "digits" / "model.toml"

CPUS = {"v4": "corei7_skylake_x"}
"""Of Bochs', to table: one that has no more than what the copy was compiled for."""


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    folder = tmp_path_factory.mktemp("bochs")
    return Emulated(machine(folder, CACHE), build_jobs(tmp_path_factory.mktemp("jobs")))


@pytest.fixture(scope="module")
def package(digits: Bundle) -> Path:
    """With libmodel.a."""
    assert main(["bindings", "digits", "--lang", "c", "--static"]) == 0
    return ROOT / "dist" / "bindings" / "digits" / "c"


@pytest.fixture(params=CPUS)
def table(request: pytest.FixtureRequest, emulated: Emulated) -> str:
    """That of the copy to run, on a processor for it."""
    emulated.machine = replace(emulated.machine, cpu=CPUS[request.param])
    return str(request.param)


@pytest.fixture(scope="module")
def here(emulated: Emulated) -> Kernels:
    return Kernels(emulated.program.with_name("libfused.so"))


def test_the_emulator_computes_as_this_processor_does(emulated: Emulated, here: Kernels, tmp_path: Path) -> None:
    """To the last bit, with the kernels for AVX2: or what it says of AVX-512 would mean nothing."""

    def same(case: Case) -> None:
        found = emulated.layer(case, "v3")
        np.testing.assert_array_equal(found.output.buffer, here.layer(case, "v3").output.buffer)

    cases = [*drawn(fused.layers(), 60), *drawn(fused.winograd_layers(), 20)]
    emulated.answer([partial(same, case) for case in cases], tmp_path)


@pytest.mark.parametrize(
    ("cpu", "has"), [("corei7_haswell_4770", False), ("corei7_skylake_x", True), ("corei7_icelake_u", True)]
)
def test_the_copy_is_chosen_where_it_runs(emulated: Emulated, cpu: str, has: bool, tmp_path: Path) -> None:
    """And where it is not chosen it cannot run, so what runs in the other tests is AVX-512."""
    emulated.machine = replace(emulated.machine, cpu=cpu)
    case = drawn(fused.layers(), 1)[0]
    emulated.answer([lambda: fused.check(emulated.layer(case, "v3"))], tmp_path)
    assert (emulated.level > 0) == has
    assert not emulated.wide
    if not has:
        with pytest.raises(AssertionError, match="exception with no resolution"):
            emulated.answer([lambda: fused.check(emulated.layer(case, "v4"))], tmp_path)


@pytest.mark.parametrize(("cpu", "wide"), [("corei7_haswell_4770", False), ("corei7_skylake_x", True)])
def test_a_whole_model(emulated: Emulated, digits: Bundle, package: Path, cpu: str, wide: bool, tmp_path: Path) -> None:
    """Its own test program, with libmodel.a: it finds out what the processor has and agrees with TensorFlow."""
    build_programs(
        read_spec(SPEC), FrozenGraph.load(ROOT / "build" / "digits" / "import"), X86_64, BUILD_CACHE, tmp_path
    )
    test, library = tmp_path / "digits_test", package / "libmodel.a"
    link_program(
        [tmp_path / "cases.S", SELFTEST / "test.c", library], test, [tmp_path, BOCHS, SELFTEST, RUNTIME / "abi"], CACHE
    )
    outcome = replace(emulated.machine, cpu=cpu).run(test, tmp_path, ["--threads", "1"])
    assert outcome.said.endswith("PASSED\n"), outcome.said
    assert outcome.wide == wide


def test_any_layer(emulated: Emulated, table: str, tmp_path: Path) -> None:
    cases = [*drawn(fused.layers(), 300), *drawn(fused.winograd_layers(), 80)]
    emulated.answer([lambda c=case: fused.check(emulated.layer(c, table)) for case in cases], tmp_path)


def test_layers_of_many_blocks(emulated: Emulated, table: str, tmp_path: Path) -> None:
    emulated.answer([lambda c=case: fused.check(emulated.layer(c, table)) for case in fused.LARGE.values()], tmp_path)


def test_every_type_of_weights(emulated: Emulated, table: str, tmp_path: Path) -> None:
    packed = fused.test_packed_weights_are_multiplied_as_the_floats_they_stand_for
    types = ("float16", "bfloat16", "int8")
    names = [name for name in fused.PACKED if name != "bands"]  # those drawn above have all types too, in less time
    checks = [partial(packed, emulated, name, weights, table) for name in names for weights in types]
    emulated.answer([*checks, partial(fused.test_every_float16_number_is_unpacked, emulated, table)], tmp_path)


def test_activations_over_their_whole_range(emulated: Emulated, table: str, tmp_path: Path) -> None:
    test = fused.test_activations_over_their_whole_range
    emulated.answer([partial(test, emulated, table, activation) for activation in fused.ACTIVATIONS], tmp_path)


def test_any_pooling_and_repacking(emulated: Emulated, table: str, tmp_path: Path) -> None:
    pool, repack = (t.hypothesis.inner_test for t in (fused.test_any_pooling, fused.test_any_repacking))
    checks: list[Callable[[], None]] = [partial(pool, emulated, table, c, 0) for c in drawn(fused.pools(), 150)]
    for channels in (1, 3, 16, 50):
        for gaps in ((0, 0), (2, 16)):
            checks.append(partial(repack, emulated, table, (2, 5, 7, channels), gaps, (1, 0, 2, 1), 1))
    emulated.answer(checks, tmp_path)
