"""The generated C, against files that a person has read. After a wanted change: UPDATE_GOLDEN=1 pytest ..."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.emit import emit
from builder.emit.program import c_string
from builder.link.toolchain import Toolchain
from builder.lower.program import (
    BoundPort,
    Buffer,
    CallStep,
    ConditionalStep,
    ConvolutionStep,
    CopyStep,
    DotStep,
    KernelStep,
    Program,
    RngStep,
    SortStep,
    TopKStep,
    Weight,
    WhileStep,
    walk,
)
from builder.spec import ModelSpec, OutputSpec, Source
from builder.spec.tensor import TensorSpec
from builder.targets import X86_64

GOLDEN = Path(__file__).parent / "golden"


def arena(offset: int, size: int) -> Buffer:
    return Buffer("arena", offset, size)


KERNEL = KernelStep("add.1", "graph_add", (arena(0, 16), Buffer("weights", 64, 16), arena(64, 16)), (2, 1, 1))
CONVOLUTION = ConvolutionStep(
    "convolution.2", "float32", arena(0, 64), Buffer("weights", 0, 16), arena(128, 36),
    batch=1, groups=1, in_channels=1, out_channels=1, in_size=(4, 4), out_size=(3, 3), kernel_size=(2, 2),
    stride=(1, 1), pad_low=(0, -1), base_dilation=(1, 1), window_dilation=(1, 1), reversed=(False, True),
    in_strides=(16, 1, 4, 1), kernel_strides=(1, 1, 2, 1), out_strides=(9, 1, 3, 1),
)  # fmt: skip
DOT = DotStep(
    "dot.3", "int64", arena(0, 64), arena(64, 64), arena(128, 64), 2, 2, 2, 2, (4, 2, 1), (4, 2, 1), (4, 2, 1)
)
COPY = CopyStep("copy.4", arena(0, 24), arena(64, 24), 4, (2, 3), (3, 1), (1, 2))
SCALAR_COPY = CopyStep("copy.5", arena(0, 8), arena(64, 8), 8, (), (), ())
SORT = SortStep("sort.6", "graph_less", (arena(0, 32), arena(64, 64)), (4, 8), 1, 8, 1, arena(256, 192))
TOP_K = TopKStep("topk.7", arena(0, 32), arena(64, 8), arena(128, 8), 1, 8, 2)
RNG = RngStep("rng.8", arena(0, 16), 4)
EVERY_STEP = Program(
    steps=(
        KERNEL,
        CONVOLUTION,
        DOT,
        COPY,
        SCALAR_COPY,
        SORT,
        TOP_K,
        RNG,
        CallStep("call.9", (KERNEL,)),
        ConditionalStep("conditional.10", arena(192, 1), ((KERNEL,), ())),
        ConditionalStep("conditional.11", arena(192, 4), ((), (KERNEL,), (COPY,))),
        WhileStep("while.12", (KERNEL,), arena(192, 1), (COPY, CallStep("call.13", (RNG,))), None),
        WhileStep("while.14", (KERNEL,), arena(192, 1), (COPY,), 3),
    ),
    feeds=(BoundPort(TensorSpec("x:0", "float32", (1, 4)), arena(0, 16)),),
    fetches=(
        BoundPort(TensorSpec("y", "float32", (1, 4)), arena(64, 16)),
        BoundPort(TensorSpec("c", "bool", (3,)), Buffer("weights", 64, 3)),
    ),
    weights=(Weight(0, bytes(range(16))), Weight(64, b"\x01\x00\x01")),
    arena_size=512,
    weights_size=128,
)
SPEC = ModelSpec(
    Path("model.toml"),
    "every-step",
    "1",
    Source("graph_def", Path("g.pb")),
    outputs=(OutputSpec("answer", "y", "classification", labels=('say "??/"', "naïve", "c", "d")),),
)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return emit(EVERY_STEP, SPEC, X86_64, tmp_path).folder


@pytest.mark.parametrize("name", ["program.c", "model.h", "weights.S", "model.json"])
def test_generated_files_are_as_read(sources: Path, name: str) -> None:
    generated = (sources / name).read_text()
    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / name).write_text(generated)
    assert generated == (GOLDEN / name).read_text()


def test_weights_stand_at_their_offsets(sources: Path) -> None:
    data = (sources / "weights.bin").read_bytes()
    assert data == bytes(range(16)) + bytes(48) + b"\x01\x00\x01" + bytes(61)


def test_new_weights_make_a_new_object(tmp_path: Path) -> None:
    """The compiler keeps objects by the text of their sources, and the file that .incbin takes in is none."""
    toolchain = Toolchain(X86_64, tmp_path / "cache")
    for value in (b"old weights", b"new weights"):
        program = replace(EVERY_STEP, weights=(Weight(0, value),))
        emit(program, SPEC, X86_64, tmp_path)
        toolchain.compile(tmp_path / "weights.S", tmp_path / "weights.o")
        assert value in (tmp_path / "weights.o").read_bytes()


def test_walk_finds_nested_steps() -> None:
    names = [s.name for s in walk(EVERY_STEP.steps)]
    assert names.count("add.1") == 6
    assert "call.13" in names


def test_every_step_compiles_without_warnings(sources: Path) -> None:
    runtime = Path(__file__).resolve().parents[2] / "builder" / "runtime"
    command = [sys.executable, "-m", "ziglang", "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{runtime}"]
    subprocess.run([*command, "-c", "program.c"], cwd=sources, check=True)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_json_survives_as_a_c_string(tmp_path_factory: pytest.TempPathFactory, labels: list[str]) -> None:
    text = json.dumps({"labels": [*labels, "x" * 2100, "??="]})
    folder = tmp_path_factory.mktemp("c")
    (folder / "s.c").write_text(f"const char *text(void) {{ return {c_string(text)}; }}\n")
    # Strict C99 replaces trigraphs: the text must not hold any.
    command = [sys.executable, "-m", "ziglang", "cc", "-std=c99", "-shared", "-fPIC", "s.c", "-o", "s.so"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    library = ctypes.CDLL(str(folder / "s.so"))
    library.text.restype = ctypes.c_char_p
    assert library.text().decode("ascii") == text
