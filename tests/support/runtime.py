"""The C runtime as a library that takes NumPy arrays: their dtypes, shapes and strides are the descriptors."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from builder.base.project import RUNTIME, cache_folder
from builder.base.targets import X86_64
from builder.compiler.link.shared_library import KERNEL_SOURCES
from builder.compiler.link.toolchain import Toolchain
from builder.compiler.lower.compress import ITEM_SIZES
from builder.compiler.lower.steps.fft_step import FFT_KINDS, FftKind, plan_fft
from builder.config import WeightType

FUNCTIONS = ("broadcast", "combined_nms", "convolution", "copy", "dot", "fft", "gather", "nms", "sort", "topk")
TABLE = (
    '#include "ops/kernels.h"\n__attribute__((visibility("default"))) void *const cf_table[] = {'
    + ", ".join(f"(void *)cf_run_{name}" for name in FUNCTIONS)
    + "};\n"
)
"""The runtime's functions are hidden, as they are in a model's library; this table finds them."""

CACHE = cache_folder() / "zig"

DTYPES = ("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
"""In the order of cf_dtype."""

SANITIZERS = (
    "-std=c11", "-O0", "-g", "-march=x86-64-v3", "-fPIC", "-shared", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    "-Wall", "-Wextra", "-Werror", "-Wconversion",
)  # fmt: skip
"""Unoptimised: compiling is what takes long."""


def build(folder: Path) -> Path:
    """Compile the runtime as the builder does."""
    toolchain = Toolchain(X86_64, CACHE)
    sources = _sources(folder)
    objects = [folder / f"{source.stem}.o" for source in sources]
    for source, output in zip(sources, objects, strict=True):
        toolchain.compile_source(source, output, include=(RUNTIME,))
    exports = folder / "exports.map"
    exports.write_text("{ global: cf_table; local: *; };\n")
    toolchain.link_shared_library(objects, exports, folder / "libruntime.so")
    return folder / "libruntime.so"


def build_with_gcc(folder: Path, flags: Sequence[str] = SANITIZERS) -> Path:
    """Compile the runtime with gcc, which must be there, and ``flags``: its sanitizers, if nothing else is said."""
    output = folder / "libruntime-gcc.so"
    command = ["gcc", *flags, f"-I{RUNTIME}", *map(str, _sources(folder)), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


def _sources(folder: Path) -> list[Path]:
    table = folder / "table.c"
    table.write_text(TABLE)
    return [table, *(RUNTIME / name for name in KERNEL_SOURCES)]


def sanitizer_environment() -> dict[str, str]:
    """What a Python needs that loads a sanitized library: libasan first, and malloc for every object."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return os.environ | {
        "LD_PRELOAD": str(Path(found.stdout.strip()).resolve()),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


class _Convolution(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_int),
        ("spatial_rank", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("batch", "groups", "in_channels", "out_channels")),
        *(
            (name, ctypes.c_int64 * 3)
            for name in ("in", "out", "kernel", "stride", "pad_low", "base_dilation", "window_dilation")
        ),
        ("reversed", ctypes.c_int32 * 3),
        *((name, ctypes.c_int64) for name in ("in_batch", "in_channel")),
        ("in_spatial", ctypes.c_int64 * 3),
        *((name, ctypes.c_int64) for name in ("kernel_in", "kernel_out")),
        ("kernel_spatial", ctypes.c_int64 * 3),
        *((name, ctypes.c_int64) for name in ("out_batch", "out_channel")),
        ("out_spatial", ctypes.c_int64 * 3),
    )


class _Dot(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_int),
        *((name, ctypes.c_int64) for name in ("batch", "m", "n", "k")),
        *((name, ctypes.c_int64 * 3) for name in ("lhs", "rhs", "out")),
    )


class _Copy(ctypes.Structure):
    _fields_ = (
        ("rank", ctypes.c_int32),
        *((name, ctypes.c_int64 * 8) for name in ("dims", "src_stride", "dst_stride")),
        ("item_size", ctypes.c_int64),
    )


class _Broadcast(ctypes.Structure):
    _fields_ = (("op", ctypes.c_int), *((name, ctypes.c_int64 * 4) for name in ("dims", "source", "other", "target")))


class _Sort(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("outer", "length", "inner")),
        ("item_size", ctypes.c_int64 * 16),
    )


class _TopK(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("batch", "length", "k"))


class _FftAxis(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("size", "length", "padded", "tables")),
        ("split", ctypes.c_int32),
    )


class _Fft(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("batch", ctypes.c_int64),
        ("axes", _FftAxis * 3),
        *((name, ctypes.c_int64) for name in ("lines", "copy")),
    )


class _Gather(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("index", ctypes.c_int),
        *((name, ctypes.c_int32) for name in ("wide", "negative")),
        *((name, ctypes.c_int64) for name in ("count", "rows", "width")),
    )


class _Nms(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("boxes", "size")),
        *((name, ctypes.c_float) for name in ("overlap", "score", "decay")),
        ("overlaps", ctypes.c_int32),
    )


class _CombinedNms(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "boxes", "box_classes", "classes", "per_class", "size")),
        *((name, ctypes.c_float) for name in ("overlap", "score")),
        ("clip", ctypes.c_int32),
    )


_COMPARATOR = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)

Less = Callable[[list[np.generic], list[np.generic]], bool]
"""Whether the left elements (one of each input) come before the right ones."""


class Runtime:
    """The library at ``path``. Arrays may have any layout of whole positive strides unless it says dense."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        table = (ctypes.c_void_p * len(FUNCTIONS)).in_dll(self._library, "cf_table")
        self._functions = dict(zip(FUNCTIONS, table, strict=True))

    def _call(self, name: str, descriptor: ctypes.Structure, *arguments: object) -> None:
        kinds = [ctypes.c_int64 if isinstance(a, ctypes.c_int64) else ctypes.c_void_p for a in arguments]
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *kinds)
        prototype(self._functions[name])(ctypes.addressof(descriptor), *arguments)

    def convolution(
        self,
        source: np.ndarray,
        kernel: np.ndarray,
        output: np.ndarray,
        *,
        groups: int,
        stride: Sequence[int],
        pad_low: Sequence[int],
        base_dilation: Sequence[int],
        window_dilation: Sequence[int],
        reversed_: Sequence[bool],
    ) -> None:
        """source [N, C, spatial...], kernel [C / groups, O, spatial...], output [N, O, spatial...]."""
        spaces, kernels, outs = _strides(source), _strides(kernel), _strides(output)
        descriptor = _Convolution(
            _dtype(source), source.ndim - 2, source.shape[0], groups, source.shape[1], output.shape[1],
            *(tuple(a.shape[2:]) for a in (source, output, kernel)),
            tuple(stride), tuple(pad_low), tuple(base_dilation), tuple(window_dilation), tuple(reversed_),
            *spaces[:2], spaces[2:], *kernels[:2], kernels[2:], *outs[:2], outs[2:],
        )  # fmt: skip
        self._call("convolution", descriptor, *map(_address, (source, kernel, output)))

    def dot(self, lhs: np.ndarray, rhs: np.ndarray, out: np.ndarray) -> None:
        """lhs [B, M, K], rhs [B, K, N], out [B, M, N]."""
        sizes = (lhs.shape[0], lhs.shape[1], rhs.shape[2], lhs.shape[2])
        descriptor = _Dot(_dtype(lhs), *sizes, *map(_strides, (lhs, rhs, out)))
        self._call("dot", descriptor, *map(_address, (lhs, rhs, out)))

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        descriptor = _Copy(source.ndim, source.shape, _strides(source), _strides(target), source.itemsize)
        self._call("copy", descriptor, _address(source), _address(target))

    def broadcast(self, op: int, source: np.ndarray, other: np.ndarray | None, target: np.ndarray, cut: int) -> None:
        """Four dimensions; ``op`` as in cf_broadcast_op. Rows before ``cut`` and from there on in two calls."""
        strides = (0, 0, 0, 0) if other is None else _strides(other)
        descriptor = _Broadcast(op, target.shape, _strides(source), strides, _strides(target))
        pointers = (_address(source), ctypes.c_void_p(None) if other is None else _address(other), _address(target))
        for rows in ((0, cut), (cut, int(np.prod(target.shape[:3])))):
            self._call("broadcast", descriptor, *map(ctypes.c_int64, rows), *pointers)

    def sort(self, arrays: Sequence[np.ndarray], axis: int, less: Less) -> None:
        """Sort dense arrays of one shape together, in place."""
        shape = arrays[0].shape

        def compare(result, options, operands, buffers, status, counters):  # type: ignore[no-untyped-def]
            assert [options, buffers, status, counters] == [None] * 4
            elements = [
                np.frombuffer(ctypes.string_at(operands[2 * i + side], a.itemsize), a.dtype)[0]
                for side in (0, 1)
                for i, a in enumerate(arrays)
            ]
            result[0] = bool(less(elements[: len(arrays)], elements[len(arrays) :]))

        sizes = [a.itemsize for a in arrays]
        outer, length, inner = int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))
        descriptor = _Sort(len(arrays), outer, length, inner, tuple(sizes))
        data = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        scratch = np.empty(length * (16 + max(sizes)), "u1")
        less_ = _COMPARATOR(compare)
        self._call("sort", descriptor, ctypes.cast(less_, ctypes.c_void_p), data, _address(scratch))

    def top_k(self, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k largest of each row of a dense float32 matrix, and their columns."""
        out, indices = np.full((len(values), k), np.nan, "f4"), np.full((len(values), k), -1, "i4")
        descriptor = _TopK(*values.shape, k)
        self._call("topk", descriptor, *map(_address, (values, out, indices)))
        return out, indices

    def fft(self, kind: FftKind, values: np.ndarray, sizes: tuple[int, ...], output: np.ndarray) -> None:
        """Transforms over the last dimensions, whose real side is of ``sizes``, of dense arrays."""
        batch = int(np.prod(values.shape[: -len(sizes)]))
        plan = plan_fft(kind, sizes, batch)
        axes = tuple((a.size, a.length, a.padded, a.tables, a.split) for a in plan.axes)
        descriptor = _Fft(FFT_KINDS.index(kind), len(sizes), batch, axes, plan.lines, plan.copy)
        memory = np.full(4 * plan.scratch + 64, 0xFF, "u1")  # floats that are no numbers
        scratch = memory[-memory.ctypes.data % 64 :][: 4 * plan.scratch]
        self._call("fft", descriptor, *map(_address, (values, plan.tables, output, scratch)))

    def gather(
        self,
        kind: WeightType,
        table: bytes,
        scale: np.ndarray | None,
        indices: np.ndarray,
        shape: tuple[int, int],
        *,
        wide: bool,
        negative: bool,
    ) -> np.ndarray:
        """The rows of a table of ``shape`` that ``compress.encode_numbers`` made the bytes of; no byte past them is
        read.
        """
        numbers = np.frombuffer(table, "u1").copy()
        output = np.full((*indices.shape, shape[1]), np.nan, "f4")
        kinds = (tuple(ITEM_SIZES).index(kind), _dtype(indices))
        descriptor = _Gather(*kinds, wide, negative, indices.size, *shape)
        scales = ctypes.c_void_p(None) if scale is None else _address(scale)
        self._call("gather", descriptor, _address(indices), _address(numbers), scales, _address(output))
        return output

    def nms(
        self, boxes: np.ndarray, scores: np.ndarray, size: int, overlap: float, score: float, decay: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Indices and scores [size] of the boxes [N, 4] that are kept, or of those whose overlaps are [N, N], and how
        many there are."""
        indices, kept, count = np.full(size, -1, "i4"), np.full(size, np.nan, "f4"), np.full((), -1, "i4")
        descriptor = _Nms(len(scores), size, overlap, score, decay, boxes.shape[1] != 4)
        scratch = np.empty(12 * len(scores) + 20 * min(size, len(scores)), "u1")
        self._call("nms", descriptor, *map(_address, (boxes, scores, indices, kept, count, scratch)))
        return indices, kept, int(count)

    def combined_nms(
        self, boxes: np.ndarray, scores: np.ndarray, per_class: int, size: int, overlap: float, score: float, clip: bool
    ) -> tuple[np.ndarray, ...]:
        """As TensorFlow's op gives it, of boxes [batch, N, 1 or classes, 4] and scores [batch, N, classes]."""
        batch, count, classes = scores.shape
        shapes = ((batch, size, 4), (batch, size), (batch, size), (batch,))
        outputs = [np.full(shape, -1, kind) for shape, kind in zip(shapes, ("f4", "f4", "f4", "i4"), strict=True)]
        sizes = (batch, count, boxes.shape[2], classes, per_class, size)
        scratch = np.empty(8 * count + (16 * classes + 20) * per_class, "u1")
        descriptor = _CombinedNms(*sizes, overlap, score, clip)
        self._call("combined_nms", descriptor, *map(_address, (boxes, scores, *outputs, scratch)))
        return tuple(outputs)


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _dtype(array: np.ndarray) -> int:
    return DTYPES.index(array.dtype.str[1:])


def _strides(array: np.ndarray) -> tuple[int, ...]:
    return tuple(s // array.itemsize for s in array.strides)
