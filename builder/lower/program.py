"""Program: a compiled graph as a typed list of steps over one arena and one block of weights.

Both paths of ``lower`` make one, and ``emit`` prints it as C. Offsets and sizes are bytes, strides are elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builder.lower.geometry import Geometry
from builder.spec.model import WeightType
from builder.spec.tensor import TensorSpec

ALIGNMENT = 64
"""XLA's kernels assume every buffer is aligned to this many bytes (``min_alignment`` in the thunk)."""

Space = Literal["arena", "weights"]


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes at ``offset`` in the writable arena or in the read-only weights."""

    space: Space
    offset: int
    size: int

    def overlaps(self, other: Buffer) -> bool:
        """Whether any byte belongs to both."""
        return (
            self.space == other.space
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


@dataclass(frozen=True)
class KernelStep:
    """Call one of XLA's fused kernels: arguments, then results, once per work group."""

    name: str
    kernel: str
    buffers: tuple[Buffer, ...]
    workgroups: tuple[int, int, int]


@dataclass(frozen=True)
class ConvolutionStep:
    """XLA's convolution on logical dimensions; see ``cf_convolution`` in runtime/ops/kernels.h."""

    name: str
    dtype: str
    input: Buffer
    kernel: Buffer
    output: Buffer
    batch: int
    groups: int
    in_channels: int
    out_channels: int
    in_size: tuple[int, ...]
    out_size: tuple[int, ...]
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    pad_low: tuple[int, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]
    reversed: tuple[bool, ...]
    in_strides: tuple[int, ...]
    """The strides of batch, channel, then each spatial dimension; ``out_strides`` in the same order."""
    kernel_strides: tuple[int, ...]
    """The strides of input channel, output channel, then each spatial dimension."""
    out_strides: tuple[int, ...]


@dataclass(frozen=True)
class DotStep:
    """Batched matrix product ``out[b,m,n] = sum_k lhs[b,m,k] * rhs[b,k,n]``."""

    name: str
    dtype: str
    lhs: Buffer
    rhs: Buffer
    out: Buffer
    batch: int
    m: int
    n: int
    k: int
    lhs_strides: tuple[int, int, int]
    """The strides of b, m and k; ``rhs_strides``: of b, k and n; ``out_strides``: of b, m and n."""
    rhs_strides: tuple[int, int, int]
    out_strides: tuple[int, int, int]


@dataclass(frozen=True)
class CopyStep:
    """Copy a tensor, changing its layout where the strides differ."""

    name: str
    source: Buffer
    target: Buffer
    item_size: int
    dims: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]


@dataclass(frozen=True)
class SortStep:
    """Stable sort of several buffers together, in place, along one dimension of stride ``inner``."""

    name: str
    comparator: str
    buffers: tuple[Buffer, ...]
    item_sizes: tuple[int, ...]
    outer: int
    length: int
    inner: int
    scratch: Buffer


@dataclass(frozen=True)
class TopKStep:
    """The ``k`` largest float32 of every row, and their int32 positions."""

    name: str
    values: Buffer
    out_values: Buffer
    out_indices: Buffer
    batch: int
    length: int
    k: int


@dataclass(frozen=True)
class FftAxis:
    """One dimension of a transform, as ``cf_fft_axis`` of runtime/ops/kernels.h has it. ``tables``: in floats."""

    size: int
    length: int
    padded: int
    tables: int
    split: bool


FftKind = Literal["FFT", "IFFT", "RFFT", "IRFFT"]


@dataclass(frozen=True)
class FftStep:
    """Discrete Fourier transforms over the last dimensions; see ``cf_fft`` in runtime/ops/kernels.h.

    ``tables``: their constants, among the weights. ``lines`` and ``copy``: places in ``scratch``, in floats.
    """

    name: str
    kind: FftKind
    input: Buffer
    tables: Buffer
    output: Buffer
    batch: int
    axes: tuple[FftAxis, ...]
    lines: int
    copy: int
    scratch: Buffer


@dataclass(frozen=True)
class NmsStep:
    """Non-maximum suppression of ``count`` boxes, or of their ``overlaps``; see ``cf_nms`` in runtime/ops/kernels.h."""

    name: str
    boxes: Buffer
    scores: Buffer
    indices: Buffer
    kept: Buffer
    found: Buffer
    count: int
    size: int
    overlap: float
    score: float
    decay: float
    overlaps: bool
    scratch: Buffer


@dataclass(frozen=True)
class CombinedNmsStep:
    """The same for each class; see ``cf_combined_nms``."""

    name: str
    boxes: Buffer
    scores: Buffer
    out_boxes: Buffer
    out_scores: Buffer
    out_classes: Buffer
    found: Buffer
    batch: int
    count: int
    box_classes: int
    classes: int
    per_class: int
    size: int
    overlap: float
    score: float
    clip: bool
    scratch: Buffer


@dataclass(frozen=True)
class RngStep:
    """Store the generator's 128-bit state and advance it by ``delta``."""

    name: str
    state: Buffer
    delta: int


@dataclass(frozen=True)
class View:
    """A float32 NHWC tensor inside a buffer that may have a halo or padded pixels; strides in floats.

    ``first`` is the offset of element [0, 0, 0, 0] from the buffer's start.
    """

    buffer: Buffer
    first: int
    image: int
    row: int
    pixel: int


ActivationName = Literal[
    "identity", "clamp", "sigmoid", "swish", "hard_sigmoid", "hard_swish", "gelu", "gelu_tanh", "tanh", "elu"
]


@dataclass(frozen=True)
class Epilogue:
    """What happens to a layer's sums before they are stored, per output channel.

    value = sum + bias; value += residual * residual_scale (scale 1 where None); value = activation(value);
    and where ``second`` is a View also second = clamp(value * second_scale + second_shift).
    Channel vectors (bias, scales, shifts) are weights padded with zeros to a multiple of 32 floats.
    """

    bias: Buffer
    activation: ActivationName = "identity"
    low: float = float("-inf")  # of "clamp"
    high: float = float("inf")
    residual: View | None = None
    residual_scale: Buffer | None = None
    second: View | None = None
    second_scale: Buffer | None = None
    second_shift: Buffer | None = None
    second_low: float = float("-inf")
    second_high: float = float("inf")


Algorithm = Literal["direct", "depthwise", "winograd2", "winograd4", "integer", "integer_winograd4", "thin"]
"""``integer``: int8 weights times a layer's input rounded to bytes, summed as int32. ``integer_winograd4``: the same
where a processor multiplies bytes; where it multiplies pairs of int16 only, float sums of the same numbers by
Winograd's algorithm, which saves more. All others sum floats. ``thin``: of few output channels, with pixels in the
lanes of the vectors."""


@dataclass(frozen=True)
class Quantisation:
    """A layer's input as bytes: ``byte = clamp(rint(x * (1 / scale)) + zero, 0, 255)``, which stands for
    ``(byte - zero) * scale``. ``zero``, 0 to 255, stands for exactly 0.0, so that padding is exact. 1 / scale and its
    product with x are float32; ties go to the even number, and NaN becomes ``zero``."""

    scale: float
    zero: int


STATE_ROUNDING = Quantisation(1 / 127, 128)
"""Of the state of an LSTM or GRU that began between -1 and 1: it stays there, so nothing has to be measured."""


@dataclass(frozen=True)
class Rounded:
    """A picture of bytes, as integer sums read it: ``view`` in bytes, with ``halo`` around it as LayerStep has it.

    They are signed where the target's instructions want that: see CF_BYTES_LESS in runtime/fused/vector.h.
    """

    view: View
    halo: tuple[int, int, int, int]
    by: Quantisation


@dataclass(frozen=True)
class LayerStep:
    """A convolution or dense layer with everything after it fused in; float32, NHWC.

    A dense layer is a 1x1 convolution on a 1 x rows picture. The input View points at element [0, 0] of the
    picture; where padding is not zero its halo of zeros is already in the buffer (``pad_top`` rows above ...), so
    the kernel never tests for borders. ``weights``: packed for ``algorithm`` by builder/lower/packing.py.
    ``halo``: (top, left, bottom, right) of zeros that this step writes around its output (and ``second``)
    because a later layer reads them as its padding. ``rounded``: the output as bytes, for integer layers with
    ``input_rounded``, which read that in place of floats; ``output`` is None where nothing reads floats.
    """

    name: str
    algorithm: Algorithm
    input: View
    weights: Buffer
    output: View | None
    epilogue: Epilogue
    batch: int
    in_size: tuple[int, int]
    in_channels: int
    out_size: tuple[int, int]
    out_channels: int
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]  # top, left
    groups: int
    halo: tuple[int, int, int, int]
    second_halo: tuple[int, int, int, int]
    scratch: Buffer | None  # size from packing.scratch_size(...)
    weight_type: WeightType = "float32"
    weight_scale: Buffer | None = None  # of int8, from packing.pack_scale
    weight_sums: Buffer | None = None  # of integer layers, from packing.pack_sums
    quantisation: Quantisation | None = None  # of integer layers
    input_rounded: bool = False  # of integer layers
    rounded: Rounded | None = None
    layer: str = ""  # the op's name in the model
    kept: str = ""  # why its weights are not of the type that was asked for

    @property
    def stored(self) -> View:
        """The output: as floats, or as bytes where nothing reads floats."""
        if self.output is not None:
            return self.output
        assert self.rounded is not None
        return self.rounded.view

    @property
    def geometry(self) -> Geometry:
        """Its sizes, which packing and the choice of an algorithm depend on."""
        return Geometry(
            batch=self.batch,
            in_channels=self.in_channels,
            out_size=self.out_size,
            out_channels=self.out_channels,
            kernel_size=self.kernel_size,
            stride=self.stride,
            dilation=self.dilation,
            groups=self.groups,
        )


@dataclass(frozen=True)
class PoolStep:
    """Max or average pooling, or the mean over the whole picture; ``scale`` multiplies a sum."""

    name: str
    kind: Literal["max", "sum"]
    input: View
    output: View
    batch: int
    in_size: tuple[int, int]
    channels: int
    out_size: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]  # top, left; outside pixels do not count
    scale: float
    halo: tuple[int, int, int, int]


@dataclass(frozen=True)
class NormStep:
    """``output = (input - mean) / sqrt(variance + epsilon) * gamma + beta``, over the channels of each pixel.

    Not ``centred``: the mean counts as 0, so that the variance is the mean square. ``gamma`` and ``beta`` are channel
    vectors, as Epilogue has them. ``halo``: zeros that this step writes around its output.
    """

    name: str
    input: View
    output: View
    gamma: Buffer
    beta: Buffer
    batch: int
    size: tuple[int, int]
    channels: int
    epsilon: float
    centred: bool
    halo: tuple[int, int, int, int]


Recurrence = Literal["lstm", "gru"]


@dataclass(frozen=True)
class RecurrentStep:
    """A recurrent layer over all of its steps. ``input``: [steps, batch, gates * units], what the inputs give for the
    gates, biases included. Each step adds ``hidden [batch, units] @ weights`` (with ``bias``) to its part of that.

    "lstm": gates i, f, g and o; ``cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)``, ``hidden = sigmoid(o) *
    tanh(cell)``. "gru": gates z, r and h, where what ``hidden`` gives for h is multiplied by r before it is added;
    ``hidden = sigmoid(z) * hidden + (1 - sigmoid(z)) * tanh(h)``.

    ``bounded``: the state begins between -1 and 1, and so stays there. With ``quantisation``, which then is
    ``STATE_ROUNDING``, it is rounded to bytes before it is multiplied, as the input of an integer layer is.
    ``weight_sums``: of such.

    ``hidden`` and ``cell`` are the state, before the first step and after the last one. ``output``: where each step
    leaves ``hidden`` too, ``output_stride`` floats apart: 0 leaves that of the last one. ``backwards``: the input's
    last step is the first. ``scratch``: a step's products. ``by_units``: the weights are packed by ``pack_units``.
    """

    name: str
    kind: Recurrence
    steps: int
    batch: int
    units: int
    input: Buffer
    weights: Buffer
    bias: Buffer
    hidden: Buffer
    cell: Buffer | None
    output: Buffer | None
    output_stride: int
    backwards: bool
    scratch: Buffer
    by_units: bool = False
    bounded: bool = False
    quantisation: Quantisation | None = None
    weight_type: WeightType = "float32"
    weight_scale: Buffer | None = None
    weight_sums: Buffer | None = None
    layer: str = ""  # the op's name in the model
    kept: str = ""  # why its weights are not of the type that was asked for

    @property
    def gates(self) -> int:
        return 4 if self.kind == "lstm" else 3

    @property
    def geometry(self) -> Geometry:
        """Of one step's product."""
        return Geometry(1, self.units, (1, self.batch), self.gates * self.units)


@dataclass(frozen=True)
class Rows:
    """The rows of many matrices of float32: strides in floats, of a row's own numbers 1.

    ``outer``: from matrix to matrix, in three dimensions. ``first``: of the first row, from the buffer's start.
    """

    buffer: Buffer
    first: int
    outer: tuple[int, int, int]
    row: int


MaskKind = Literal["added", "chosen", "causal"]
MaskType = Literal["f32", "s32", "set", "u8"]
"""Of a mask's elements: float32, int32, int32 that counts as 1 where it is not 0, and bool."""


@dataclass(frozen=True)
class Mask:
    """What happens to the scores. Its number for a query and a key is ``element * scale + shift``.

    "added": number and score are added. "chosen": the score stays where the number is not 0, and else is ``fill``.
    "causal": the score stays where key <= query + ``past``; the others are left out. That takes no ``buffer``.
    ``strides``: of the three dimensions of matrices, of query and of key, in elements; 0 repeats.
    ``first``: the first element's number.
    """

    kind: MaskKind
    buffer: Buffer | None = None
    type: MaskType = "f32"
    scale: float = 1.0
    shift: float = 0.0
    fill: float = 0.0
    past: int = 0
    first: int = 0
    strides: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


@dataclass(frozen=True)
class AttentionStep:
    """``output = softmax(query key^T * scale, masked) value`` for every matrix; float32.

    ``outer``: how many matrices there are, such as batch x heads x queries' heads that share a head of keys.
    ``size``: numbers of a query and of a key; ``value_size``: of a value and of an answer.
    """

    name: str
    query: Rows
    key: Rows
    value: Rows
    output: Rows
    outer: tuple[int, int, int]
    queries: int
    keys: int
    size: int
    value_size: int
    scale: float
    mask: Mask | None = None
    safe: bool = False  # a query that sees no key is answered with zeros, and not NaN
    layer: str = ""  # the op's name in the model


@dataclass(frozen=True)
class RepackStep:
    """Copy a dense NHWC tensor into a View with a halo of zeros, or back."""

    name: str
    input: View
    output: View
    batch: int
    size: tuple[int, int]
    channels: int
    halo: tuple[int, int, int, int]


BroadcastOp = Literal["copy", "add", "multiply"]


@dataclass(frozen=True)
class BroadcastStep:
    """``target = source``, ``source + other`` or ``source * other`` of float32, over four dimensions.

    Strides are in elements, the target's last is 1; 0 repeats. ``source`` may be ``target`` where their strides are the
    same.
    """

    name: str
    op: BroadcastOp
    source: Buffer
    other: Buffer | None
    target: Buffer
    dims: tuple[int, ...]
    source_strides: tuple[int, ...]
    other_strides: tuple[int, ...] | None
    target_strides: tuple[int, ...]


@dataclass(frozen=True)
class RowStep:
    """Copy one of ``count`` rows of ``source`` to ``target``, which has a row's size.

    ``index`` is an int32 in the arena; past either end it means the row at that end.
    """

    name: str
    index: Buffer
    source: Buffer
    target: Buffer
    count: int


@dataclass(frozen=True)
class GatherStep:
    """Rows of ``table`` [rows, width] as float32, by ``count`` numbers of the dtype ``index``.

    Numbers become int32, or int64 if ``wide``. One below 0 counts from the table's end if ``negative``; one past either
    end means the row at that end.
    """

    name: str
    indices: Buffer
    table: Buffer
    output: Buffer
    rows: int
    width: int
    count: int
    index: str
    wide: bool = False
    negative: bool = False
    weight_type: WeightType = "float32"
    weight_scale: Buffer | None = None  # of int8: a float32 for each row
    layer: str = ""  # the op's name in the model
    kept: str = ""  # why the table is not of the type that was asked for


@dataclass(frozen=True)
class CallStep:
    name: str
    body: Steps


@dataclass(frozen=True)
class ConditionalStep:
    """Run one branch. ``index`` is a bool (true is branch 0) or an int32 (out of range is the last)."""

    name: str
    index: Buffer
    branches: tuple[Steps, ...]


@dataclass(frozen=True)
class WhileStep:
    """Run ``body`` ``trip_count`` times, or while ``condition`` leaves a true byte in ``predicate``."""

    name: str
    condition: Steps
    predicate: Buffer
    body: Steps
    trip_count: int | None


Step = (
    KernelStep
    | ConvolutionStep
    | DotStep
    | CopyStep
    | SortStep
    | TopKStep
    | FftStep
    | NmsStep
    | CombinedNmsStep
    | RngStep
    | LayerStep
    | PoolStep
    | NormStep
    | RecurrentStep
    | AttentionStep
    | RepackStep
    | RowStep
    | GatherStep
    | BroadcastStep
    | CallStep
    | ConditionalStep
    | WhileStep
)
Steps = tuple[Step, ...]


@dataclass(frozen=True)
class Weight:
    """A constant's bytes and where they stand in the weights."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class BoundPort:
    """A feed or fetch and where ``cf_run`` copies it to or from."""

    spec: TensorSpec
    buffer: Buffer


@dataclass(frozen=True)
class BoundState:
    """A variable that lasts from call to call, at ``offset`` in the state: copied to ``read`` before the steps run
    and from ``write`` after them. ``first``: its value when the model is opened."""

    spec: TensorSpec
    offset: int
    read: Buffer
    write: Buffer
    first: Buffer


@dataclass(frozen=True)
class Program:
    steps: Steps
    feeds: tuple[BoundPort, ...]
    fetches: tuple[BoundPort, ...]
    weights: tuple[Weight, ...]
    arena_size: int
    weights_size: int
    states: tuple[BoundState, ...] = ()

    @property
    def state_size(self) -> int:
        """Bytes of the state, without gaps: variable after variable."""
        return sum(state.spec.size for state in self.states)


def walk(steps: Steps) -> list[Step]:
    """Every step, those inside calls, branches and loops included, in program order."""
    found: list[Step] = []
    for step in steps:
        found.append(step)
        if isinstance(step, CallStep):
            found += walk(step.body)
        elif isinstance(step, ConditionalStep):
            for branch in step.branches:
                found += walk(branch)
        elif isinstance(step, WhileStep):
            found += walk(step.condition) + walk(step.body)
    return found
