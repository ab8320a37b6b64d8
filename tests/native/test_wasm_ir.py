"""XLA's IR made fit for wasm32, and run."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from builder.base.errors import LowerError
from builder.release.wasm.ir import adapt_ir
from tests.support import needs
from tests.support.wasm import build, through

HEAD = """\
target datalayout = "e-m:e-p270:32:32-i64:64-S128"
target triple = "x86_64-unknown-linux-gnu"

@values = global [4096 x float] zeroinitializer, align 64

define ptr @data() {
  ret ptr @values
}
"""


def test_the_target_goes_and_the_rest_stays() -> None:
    edited = adapt_ir(HEAD + "declare float @llvm.fabs.f32(float)\n")
    assert "target" not in edited
    assert "declare float @llvm.fabs.f32(float)" in edited
    assert "define ptr @data()" in edited


def test_mathematical_functions_become_ours() -> None:
    edited = adapt_ir(
        "define float @f(float %x) {\n  %y = call float @llvm.exp.f32(float %x)\n"
        "  %z = call float @xla.tanh.f32(float %y)\n  ret float %z\n}\n"
        "declare float @llvm.exp.f32(float) #2\ndeclare float @xla.tanh.f32(float)\n"
    )
    assert "@llvm.exp" not in edited
    assert "@xla.tanh" not in edited
    for name in ("exp", "tanh"):
        assert f"define internal float @cf.{name}.f32(float %x) alwaysinline" in edited
        assert f"declare float @cf_{name}_f32(float)" in edited


def test_vectors_are_done_lane_by_lane() -> None:
    edited = adapt_ir("declare <4 x double> @xla.exp.v4f64(<4 x double>)\n")
    assert edited.count("call double @cf_exp_f64(double") == 4
    assert edited.count("declare double @cf_exp_f64(double)") == 1


@pytest.mark.parametrize("name", ["xla.digamma.f32", "llvm.x86.avx2.pbroadcast"])
def test_what_is_not_known_is_refused_by_name(name: str) -> None:
    with pytest.raises(LowerError, match=name):
        adapt_ir(f"declare float @{name}(float)\n")


@pytest.mark.parametrize("lanes", [0, 8])
def test_rounding_to_bfloat16_is_to_the_nearest_even(lanes: int, tmp_path: Path) -> None:
    needs.needs_module("wasmtime")
    wide = max(lanes, 1)
    kind, short, name = ("float", "bfloat", "f32.to.bf16")
    if lanes:
        kind, short, name = f"<{lanes} x float>", f"<{lanes} x bfloat>", f"v{lanes}f32.to.v{lanes}bf16"
    source = tmp_path / "round.ll"
    # The array shrinks to half its length, from the front.
    source.write_text(
        adapt_ir(f"""{HEAD}
declare {short} @xla.fptrunc.{name}({kind})

define void @map(i32 %count) {{
entry:
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%next, %loop]
  %from = getelementptr float, ptr @values, i32 %i
  %x = load {kind}, ptr %from, align 4
  %y = call {short} @xla.fptrunc.{name}({kind} %x)
  %to = getelementptr i16, ptr @values, i32 %i
  store {short} %y, ptr %to, align 2
  %next = add i32 %i, {wide}
  %more = icmp slt i32 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
""")
    )
    rng = np.random.default_rng(3)
    values = rng.integers(0, 1 << 32, 4096, dtype=np.uint32)
    values[:8] = [0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x7FC00000]
    ours = through(build(source, ("data", "map"), tmp_path), values, np.uint16)
    theirs = values.view(np.float32).astype(ml_dtypes.bfloat16)
    nan = np.isnan(values.view(np.float32))
    assert np.array_equal(ours[~nan], theirs.view(np.uint16)[~nan])
    assert np.isnan(ours[nan].view(ml_dtypes.bfloat16)).all()
