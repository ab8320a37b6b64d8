"""The template of a new kernel compiles, runs and gives the right numbers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.link.shared_library import RUNTIME
from builder.compiler.lower.buffers import BufferPlan
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.steps import thunk_reader
from builder.compiler.lower.steps.base import Buffer
from builder.config.tensor import TensorSpec
from builder.verify.library.loaded_library import OpenedModel
from tests.conftest import ROOT
from tests.support.every_step import SPEC
from tests.support.instrumented import link

TEMPLATES = ROOT / "docs" / "templates"
SHAPE = (3, 5)


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the step, whose reader is no longer registered afterwards."""
    readers = dict(thunk_reader.load_thunk_readers())
    monkeypatch.setattr(thunk_reader, "_READERS", readers)
    monkeypatch.setattr(thunk_reader, "load_thunk_readers", lambda: readers)
    spec = importlib.util.spec_from_file_location("reverse_step", TEMPLATES / "reverse_step.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_template_reverses_rows(template: ModuleType, tmp_path: Path) -> None:
    x, y = Buffer("arena", 0, 60), Buffer("arena", 64, 60)
    ports = (BoundPort(TensorSpec(name, "float32", SHAPE), place) for name, place in (("x", x), ("y", y)))
    feed, fetch = ports
    program = Program((template.ReverseStep("reverse", x, y, *SHAPE),), (feed,), (fetch,), (), 128, 0)
    sources = emit_sources(program, SPEC, X86_64, tmp_path)
    (generated,) = sources.programs
    kernel = (TEMPLATES / "reverse.c").read_text(encoding="utf-8")
    generated.write_text(kernel + generated.read_text(encoding="utf-8"))
    strict = ("-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}")
    command = [sys.executable, "-m", "ziglang", "cc", *strict, "-c", generated, "-o", tmp_path / "checked.o"]
    subprocess.run(command, check=True)
    numbers = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    with OpenedModel(link(sources, [], tmp_path)) as model:
        call = model.bind_call([numbers], [numbers.nbytes])
        call()
        np.testing.assert_array_equal(np.copy(call.fetches[0]).view(np.float32).reshape(SHAPE), numbers[:, ::-1])


def test_the_template_reads_its_thunk(template: ModuleType) -> None:
    """XLA has no such thunk: this one has the fields of a copy's."""
    layout = SimpleNamespace(minor_to_major=[2, 1, 0])
    shape = SimpleNamespace(dimensions=[2, 3, 5], layout=layout, element_type=11)

    def shaped(index: int) -> SimpleNamespace:
        return SimpleNamespace(shape=shape, slice=SimpleNamespace(buffer_allocation_index=index, offset=0, size=120))

    reverse = SimpleNamespace(source_buffer_shape=shaped(0), target_buffer_shape=shaped(1))
    thunk = SimpleNamespace(
        kind="kReverse",
        info=SimpleNamespace(op_name="reverse"),
        reverse_thunk=reverse,
        WhichOneof=lambda _: "reverse_thunk",
    )
    plan = BufferPlan({0: Buffer("arena", 0, 128), 1: Buffer("arena", 128, 128)}, {}, (), 256, 0)
    steps = thunk_reader.ThunkReader(plan).read_sequence(SimpleNamespace(thunks=[thunk]))
    assert steps == (template.ReverseStep("reverse", Buffer("arena", 0, 120), Buffer("arena", 128, 120), 6, 5),)
