"""Each fused kernel as a fraction of this core's multiply-add peak, measured in the same run.

``python -m benchmarks.kernels [--threads N] [--table v3|v4] [--only TEXT] [--json]``. A fraction above 1 is
Winograd's: FLOPs are those of the plain convolution. The peak is that of 256-bit vectors on one core; multiply it
by 2 in your mind for AVX-512 and by the number of threads.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from builder.lower.geometry import Geometry
from builder.lower.packing import candidates
from tests.support.fused import TABLES, Case, Kernels, build

# name, side, channels in, channels out, filter, stride; depthwise where channels out is 0
CONVOLUTIONS = (
    ("WideResNet", 64, 128, 128, 3, 1),
    ("WideResNet", 32, 256, 256, 3, 1),
    ("WideResNet", 16, 512, 512, 3, 1),
    ("ResNet50", 224, 3, 64, 7, 2),
    ("ResNet50", 56, 64, 64, 3, 1),
    ("ResNet50", 28, 128, 128, 3, 1),
    ("ResNet50", 14, 256, 256, 3, 1),
    ("ResNet50", 7, 512, 512, 3, 1),
    ("ResNet50", 56, 64, 256, 1, 1),
    ("ResNet50", 56, 256, 64, 1, 1),
    ("ResNet50", 14, 1024, 256, 1, 1),
    ("ResNet50", 7, 512, 2048, 1, 1),
    ("ResNet50", 7, 2048, 512, 1, 1),
    ("MobileNetV2", 224, 3, 32, 3, 2),
    ("MobileNetV2", 112, 32, 16, 1, 1),
    ("MobileNetV2", 112, 16, 96, 1, 1),
    ("MobileNetV2", 56, 144, 24, 1, 1),
    ("MobileNetV2", 14, 576, 96, 1, 1),
    ("MobileNetV2", 7, 320, 1280, 1, 1),
    ("MobileNetV2", 112, 32, 0, 3, 1),
    ("MobileNetV2", 112, 96, 0, 3, 2),
    ("MobileNetV2", 56, 144, 0, 3, 1),
    ("MobileNetV2", 14, 576, 0, 3, 1),
    ("MobileNetV2", 7, 960, 0, 3, 1),
    ("EfficientNetB0", 14, 672, 0, 5, 1),
    ("EfficientNetB0", 14, 672, 0, 5, 2),
)
THIN = (
    ("audio", (172, 264), 8, 8, (5, 39), 1),
    ("audio", (172, 264), 8, 1, (5, 5), 1),
    ("audio", (172, 88), 32, 1, (7, 3), 1),
    ("audio", (172, 88), 33, 1, (3, 3), 1),
    ("audio", (1, 16000), 32, 1, (1, 7), 1),
    ("emotion", (64, 64), 1, 8, (3, 3), 1),
    ("emotion", (62, 62), 8, 8, (3, 3), 1),
    ("small", (7, 7), 64, 4, (3, 3), 1),
    ("small", (10, 10), 64, 6, (1, 1), 1),
    ("mask", (128, 128), 16, 2, (3, 3), 1),
    ("mask", (128, 128), 64, 1, (1, 1), 1),
    ("mask", (128, 128), 64, 4, (1, 1), 1),
    ("mask", (128, 128), 64, 8, (1, 1), 1),
    ("picture", (128, 128), 32, 3, (3, 3), 1),
    ("picture", (128, 128), 32, 4, (3, 3), 1),
    ("picture", (128, 128), 32, 5, (3, 3), 1),
    ("picture", (128, 128), 32, 6, (3, 3), 1),
    ("picture", (128, 128), 32, 7, (3, 3), 1),
    ("first", (224, 224), 3, 8, (3, 3), 2),
    ("first", (224, 224), 1, 4, (3, 3), 2),
)
"""Few output channels: name, rows and columns, channels in, channels out, filter, stride."""
DENSE = ((1, 512, 512), (1, 2048, 1000), (128, 512, 512))
"""Rows, inputs, outputs."""


def cases() -> Iterator[tuple[str, Case]]:
    for model, side, channels, outer, kernel, stride in CONVOLUTIONS:
        pad, groups = kernel // 2, 1 if outer else channels
        out = (side + 2 * pad - kernel) // stride + 1
        geometry = Geometry(
            1, channels, (out, out), outer or channels, (kernel, kernel), (stride, stride), groups=groups
        )
        for algorithm in candidates(geometry):
            name = f"{model} {kernel}x{kernel}/{stride} {side}x{side}x{channels}-{geometry.out_channels} {algorithm}"
            yield name, _case(geometry, algorithm, pad, (side, side))
    for model, size, channels, outer, kernel_size, stride in THIN:
        pads = [k // 2 for k in kernel_size]
        rows, columns = ((n + 2 * p - k) // stride + 1 for n, p, k in zip(size, pads, kernel_size, strict=True))
        geometry = Geometry(1, channels, (rows, columns), outer, kernel_size, (stride, stride))
        for algorithm in candidates(geometry):
            around = (pads[0], pads[1], pads[0], pads[1])
            yield f"{model} {geometry.label} {algorithm}", Case(geometry, algorithm, around, size, activation="swish")
    for rows, inner, outer in DENSE:
        geometry = Geometry(1, inner, (1, rows), outer)
        yield f"dense {rows}x{inner}-{outer}", _case(geometry, "direct", 0, (1, rows))


def _case(geometry: Geometry, algorithm: str, pad: int, size: tuple[int, int]) -> Case:
    # As the lowering lays pictures out: a little apart where pixels would share cache sets.
    gaps = [16 if c % 512 == 0 and size[0] > 1 else 0 for c in (geometry.in_channels, geometry.out_channels)]
    padding = (pad, pad, pad, pad)
    return Case(geometry, algorithm, padding, size, *gaps, activation="clamp", low=0.0, high=6.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", choices=TABLES, default="v3")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each kernel")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        kernels = Kernels(build(Path(folder)))
        peak = kernels.library.cf_test_peak()
        for name, case in cases():
            if options.only not in name:
                continue
            seconds = kernels.time(case, options.table, options.threads, options.seconds)
            speed = case.geometry.flop / seconds
            rows.append({"kernel": name, "us": seconds * 1e6, "gflops": speed / 1e9, "of_peak": speed / peak})
            if not options.json:
                print(f"{name:52} {seconds * 1e6:9.1f} us {speed / 1e9:7.1f} GFLOP/s {speed / peak:6.2f}", flush=True)
        kernels.close()
    if options.json:
        json.dump({"peak_gflops": peak / 1e9, "threads": options.threads, "kernels": rows}, sys.stdout, indent=1)
    else:
        print(f"peak {peak / 1e9:.1f} GFLOP/s a core (256-bit), {options.threads} threads, {options.table}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
