"""Libraries for arm64, built here and run on an emulated Neoverse N1 against TensorFlow's answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.base.project import RUNTIME
from builder.base.targets import ARM64, X86_64
from builder.compiler.audit import audit_file
from builder.compiler.audit.audit_library import find_target
from builder.compiler.link.toolchain import Toolchain
from builder.compiler.lower import LoweringOptions, lower_graph
from builder.compiler.lower.compress import WeightRules
from builder.compiler.lower.steps.base import walk_steps
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.quantisation import STATE_ROUNDING, Quantisation
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.verify.compare_answers import verify_library
from builder.verify.library.loaded_library import BufferSlot, GuardedBuffer
from builder.verify.library.remote_library import RemoteLibrary
from builder.verify.target_runner import Machine
from builder.verify.verification import require_passed
from tests.conftest import ROOT, make_bundle
from tests.integration.test_activations import OWN
from tests.integration.test_zoo import WITHOUT_WINOGRAD
from tests.support import qemu
from tests.support.build import CACHE, build_library, compile_here, freeze_function, rounding_of, spec_of, write_golden
from tests.support.zoo import CASES, TOGETHER, TURN, Case

pytestmark = pytest.mark.integration

QUICK = {
    "attentions", "conv1d_causal_dilated", "conv2d_grouped_strided_dilated", "conv2d_depthwise", "conv2d_other_types",
    "dense_wide", "detection", "elementwise", "int64_arithmetic", "lstm", "matmul_int64", "mlp", "pooling",
    "sort_three_operands", "sort_ties", "top_k", "cond_inside_while", "activations", "stateful_random", "transforms",
    "wide_resnet", "pixels_that_are_left",
    *({TOGETHER.name} if TURN == "arm64" else ()),
}  # fmt: skip
"""Every kind of step and, every other day, ops of every family that is rewritten; the rest of the zoo is slow."""

EVERY = (*CASES, TOGETHER)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return qemu.arm64(CACHE)


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def check_bundle(folder: Path, machine: Machine) -> None:
    """The bundle in ``folder`` was audited, run and found to agree."""
    facts = manifest(folder)
    assert facts["target"] == {"arch": "arm64", "isa": ["neoverse-n1"]}
    assert facts["targets"] == ["arm64"]
    assert facts["audit"]["facts"]["machine"] == "EM_AARCH64"
    *libraries, guard = facts["audit"]["facts"]["needed"]
    assert libraries in (["libc.so.6"], ["libm.so.6", "libc.so.6"])
    assert guard == "ld-linux-aarch64.so.1"  # of the stack protector
    verified = facts["verification"]
    assert verified["passed"]
    assert verified["run_by"] == machine.name
    assert len(verified["cases"]) >= 2
    assert all(0 < row["max_absolute"] < 1e-5 for row in verified["outputs"])
    assert find_target(folder / "layer" / "lib" / "libmodel.so") == ARM64


@pytest.mark.xdist_group("checkout")
def test_emotion(machine: Machine) -> None:
    check_bundle(make_bundle("emotion", "arm64").folder, machine)
    libraries = [p for p in (ROOT / "build" / "dependencies-arm64").rglob("*.so*") if find_target(p)]
    assert len(libraries) >= 5
    assert {find_target(p) for p in libraries} == {ARM64}


@pytest.mark.xdist_group("checkout")
def test_both_targets_at_once_lie_side_by_side(machine: Machine) -> None:
    make_bundle("digits", "all")
    check_bundle(ROOT / "dist" / "digits-arm64", machine)
    assert manifest(ROOT / "dist" / "digits")["target"]["arch"] == "x86_64"
    content = {name: ROOT / "layers" / "model" / name / "lib" / "libmodel.so" for name in ("content", "content-arm64")}
    assert {name: find_target(path) for name, path in content.items()} == {"content": X86_64, "content-arm64": ARM64}
    # One packing of the weights serves both.
    blobs = [(ROOT / "build" / "digits" / name / "weights.bin").read_bytes() for name in ("lower", "lower-arm64")]
    assert blobs[0] == blobs[1]


@pytest.mark.slow
@pytest.mark.xdist_group("checkout")
def test_age_gender(machine: Machine) -> None:
    check_bundle(make_bundle("age_gender", "arm64").folder, machine)


@pytest.fixture
def built(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """(library, graph, spec) of a zoo case, for arm64."""
    monkeypatch.chdir(tmp_path)  # tfcompile writes into the current folder
    graph = freeze_function(case.trace(), [f.name for f in case.feeds], tmp_path)
    spec = spec_of(case.name, case.absolute, case.relative)
    options = LoweringOptions(allow_winograd=case.name not in WITHOUT_WINOGRAD)
    library = build_library(graph, spec, tmp_path, options=options, target=ARM64).path
    write_golden(graph, [case.sample(i) for i in range(2)])
    return library, graph, spec


def zoo() -> list[Any]:
    return [pytest.param(c, marks=() if c.name in QUICK else pytest.mark.slow, id=c.name) for c in EVERY]


@pytest.mark.parametrize("case", zoo())
def test_agrees_with_tensorflow(case: Case, machine: Machine, built: Any) -> None:
    library, graph, spec = built
    assert audit_file(library, ARM64).violations == ()
    if case.random:
        with pytest.raises(VerifyError, match="random"):
            require_passed(verify_library(library, graph, spec, machine))
        return
    require_passed(verify_library(library, graph, spec, machine))


@pytest.mark.parametrize("case", [c for c in CASES if c.name == "embeddings"], ids=lambda c: c.name)
def test_rows_of_small_tables(case: Case, machine: Machine, built: Any, tmp_path: Path) -> None:
    """NEON's way to make floats of float16 and int8."""
    _, graph, spec = built
    options = LoweringOptions(weights=WeightRules("int8", (("model/GatherV2_1", "float16"),)))
    lowered = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE, options=options)
    assert {s.weight_type for s in lowered.program.steps if isinstance(s, GatherStep)} == {"int8", "float16"}
    folder = tmp_path / "small"
    folder.mkdir()
    library = build_library(graph, spec, folder, options=options, target=ARM64).path
    require_passed(verify_library(library, graph, spec, machine, rounding_of(lowered, graph, folder)))


@pytest.mark.parametrize("case", [c for c in CASES if c.name == "mlp"], ids=lambda c: c.name)
def test_an_older_processor_is_told_so(case: Case, machine: Machine, built: Any) -> None:
    """cf_open is compiled for any armv8-a: an error, no SIGILL."""
    old = list(machine.runner)
    old[old.index("-cpu") + 1] = "cortex-a53"
    with pytest.raises(VerifyError, match="CF_ERR_CPU: this CPU lacks LSE atomics, which the model was compiled for"):
        verify_library(*built, Machine("an older one", tuple(old)))
    newer = [*machine.runner]
    newer[newer.index("-cpu") + 1] = "max"
    require_passed(verify_library(*built, Machine("the newest", tuple(newer))))


LEVEL = """
#include "abi/program.h"
#include <stdio.h>
int main(void) {
    const char *missing = cf_missing_cpu_feature();
    printf("%u %s", cf_cpu_level(), missing != NULL ? missing : "");
    return 0;
}
"""


def on(cpu: str, machine: Machine) -> tuple[str, ...]:
    """The machine's runner on another processor, which ends with the program that it runs."""
    command = [*machine.runner]
    if machine.emulator:
        command[command.index("-cpu") + 1] = cpu
    return tuple(command)


def test_the_level_of_a_processor(machine: Machine, tmp_path: Path) -> None:
    if not machine.emulator:
        pytest.skip("no other processors are emulated here")
    (tmp_path / "level.c").write_text(LEVEL)
    sources = [tmp_path / "level.c", RUNTIME / "platform" / "cpu_arm64.c"]
    Toolchain(ARM64, CACHE / "zig").compile_program(sources, tmp_path / "level", [RUNTIME])
    found = {}
    for cpu in ("cortex-a53", "neoverse-n1", "max,sve=off", "max"):
        command = [*on(cpu, machine)[:-1], str(tmp_path / "level")]
        found[cpu] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lacks = "0 this CPU lacks LSE atomics, which the model was compiled for (Neoverse N1)"
    assert found == {"cortex-a53": lacks, "neoverse-n1": "0 ", "max,sve=off": "1 ", "max": "1 "}


@pytest.mark.parametrize(("name", "rounded"), [("wired", 3), ("pooled", 4), ("recurrent_wide", 6)])
def test_bytes_have_the_same_sums_by_every_instruction(
    name: str, rounded: int, machine: Machine, tmp_path: Path
) -> None:
    """Dot products and matrix multiplications: padding, strides, dilation, odd fours of channels; maxima; LSTMs."""
    case = next(c for c in (*CASES, *OWN) if c.name == name)
    graph = freeze_function(case.trace(), [f.name for f in case.feeds], tmp_path)
    compile_here(graph, graph.folder.resolve(), ARM64)
    weights = WeightRules("int8")
    floats = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE, options=LoweringOptions(weights=weights))
    by = {LayerStep: Quantisation(0.03, 100), RecurrentStep: STATE_ROUNDING}
    steps = [s for s in walk_steps(floats.program.steps) if isinstance(s, LayerStep | RecurrentStep)]
    quantisations = {s.layer: by[type(s)] for s in steps if s.weight_type == "int8"}
    assert len(quantisations) == rounded
    options = LoweringOptions(weights=weights, quantisations=quantisations)
    (tmp_path / "bytes").mkdir()
    spec = spec_of(case.name, case.absolute, case.relative)
    library = build_library(graph, spec, tmp_path / "bytes", options=options, target=ARM64).path
    feed = _slot(next(iter(case.sample(0).values())).tobytes())
    answers = []
    for cpu in ("neoverse-n1", "max,sve=off"):
        opened = RemoteLibrary(on(cpu, machine), str(library))
        fetches = [_slot(bytes(fetch["bytes"])) for fetch in json.loads(opened.get_description())["fetches"]]
        status, model, why = opened.open()
        assert status == 0, why
        assert opened.run(model, [feed], fetches, (1, len(fetches)))[0] == 0
        answers.append([slot.buffer.data.tobytes() for slot in fetches])
    assert answers[0] == answers[1]
    assert all(np.isfinite(values).all() and np.std(values) > 0.1 for values in map(_floats, answers[0]))


def _floats(data: bytes) -> Any:
    return np.frombuffer(data, np.float32)


def _slot(data: bytes) -> BufferSlot:
    buffer = GuardedBuffer.from_data(np.frombuffer(data, np.uint8), 0)
    return BufferSlot(buffer, buffer.size)


def test_every_quick_case_exists() -> None:
    assert {c.name for c in EVERY} >= QUICK
