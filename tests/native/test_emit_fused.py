"""Programs of the optimised path's steps, printed, compiled, linked and run through the C ABI."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from builder.base.project import RUNTIME
from builder.base.targets import ARM64, X86_64
from builder.compiler.audit import audit_file, require_portable
from builder.compiler.emit import emit_sources
from builder.compiler.link.shared_library import link_library
from builder.compiler.lower.compress import quantise_weights
from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.packing import compute_scratch_size, pack_layer, pack_scale, pack_sums, pad_channels
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.steps.base import Step, View
from builder.compiler.lower.steps.image_step import PoolStep, RepackStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from tests.support import needs
from tests.support.instrumented import CACHE, OBJECTS, link
from tests.support.places import Places

SPEC = ModelSpec(Path("model.toml"), "fused", "1", Source("graph_def", Path("g.pb")))
SIDE, CHANNELS, FEW = 12, 16, 5


def layer(layout: Places, name: str, source: View, target: View, weights: Any, **more: Any) -> LayerStep:
    """3x3, same padding, on a picture of SIDE pixels; ``epilogue`` and ``algorithm`` in ``more``."""
    height, width, _, outer = weights.shape
    epilogue = more.pop("epilogue", Epilogue(layout.constant(pad_channels(np.zeros(outer, np.float32)))))
    algorithm, groups = more.pop("algorithm", "direct"), more.pop("groups", 1)
    geometry = Geometry(1, weights.shape[2] * groups, (SIDE, SIDE), outer, (height, width), groups=groups)
    step = LayerStep(
        name=name, algorithm=algorithm, input=source, output=target, epilogue=epilogue, geometry=geometry,
        weights=layout.constant(pack_layer(weights, algorithm, groups=groups)), in_size=(SIDE, SIDE),
        padding=(height // 2, width // 2), halo=(1, 1, 1, 1),
    )  # fmt: skip
    size = compute_scratch_size(step.geometry, algorithm)
    return replace(step, scratch=layout.buffer(size) if size else None, **more)


def conv(x: Any, w: Any) -> Any:
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [padded[:, i : i + SIDE, j : j + SIDE] @ w[i, j].astype(np.float64) for i in range(3) for j in range(3)]
    return np.sum(parts, axis=0)


def program() -> tuple[Program, Any]:
    """Repack, layers of all algorithms that sum floats, a pooling; and the same in NumPy."""
    random = np.random.default_rng(0)
    draw = lambda *shape: (random.standard_normal(shape) * 0.2).astype(np.float32)  # noqa: E731
    first, second, third = (draw(3, 3, CHANNELS, CHANNELS) for _ in range(3))
    depth, few = draw(3, 3, 1, CHANNELS), draw(3, 3, CHANNELS, FEW)
    bias, scale, shift = draw(CHANNELS), draw(CHANNELS), draw(CHANNELS)
    layout = Places()
    feed = layout.picture(SIDE, 0, CHANNELS)
    a, b, c, d, e = (layout.picture(SIDE, 1, CHANNELS) for _ in range(5))
    f = layout.picture(SIDE, 1, FEW)
    normed, pooled = layout.picture(SIDE, 0, CHANNELS), layout.picture(1, 0, FEW)
    clamp = Epilogue(layout.constant(pad_channels(bias)), "clamp", low=0.0, high=0.75)
    residual = Epilogue(
        layout.constant(pad_channels(bias)), "swish", residual=b, second=normed,
        residual_scale=layout.constant(pad_channels(scale)), second_scale=layout.constant(pad_channels(scale)),
        second_shift=layout.constant(pad_channels(shift)), second_low=0.0,
    )  # fmt: skip
    steps: list[Step] = [
        RepackStep("repack", feed, a, 1, (SIDE, SIDE), CHANNELS, (1, 1, 1, 1)),
        layer(layout, "direct", a, b, first, epilogue=clamp),
        layer(layout, "winograd4", b, c, second, algorithm="winograd4"),
        layer(layout, "winograd2", c, d, third, algorithm="winograd2", epilogue=residual),
        layer(layout, "depthwise", d, e, depth, algorithm="depthwise", groups=CHANNELS),
        layer(layout, "thin", e, f, few, algorithm="thin"),
        PoolStep("mean", "sum", f, pooled, 1, (SIDE, SIDE), FEW, (1, 1), (SIDE, SIDE), (1, 1), (0, 0),
                 1 / SIDE**2, (0, 0, 0, 0)),
    ]  # fmt: skip

    def reference(x: Any) -> tuple[Any, Any]:
        after_first = np.clip(conv(x, first) + bias, 0, 0.75)
        z = conv(conv(after_first, second), third) + bias + after_first * scale
        swish = z / (1 + np.exp(-z))
        diagonal = np.zeros((3, 3, CHANNELS, CHANNELS))
        diagonal[..., range(CHANNELS), range(CHANNELS)] = depth[:, :, 0]
        return conv(conv(swish, diagonal), few).mean(axis=(1, 2)), np.maximum(swish * scale + shift, 0)

    shape = (1, SIDE, SIDE, CHANNELS)
    return (
        Program(
            tuple(steps),
            (BoundPort(TensorSpec("x", "float32", shape), feed.buffer),),
            (
                BoundPort(TensorSpec("mean", "float32", (1, FEW)), pooled.buffer),
                BoundPort(TensorSpec("second", "float32", shape), normed.buffer),
            ),
            tuple(layout.constants),
            layout.arena,
            layout.weights,
        ),
        reference,
    )


class Port(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("fused")
    compiled, reference = program()
    sources = emit_sources(compiled, SPEC, X86_64, folder)
    return link(sources, [], folder), reference


def run(library: Path, threads: int, x: Any, runs: int = 1) -> tuple[Any, Any]:
    loaded = ctypes.CDLL(str(library))
    model = ctypes.c_void_p()
    assert loaded.cf_open(threads, ctypes.byref(model)) == 0
    mean, second = np.zeros((1, FEW), np.float32), np.zeros(x.shape, np.float32)
    feeds = (Port * 1)(Port(x.ctypes.data, x.nbytes))
    fetches = (Port * 2)(Port(mean.ctypes.data, mean.nbytes), Port(second.ctypes.data, second.nbytes))
    for _ in range(runs):
        assert loaded.cf_run(model, feeds, ctypes.c_size_t(1), fetches, ctypes.c_size_t(2)) == 0
    loaded.cf_close(model)
    return mean, second


def test_a_program_of_fused_steps(built: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    library, reference = built
    x = np.random.default_rng(1).standard_normal((1, SIDE, SIDE, CHANNELS)).astype(np.float32)
    mean, second = reference(x)
    for limit in ("", "x86-64-v3"):
        monkeypatch.setenv("COLDFORGE_CPU", limit)
        answers = [run(library, threads, x, runs=3) for threads in (0, 1, 2, 5)]
        np.testing.assert_allclose(answers[0][0], mean, atol=1e-5)
        np.testing.assert_allclose(answers[0][1], second, atol=1e-5)
        for other in answers[1:]:
            np.testing.assert_array_equal(other[0], answers[0][0])
            np.testing.assert_array_equal(other[1], answers[0][1])


def test_two_models_at_once(built: tuple[Path, Any]) -> None:
    """Each with threads of its own, and nothing in common."""
    library, _ = built
    pictures = [np.random.default_rng(n).standard_normal((1, SIDE, SIDE, CHANNELS)).astype(np.float32) for n in (1, 2)]
    alone = [run(library, 1, x) for x in pictures]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda x: run(library, 3, x, runs=20), pictures))
    for ours, expected in zip(together, alone, strict=True):
        for one, other in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(OBJECTS in os.environ, reason="of the builder's own compiler")
def test_the_library_passes_the_audit_and_is_small(built: tuple[Path, Any]) -> None:
    library, _ = built
    require_portable(audit_file(library, X86_64))
    assert library.stat().st_size < 480_000


def isa(description: Path) -> list[str]:
    found: list[str] = json.loads(description.read_text())["target"]["isa"]
    return found


@pytest.mark.skipif(OBJECTS in os.environ, reason="instrumented libraries have all kernels")
def test_without_fused_steps_the_kernels_are_left_out(built: tuple[Path, Any], tmp_path: Path) -> None:
    compiled, _ = program()
    sources = emit_sources(replace(compiled, steps=()), SPEC, X86_64, tmp_path)
    assert isa(sources.description) == ["x86-64-v3"]
    assert isa(built[0].parent / "model.json") == ["x86-64-v3", "x86-64-v4"]
    library = link_library(sources, [], X86_64, tmp_path, CACHE)
    assert library.path.stat().st_size < built[0].stat().st_size - 100_000


@pytest.mark.skipif(OBJECTS in os.environ, reason="instrumented libraries have all kernels")
def test_without_convolutions_their_kernels_are_left_out(built: tuple[Path, Any], tmp_path: Path) -> None:
    """A library of dense layers has no Winograd, depthwise and thin ones; it still runs what it has."""
    compiled, _ = program()
    repack, direct, pool = compiled.steps[0], compiled.steps[1], compiled.steps[-1]
    assert isinstance(direct, LayerStep)
    assert isinstance(pool, PoolStep)
    kept = (repack, direct, replace(pool, input=direct.output))
    library = link(emit_sources(replace(compiled, steps=kept), SPEC, X86_64, tmp_path), [], tmp_path)
    assert library.stat().st_size < built[0].stat().st_size - 150_000
    x = np.random.default_rng(1).standard_normal((1, SIDE, SIDE, CHANNELS)).astype(np.float32)
    mean, _ = run(library, 2, x)
    assert (mean > 0).all(), "of channels between 0 and 0.75"
    assert (mean < 0.75).all()


def test_missing_scratch_is_refused(tmp_path: Path) -> None:
    compiled, _ = program()
    steps = tuple(replace(s, scratch=None) if isinstance(s, LayerStep) else s for s in compiled.steps)
    with pytest.raises(ValueError, match=r"winograd4 needs \d+ bytes of scratch"):
        emit_sources(replace(compiled, steps=steps), SPEC, X86_64, tmp_path)


def test_fused_steps_compile_without_warnings(built: tuple[Path, Any]) -> None:
    needs.gcc()
    assert json.loads((built[0].parent / "model.json").read_text())["abi"] == 1
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}", "-c", "program.c", "-o", "/dev/null"]
    subprocess.run(command, cwd=built[0].parent, check=True)


def integer_program() -> tuple[Program, Any]:
    """One layer run by integer GEMM, and the same in NumPy."""
    random = np.random.default_rng(2)
    stored = quantise_weights(random.standard_normal((3, 3, CHANNELS, CHANNELS), dtype=np.float32), "int8")
    assert stored.scale is not None
    layout, q = Places(), Quantisation(2.0**-5, 128)
    feed, output = layout.picture(SIDE, 1, CHANNELS), layout.picture(SIDE, 0, CHANNELS)
    plain = layer(layout, "integer", feed, output, np.zeros((3, 3, CHANNELS, CHANNELS), np.float32))
    step = replace(
        plain, algorithm="integer", halo=(0, 0, 0, 0), weight_type="int8", quantisation=q,
        weights=layout.constant(pack_layer(stored.numbers, "integer", kind="int8")),
        weight_scale=layout.constant(pack_scale(stored.scale)),
        weight_sums=layout.constant(pack_sums(stored.numbers)),
        scratch=layout.buffer(compute_scratch_size(plain.geometry, "integer")),
    )  # fmt: skip
    side = SIDE + 2
    compiled = Program(
        (step,),
        (BoundPort(TensorSpec("x", "float32", (1, side, side, CHANNELS)), feed.buffer),),
        (BoundPort(TensorSpec("y", "float32", (1, SIDE, SIDE, CHANNELS)), output.buffer),),
        tuple(layout.constants), layout.arena, layout.weights,
    )  # fmt: skip

    def reference(x: Any) -> Any:
        numbers = np.clip(np.rint(x[:, 1:-1, 1:-1] / q.scale), -128, 127)
        return conv(numbers, stored.numbers) * q.scale * stored.scale.astype(np.float64)

    return compiled, reference


def test_a_program_with_integer_sums(built: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is limited to; and it holds VNNI's instructions, as a library without such layers does not."""
    compiled, reference = integer_program()
    sources = emit_sources(compiled, SPEC, X86_64, tmp_path)
    assert isa(sources.description) == [level.isa for level in X86_64.levels]
    library = link(sources, [], tmp_path)
    if OBJECTS not in os.environ:
        require_portable(audit_file(library, X86_64))
    x = np.pad(np.random.default_rng(3).standard_normal((1, SIDE, SIDE, CHANNELS)), ((0, 0), (1, 1), (1, 1), (0, 0)))
    x = (4 * x).astype(np.float32)
    y = np.zeros((1, SIDE, SIDE, CHANNELS), np.float32)
    loaded = ctypes.CDLL(str(library))
    for limit in ("", *isa(sources.description)):
        monkeypatch.setenv("COLDFORGE_CPU", limit)
        model = ctypes.c_void_p()
        assert loaded.cf_open(2, ctypes.byref(model)) == 0
        feed, fetch = Port(x.ctypes.data, x.nbytes), Port(y.ctypes.data, y.nbytes)
        one = ctypes.c_size_t(1)
        assert loaded.cf_run(model, ctypes.byref(feed), one, ctypes.byref(fetch), one) == 0
        loaded.cf_close(model)
        np.testing.assert_allclose(y, reference(x), atol=1e-4)
        y[...] = np.nan
    if OBJECTS in os.environ:  # without AVX-512
        return
    needs.objdump()
    for path, expected in ((library, True), (built[0], False)):
        done = subprocess.run(["objdump", "-d", str(path)], capture_output=True, text=True, check=True)
        assert ("vpdpbusd" in done.stdout) == expected


def instructions(library: Path, fixed: int, bits: int) -> int:
    """How many of arm64's instructions in the library have these bits of those that ``fixed`` selects."""
    with library.open("rb") as file:
        section: Any = ELFFile(file).get_section_by_name(".text")
        words = np.frombuffer(section.data(), "<u4")
    return int(np.count_nonzero((words & fixed) == bits))


SDOT, SMMLA = (0xFFC0F400, 0x4F80E000), (0xFFE0FC00, 0x4E80A400)
"""By Arm's manual: SDOT of four bytes by one element; SMMLA."""


def test_an_arm64_library_has_dot_products_and_matrix_multiplications(tmp_path: Path) -> None:
    compiled, _ = integer_program()
    sources = emit_sources(compiled, SPEC, ARM64, tmp_path)
    assert isa(sources.description) == ["neoverse-n1", "neoverse-n1+i8mm"]
    library = link_library(sources, [], ARM64, tmp_path, CACHE).path
    require_portable(audit_file(library, ARM64))
    assert instructions(library, *SDOT) > 100
    assert instructions(library, *SMMLA) > 100
