"""What would stop a build, found in a second instead of after minutes: ops XLA has no kernel for, and size.

Which ops XLA compiles is asked of TensorFlow's own kernel registry, with each node's types, so the answer is
that of the installed version. The few ops that have a kernel and still cannot be built are in a table here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from builder.errors import PreflightError, SizeLimitError
from builder.importers.graph import FrozenGraph
from builder.importers.stablehlo import constants_size
from builder.importers.tf import dtype_name, tensorflow
from builder.importers.walk import walk
from builder.pack.limits import ways_out
from builder.spec import DIRECT_UPLOAD_ZIPPED, LAMBDA_UNZIPPED, WeightsPlace

LIBRARY_OVERHEAD = 600_000
"""Bytes of libmodel.so beside the weights: kernels, runtime and tables, at most."""

DEPENDENCIES_SIZE = 20_000_000
"""Bytes of the dependencies layer and the function, unpacked."""

COMPRESSION = 0.93
"""What zip leaves of trained float32 weights: their mantissas are noise."""

_DEVICE = "XLA_CPU_JIT"
_PORTS = {"Placeholder", "VarHandleOp"}  # feeds and state; the importer leaves no other
_V1_CONTROL_FLOW = {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"}  # XLA rebuilds While and If

_FFT = "XLA's ahead-of-time compiler has no FFT"
_CONV3D = "coldforge's runtime has no 3-D convolution"
BEYOND_RUNTIME: Mapping[str, str] = {
    **{f"{kind}{size}": _FFT for kind in ("FFT", "IFFT", "RFFT", "IRFFT") for size in ("", "2D", "3D", "ND")},
    **dict.fromkeys(("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"), _CONV3D),
}
"""Ops XLA has a kernel for, whose result still cannot be built into a library."""

_STRINGS = "handle strings in the caller and feed numbers"
_TABLE = "look keys up in the caller and feed the indices"
_DECODE = "decode in the caller and feed pixels ([image] in model.toml)"
_NMS = "use tf.image.non_max_suppression_padded"
_FFT_HINT = "do it in the caller, or multiply by a DFT matrix (tf.matmul) where the size is small"
HINTS: Mapping[str, str] = {
    "CombinedNonMaxSuppression": _NMS,
    "NonMaxSuppression": _NMS,
    "NonMaxSuppressionV2": _NMS,
    "NonMaxSuppressionV5": _NMS,
    "NonMaxSuppressionWithOverlaps": _NMS,
    "Conv3D": "write it as a sum of 2-D convolutions over slices",
    "PyFunc": "Python code cannot be compiled: write it with TensorFlow ops, or do it in the caller",
    "PyFuncStateless": "Python code cannot be compiled: write it with TensorFlow ops, or do it in the caller",
    "EagerPyFunc": "Python code cannot be compiled: write it with TensorFlow ops, or do it in the caller",
    "ParseExample": "parse examples in the caller: fetch and feed past this node",
    "ParseExampleV2": "parse examples in the caller: fetch and feed past this node",
    "ResizeBicubic": "resize with method 'bilinear' or 'nearest', or in the caller",
    "ResizeArea": "resize with method 'bilinear' or 'nearest', or in the caller",
    "MatrixDeterminant": "multiply the diagonal of tf.linalg.qr's R, or of tf.linalg.cholesky's L",
    "Lu": "use tf.linalg.qr or tf.linalg.cholesky",
    "MaxPoolWithArgmax": "use tf.nn.max_pool2d, or compare its up-sampled result with the input",
    "SparseTensorDenseMatMul": "make the sparse matrix dense, or gather its rows",
    "CropAndResize": "crop by slicing and use tf.image.resize, or crop in the caller",
    "CTCGreedyDecoder": "fetch its input and decode in the caller",
    "CTCBeamSearchDecoder": "fetch its input and decode in the caller",
    **dict.fromkeys(
        ("DecodeJpeg", "DecodePng", "DecodeImage", "DecodeBmp", "DecodeGif", "DecodeAndCropJpeg", "DecodeWebP"), _DECODE
    ),
    **dict.fromkeys(
        ("HashTableV2", "LookupTableFindV2", "LookupTableSizeV2", "InitializeTableV2", "MutableHashTableV2"), _TABLE
    ),
    **dict.fromkeys(
        ("StringToNumber", "AsString", "StringSplitV2", "StringToHashBucketFast", "RegexReplace", "DecodeRaw"), _STRINGS
    ),
    **{op: _FFT_HINT for op, reason in BEYOND_RUNTIME.items() if reason == _FFT},
}


@dataclass(frozen=True)
class Unsupported:
    """All nodes of one op that cannot be compiled for one reason. ``nodes`` are named as in the model."""

    op: str
    reason: str
    hint: str | None
    nodes: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class Preflight:
    """What stands in the way of a build, and how large its bundle will be (bytes)."""

    nodes: int
    unsupported: tuple[Unsupported, ...]
    weights: int
    library: int
    dependencies: int
    max_unzipped: int
    max_zipped: int
    place: WeightsPlace = "library"

    @property
    def unzipped(self) -> int:
        return self.library + self.dependencies

    @property
    def zipped(self) -> int:
        """The model layer's zip, estimated."""
        packed = self.weights if self.place in ("library", "layer") else 0
        return int(packed * COMPRESSION) + LIBRARY_OVERHEAD // 3

    @property
    def fits(self) -> bool:
        return self.unzipped <= self.max_unzipped

    @property
    def ok(self) -> bool:
        return self.fits and not self.unsupported

    @property
    def exit_code(self) -> int:
        """The exit code of a command that only asks: 0, or that of the error which ``require`` raises."""
        if self.unsupported:
            return PreflightError.exit_code
        return 0 if self.fits else SizeLimitError.exit_code

    def to_json(self) -> dict[str, Any]:
        rows = [{**asdict(u), "nodes": list(u.nodes), "count": u.count} for u in self.unsupported]
        return {
            **asdict(self),
            "unsupported": rows,
            "unzipped": self.unzipped,
            "zipped": self.zipped,
            "fits": self.fits,
            "ok": self.ok,
        }


def check(
    graph: FrozenGraph,
    *,
    dependencies: int = DEPENDENCIES_SIZE,
    max_unzipped: int = LAMBDA_UNZIPPED,
    max_zipped: int = LAMBDA_UNZIPPED,
    place: WeightsPlace = "library",
    share: float = 1.0,
) -> Preflight:
    """Look at every node of ``graph``, also inside loops, branches and called functions. Raises nothing.

    ``place``: of the weights, which do not count where they are elsewhere. ``share``: of their bytes, what is left of
    them in the library.
    """
    definition = tensorflow().compat.v1.GraphDef.FromString(graph.graph_path.read_bytes())
    found: dict[tuple[str, str], list[str]] = {}
    nodes = weights = 0
    for path, node in walk(definition):
        nodes += 1
        weights += _constant_size(node)
        reason = gap(node, _kernels)
        if reason:
            found.setdefault((node.op, reason), []).append(path)
    unsupported = tuple(
        Unsupported(op, reason, HINTS.get(op), tuple(paths)) for (op, reason), paths in sorted(found.items())
    )
    weights = int(weights * share)
    library = LIBRARY_OVERHEAD + (weights if place != "elsewhere" else 0)
    return Preflight(nodes, unsupported, weights, library, dependencies, max_unzipped, max_zipped, place)


def require(preflight: Preflight) -> None:
    """Raise PreflightError if an op cannot be compiled, SizeLimitError if the bundle cannot fit Lambda."""
    if preflight.unsupported:
        raise PreflightError(render(preflight))
    if not preflight.fits:
        raise SizeLimitError(render(preflight))


def render(preflight: Preflight) -> str:
    """The result as text for a person, a few lines."""
    lines = []
    if preflight.unsupported:
        total = sum(u.count for u in preflight.unsupported)
        lines.append(f"XLA cannot compile {total} of the graph's {preflight.nodes} nodes:")
        for item in preflight.unsupported:
            shown = ", ".join(item.nodes[:3]) + (f" and {item.count - 3} more" if item.count > 3 else "")
            lines.append(f"  {item.op} x{item.count}: {item.reason}")
            lines.append(f"    at {shown}")
            if item.hint:
                lines.append(f"    {item.hint}")
    else:
        lines.append(f"XLA has a kernel for each of the graph's {preflight.nodes} nodes.")
    lines.append(
        f"Forecast: {_size(preflight.weights)} of weights, libmodel.so {_size(preflight.library)}, with dependencies "
        f"{_size(preflight.unzipped)} of {_size(preflight.max_unzipped)} unzipped; layer zip about "
        f"{_size(preflight.zipped)} of {_size(preflight.max_zipped)}."
    )
    if not preflight.fits:
        lines.append(
            f"Too large by {_size(preflight.unzipped - preflight.max_unzipped)}: use a smaller model, or store its "
            "weights in fewer bits: `[weights] type` in model.toml."
        )
        if preflight.unzipped > LAMBDA_UNZIPPED and preflight.max_unzipped <= LAMBDA_UNZIPPED:
            lines.append("Or keep the weights outside the layer. The cheapest way comes first:")
            lines += [f"  - {way}" for way in ways_out(preflight.weights)]
    elif preflight.zipped > preflight.max_zipped:
        lines.append("The layer's zip is over `zipped` under [limits] in model.toml: the build would stop.")
    elif preflight.zipped > DIRECT_UPLOAD_ZIPPED and preflight.max_zipped <= LAMBDA_UNZIPPED:
        lines.append("The layer's zip is over 50 MB: deploy it through S3, as `make deploy` and `make publish` do.")
    return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if abs(count) >= 100_000 else f"{count / 1e3:.1f} kB"


Constraints = tuple[tuple[str, frozenset[int]], ...]
"""What one kernel requires: (attribute, DataTypes that it may have), all of which must hold."""


def gap(node: Any, kernels: Callable[[str], tuple[Constraints, ...]]) -> str | None:
    """Why ``node`` cannot be compiled, or None. ``kernels`` gives the constraints of each of an op's kernels."""
    if node.op in BEYOND_RUNTIME:
        return BEYOND_RUNTIME[node.op]
    if node.op in _PORTS or node.op in _V1_CONTROL_FLOW:
        return None
    candidates = kernels(node.op)
    if not candidates:
        return "XLA has no kernel for it"
    misses = [_misses(node, constraints) for constraints in candidates]
    if not all(misses):
        return None
    attribute, types = min(misses, key=len)[0]
    allowed = {t for constraints in candidates for name, values in constraints if name == attribute for t in values}
    wrong = ", ".join(sorted({dtype_name(t) for t in types}))
    right = ", ".join(sorted({dtype_name(t) for t in allowed if t < 100}))  # 100 and up are reference types
    return f"XLA has no kernel for {attribute} = {wrong}, only for {right}"


def _misses(node: Any, constraints: Constraints) -> list[tuple[str, tuple[int, ...]]]:
    misses = []
    for attribute, allowed in constraints:
        wrong = tuple(t for t in _types(node, attribute) if t not in allowed)
        if wrong:
            misses.append((attribute, wrong))
    return misses


def _types(node: Any, attribute: str) -> tuple[int, ...]:
    if attribute not in node.attr:  # a default, or the type parameter of a generic function
        return ()
    value = node.attr[attribute]
    return tuple(value.list.type) if value.HasField("list") else (value.type,) if value.HasField("type") else ()


@cache
def _kernels(op: str) -> tuple[Constraints, ...]:
    from tensorflow.python.framework import kernels

    _register_xla()
    return tuple(
        tuple((c.name, frozenset(c.allowed_values.list.type)) for c in kernel.constraint)
        for kernel in kernels.get_registered_kernels_for_op(op).kernel
        if kernel.device_type == _DEVICE
    )


@cache
def _register_xla() -> None:
    """XLA's kernels only come into the registry when something is first compiled."""
    tf = tensorflow()
    tf.function(lambda x: x + x, jit_compile=True)(tf.zeros([]))


def _constant_size(node: Any) -> int:
    """Bytes of the constants that ``node`` holds."""
    if node.op == "XlaCallModule":  # a whole program, as JAX saves it
        return constants_size(node.attr["module"].s)
    if node.op != "Const":
        return 0
    tensor = node.attr["value"].tensor
    dtype = tensorflow().dtypes.as_dtype(tensor.dtype)
    return int(math.prod(d.size for d in tensor.tensor_shape.dim) * (dtype.size or 0))
