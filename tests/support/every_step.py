"""A program with one step of every kind, and the spec of its model."""

from __future__ import annotations

from pathlib import Path

from builder.lower.fused_steps import GatherStep
from builder.lower.program import BoundPort, CallStep, ConditionalStep, Program, Weight, WhileStep
from builder.lower.steps import (
    Buffer,
    CombinedNmsStep,
    ConvolutionStep,
    CopyStep,
    DotStep,
    FftAxis,
    FftStep,
    KernelStep,
    NmsStep,
    RngStep,
    SortStep,
    TopKStep,
)
from builder.spec import ModelSpec, OutputSpec, Source
from builder.spec.tensor import TensorSpec


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
FFT = FftStep(
    "fft.8", "IRFFT", arena(0, 48), Buffer("weights", 0, 16), arena(128, 32), 1,
    (FftAxis(2, 2, 0, 0, False), FftAxis(4, 2, 0, 4, False)), 64, 112, arena(256, 512),
)  # fmt: skip
NMS = NmsStep(
    "nms.8", arena(0, 32), Buffer("weights", 0, 8), arena(64, 8), arena(128, 8), arena(192, 4),
    count=2, size=2, overlap=0.5, score=float("-inf"), decay=-1.25, overlaps=False, scratch=arena(256, 64),
)  # fmt: skip
COMBINED_NMS = CombinedNmsStep(
    "nms.9", arena(0, 32), Buffer("weights", 0, 16), arena(64, 48), arena(128, 12), arena(192, 12), arena(320, 4),
    batch=1, count=2, box_classes=1, classes=2, per_class=2, size=3, overlap=0.3, score=0.1, clip=True,
    scratch=arena(384, 128),
)  # fmt: skip
GATHER = GatherStep(
    "gather.10", arena(0, 16), Buffer("weights", 64, 6), arena(64, 8), rows=3, width=2, count=4, index="int32",
    negative=True, weight_type="int8", weight_scale=Buffer("weights", 0, 12), layer="model/gather",
)  # fmt: skip
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
        FFT,
        NMS,
        COMBINED_NMS,
        GATHER,
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
