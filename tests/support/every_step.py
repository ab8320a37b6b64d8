"""A program with one step of every kind, and the spec of its model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.program import BoundPort, Program, Weight
from builder.compiler.lower.steps.addition_step import AdditionStep
from builder.compiler.lower.steps.attention_step import AttentionStep, Mask, MatrixRows
from builder.compiler.lower.steps.base import Buffer, Step, View
from builder.compiler.lower.steps.cascade_step import CascadeStep
from builder.compiler.lower.steps.control_step import CallStep, ConditionalStep, WhileStep
from builder.compiler.lower.steps.convolution_step import ConvolutionStep
from builder.compiler.lower.steps.copy_step import BroadcastStep, CopyStep, RowStep
from builder.compiler.lower.steps.dot_step import DotStep
from builder.compiler.lower.steps.fft_step import FftAxis, FftStep
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.image_step import NormStep, PoolStep, RepackStep
from builder.compiler.lower.steps.kernel_step import KernelStep, RngStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.compiler.lower.steps.nms_step import CombinedNmsStep, NmsStep
from builder.compiler.lower.steps.quantisation import STATE_ROUNDING, Quantisation, RoundedImage
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.compiler.lower.steps.sort_step import SortStep, TopKStep
from builder.compiler.lower.steps.trees_step import TreesStep
from builder.config import ModelSpec, OutputSpec, Source
from builder.config.tensor import TensorSpec


def arena(offset: int, size: int) -> Buffer:
    return Buffer("arena", offset, size)


KERNEL = KernelStep("add.1", "graph_add", (arena(0, 16), Buffer("weights", 64, 16)), (arena(64, 16),), (2, 1, 1))
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
TREES = TreesStep(
    "trees.10", arena(0, 24), tuple(Buffer("weights", 64 * i, 64) for i in range(7)), arena(64, 8),
    rows=2, features=3, columns=2, trees=1, outputs=1, width=1, words=False, wide=False, doubles=False,
    blocks=1, thread_scratch=576, scratch=arena(128, 576),
)  # fmt: skip
GATHER = GatherStep(
    "gather.10", arena(0, 16), Buffer("weights", 64, 6), arena(64, 8), rows=3, width=2, count=4, index="int32",
    negative=True, weight_type="int8", weight_scale=Buffer("weights", 0, 12), layer="model/gather",
)  # fmt: skip
RNG = RngStep("rng.8", arena(0, 16), 4)


def view(offset: int, size: int = 256) -> View:
    """A picture of two by two pixels with 16 channels."""
    return View(arena(offset, size), 0, 64, 32, 16)


def weights(offset: int, size: int = 128) -> Buffer:
    return Buffer("weights", offset, size)


ROUNDING = Quantisation(0.02, 128)
DENSE = LayerStep(
    "dense.15", "direct", view(0), weights(0, 1024), view(256), Epilogue(weights(1024)),
    Geometry(1, 16, (2, 2), 16), in_size=(2, 2),
)  # fmt: skip
LAYER = replace(
    DENSE, name="layer.16", factor=arena(1024, 64), weight_type="int8", weight_scale=weights(1152),
    epilogue=Epilogue(
        weights(1024), residual=view(512), residual_scale=weights(1280), second=view(768), second_scale=weights(1408),
        second_shift=weights(1536),
    ),
)  # fmt: skip
INTEGER = replace(
    DENSE, name="integer.17", algorithm="integer", output=None, weight_type="int8", weight_scale=weights(1152),
    weight_sums=weights(1280), quantisation=ROUNDING, scratch=arena(2048, 4096),
    rounded=RoundedImage(view(256, 64), (0, 0, 0, 0), ROUNDING),
)  # fmt: skip
POOL = PoolStep(
    "pool.18", "max", view(0), view(256), batch=1, in_size=(2, 2), channels=16, out_size=(1, 1), window=(2, 2),
    stride=(1, 1), padding=(0, 0), scale=1.0, halo=(0, 0, 0, 0),
)  # fmt: skip
NORM = NormStep(
    "norm.19", view(0), view(256), weights(0), weights(128), batch=1, size=(2, 2), channels=16, epsilon=1e-3,
    kind="layer norm", halo=(0, 0, 0, 0),
)  # fmt: skip
RECURRENT = RecurrentStep(
    "lstm.20", "lstm", steps=2, batch=1, units=4, input=arena(0, 128), weights=weights(0), bias=weights(128),
    hidden=arena(128, 16), cell=arena(192, 16), output=arena(256, 32), output_stride=4, backwards=False,
    scratch=arena(320, 64), weight_type="int8", weight_scale=weights(256),
)  # fmt: skip
GRU = replace(
    RECURRENT, name="gru.21", kind="gru", cell=None, output=None, quantisation=STATE_ROUNDING, weight_sums=weights(384)
)
ATTENTION = AttentionStep(
    "attention.22", *(MatrixRows(arena(offset, 64), 0, (0, 0, 16), 4) for offset in (0, 64, 128, 192)), outer=(1, 1, 1),
    queries=4, keys=4, size=4, value_size=4, scale=0.5, mask=Mask("added", weights(0, 64)),
)  # fmt: skip
ROW = RowStep("row.24", arena(0, 4), arena(64, 64), arena(128, 16), 4)
BROADCAST = BroadcastStep(
    "add.25", "add", arena(0, 16), weights(0, 16), arena(64, 16), dims=(1, 1, 1, 4), source_strides=(4, 4, 4, 1),
    other_strides=(0, 0, 0, 1), target_strides=(4, 4, 4, 1),
)  # fmt: skip
ADDITION = AdditionStep(
    "add.29", view(0), view(256), RoundedImage(view(512), (0, 0, 0, 0), Quantisation(1.0, 3)), batch=1, size=(2, 2),
    channels=16, factors=(2, 3), start=-5, shift=1, low=0, high=255,
)  # fmt: skip
FUSED_STEPS: tuple[Step, ...] = (
    DENSE,
    LAYER,
    INTEGER,
    POOL,
    NORM,
    RECURRENT,
    GRU,
    ATTENTION,
    replace(ATTENTION, name="attention.23", mask=Mask("causal")),
    ADDITION,
    RepackStep("repack.26", view(0), view(256), 1, (2, 2), 16, (0, 0, 0, 0)),
    ROW,
    BROADCAST,
    CascadeStep("cascade.27", (replace(DENSE, name="dense.28", input=view(512), output=view(0)), LAYER), 1),
)
"""Steps of our own kernels in place of XLA's, which EVERY_STEP has not."""
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
        TREES,
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
