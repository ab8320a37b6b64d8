"""Steps of a program that our own kernels do in place of several of XLA's: layers, and what lies between them.

Offsets and sizes are bytes, strides are elements, where nothing else is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builder.lower.geometry import Geometry
from builder.lower.steps import Buffer
from builder.spec.model import WeightType


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
    and where there is ``second_scale`` also second = clamp(value * second_scale + second_shift), stored as floats where
    ``second`` is a View.
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
    because a later layer reads them as its padding. ``rounded``: the last output, the second if there is one, as bytes,
    for integer layers with ``input_rounded``, which read that in place of floats; ``output``, or ``second``, is None
    where nothing reads floats. ``factor``: float32 [in_channels], made by another step, which the input is multiplied
    by; of "direct" 1x1 layers of one picture. ``joined``: output pixels side by side that are computed as one: see
    joined.py.
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
    factor: Buffer | None = None
    joined: int = 1  # of integer layers; weights and channel vectors are those of the layer that computes them
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
    """Max or average pooling, or the mean over the whole picture; ``scale`` multiplies a sum.

    ``rounded``: of a maximum, both pictures are of bytes, as Rounded has them.
    """

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
    rounded: Quantisation | None = None


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
