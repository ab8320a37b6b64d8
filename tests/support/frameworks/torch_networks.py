"""Networks as people write them in PyTorch, with seeded weights, each exported by torch.export.

    python torch_networks.py FOLDER [NAME ...]

writes ``FOLDER/<name>.pt2`` for each, and ``<name>.npz`` with inputs and what PyTorch answers to them. It runs in the
environment that coldforge makes for PyTorch. The architectures are those of the papers; torchvision is not used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


def conv(
    into: int, out: int, size: int, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU
) -> Any:
    """Convolution, batch norm and activation."""
    layers = [nn.Conv2d(into, out, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    """The blocks of ResNet: two convolutions of 3, or 1, 3 and 1 with a bottleneck."""

    def __init__(self, into: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        out = width * 4 if bottleneck else width
        steps = [conv(into, width, 1), conv(width, width, 3, stride), conv(width, out, 1, act=None)]
        self.steps = nn.Sequential(
            *(steps if bottleneck else [conv(into, width, 3, stride), conv(width, out, 3, act=None)])
        )
        self.short = conv(into, out, 1, stride, act=None) if stride != 1 or into != out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.steps(x) + self.short(x))


def resnet(counts: Sequence[int], *, bottleneck: bool) -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    into = 64
    for stage, count in enumerate(counts):
        for number in range(count):
            layers.append(Residual(into, 64 << stage, 2 if stage and not number else 1, bottleneck=bottleneck))
            into = (64 << stage) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, 1000), nn.Softmax(-1))


class Squeeze(nn.Module):
    def __init__(self, channels: int, inner: int, act: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), act, nn.Conv2d(inner, channels, 1), gate
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class Inverted(nn.Module):
    """The blocks of MobileNetV3 and EfficientNet: wide, depthwise, squeeze-and-excite, narrow."""

    def __init__(
        self, into: int, wide: int, out: int, size: int, stride: int, act: type[nn.Module], squeeze: nn.Module | None
    ) -> None:
        super().__init__()
        steps = [conv(into, wide, 1, act=act)] if wide != into else []
        steps += [
            conv(wide, wide, size, stride, wide, act),
            *([squeeze] if squeeze else []),
            conv(wide, out, 1, act=None),
        ]
        self.steps, self.adds = nn.Sequential(*steps), stride == 1 and into == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.steps(x) if self.adds else self.steps(x)


MOBILENET = (  # kernel, wide, out, squeezes, h-swish, stride: table 1 of arXiv:1905.02244
    (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
    (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
    (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1),
    (5, 960, 160, 1, 1, 1),
)  # fmt: skip


def mobilenet_v3() -> nn.Module:
    layers, into = [conv(3, 16, 3, 2, act=nn.Hardswish)], 16
    for size, wide, out, squeezes, swish, stride in MOBILENET:
        squeeze = Squeeze(wide, (wide // 4 + 7) // 8 * 8, nn.ReLU(), nn.Hardsigmoid()) if squeezes else None
        layers.append(Inverted(into, wide, out, size, stride, nn.Hardswish if swish else nn.ReLU, squeeze))
        into = out
    layers += [conv(into, 960, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000), nn.Softmax(-1))


EFFICIENTNET = (  # expansion, out, count, stride, kernel: table 1 of arXiv:1905.11946
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip


def efficientnet_b0() -> nn.Module:
    layers, into = [conv(3, 32, 3, 2, act=nn.SiLU)], 32
    for expansion, out, count, stride, size in EFFICIENTNET:
        for number in range(count):
            wide = into * expansion
            squeeze = Squeeze(wide, into // 4, nn.SiLU(), nn.Sigmoid())
            layers.append(Inverted(into, wide, out, size, 1 if number else stride, nn.SiLU, squeeze))
            into = out
    layers += [conv(into, 1280, 1, act=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000), nn.Softmax(-1))


class Channels(nn.LayerNorm):
    """A norm over the channels of [n, c, h, w]."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Next(nn.Module):
    """The block of ConvNeXt."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(width, 1e-6),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.narrow(functional.gelu(self.wide(y)))).permute(0, 3, 1, 2)


def convnext_tiny() -> nn.Module:
    widths = (96, 192, 384, 768)
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), Channels(96, 1e-6)]
    for stage, (width, count) in enumerate(zip(widths, (3, 3, 9, 3), strict=True)):
        if stage:
            layers += [Channels(widths[stage - 1], 1e-6), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        layers += [Next(width) for _ in range(count)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768, 1e-6), nn.Linear(768, 1000), nn.Softmax(-1)]
    return nn.Sequential(*layers)


class Patches(nn.Module):
    """ViT: patches, a class token, an encoder."""

    def __init__(self, side: int, patch: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        # nn.TransformerEncoder would copy one layer, weights included.
        layers = [
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True)
            for _ in range(depth)
        ]
        self.encoder = nn.Sequential(*layers, nn.LayerNorm(width, 1e-6))
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return torch.softmax(self.head(self.encoder(x)[:, 0]), -1)


class UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        sizes = [width << level for level in range(depth + 1)]
        two = lambda into, out: nn.Sequential(conv(into, out, 3), conv(out, out, 3))  # noqa: E731
        self.down = nn.ModuleList(two(into, out) for into, out in zip([3, *sizes], sizes[:-1], strict=False))
        self.deepest = two(sizes[-2], sizes[-1])
        pairs = list(zip(sizes[1:], sizes[:-1], strict=True))[::-1]
        self.raise_ = nn.ModuleList(nn.ConvTranspose2d(into, out, 2, 2) for into, out in pairs)
        self.up = nn.ModuleList(two(into, out) for into, out in pairs)
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        kept = []
        for step in self.down:
            x = step(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.deepest(x)
        for wider, step in zip(self.raise_, self.up, strict=True):
            x = step(torch.cat([kept.pop(), wider(x)], 1))
        return {"mask": torch.sigmoid(self.last(x))}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(200, 64)
        self.layers = nn.LSTM(64, 128, 2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(256, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.last(self.layers(self.table(tokens))[0][:, -1])


class Loops(nn.Module):
    """Every recurrent layer that PyTorch has, and what they can be told."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, 2, proj_size=5, bidirectional=True, dropout=0.5)
        self.gru = nn.GRU(10, 7, 2, bidirectional=True)
        self.tanh, self.relu = nn.RNN(14, 6, bias=False), nn.RNN(6, 4, nonlinearity="relu", batch_first=True)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y, (hidden, cells) = self.lstm(x.transpose(0, 1))
        y, last = self.gru(y)
        return {"hidden": hidden, "cells": cells, "last": last, "y": self.relu(self.tanh(y)[0])[0]}


class Small(nn.Module):
    """What a test of minutes has no time to find in a large network: two inputs, an open batch, a flattened picture."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            conv(3, 16, 3, act=nn.Hardswish), nn.MaxPool2d(2), Residual(16, 32, 2, bottleneck=False)
        )
        self.second = nn.Linear(32 * 4 * 4 + 6, 4)

    def forward(self, picture: Tensor, numbers: Tensor) -> dict[str, Tensor]:
        x = self.first(picture)
        return {"scores": self.second(torch.cat([x.flatten(1), numbers], 1)), "features": x}


class Operators(nn.Module):
    """What torchax lacks, and what StableHLO has under names of its own."""

    def forward(self, picture: Tensor, x: Tensor) -> dict[str, Tensor]:
        whole = (3 * x).to(torch.int32)
        classes = x.argsort(-1)
        return {
            "pooled": functional.adaptive_max_pool2d(picture, (4, 5)),
            "shrunk": functional.interpolate(picture, (5, 7), mode="bilinear", antialias=True),
            "divided": whole // 3,
            "one_hot": functional.one_hot(classes, x.shape[-1]),
            "places": torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x, right=True),
            "first": x.topk(2)[1],
            "third": x.kthvalue(3)[0],
            "gelu": x * 0.5 * (1.0 + torch.erf(x / 2**0.5)),
            "hyperbolic": torch.stack([x.sinh(), x.cosh(), x.asinh(), (x * x + 1).acosh(), x.tanh().atanh()]),
            "angles": torch.stack([x.tanh().asin(), x.tanh().acos()]),
        }


PICTURE = ((1, 3, 224, 224),)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Sequence[tuple[int, ...]]]] = {
    "small": (Small, ((2, 3, 16, 16), (2, 6))),
    "lstm": (Recurrent, ((1, 40),)),
    "loops": (Loops, ((1, 9, 6),)),
    "operators": (Operators, ((1, 3, 11, 13), (1, 7))),
    "unet": (lambda: UNet(16, 3), ((1, 3, 128, 128),)),
    "resnet18": (lambda: resnet((2, 2, 2, 2), bottleneck=False), PICTURE),
    "resnet50": (lambda: resnet((3, 4, 6, 3), bottleneck=True), PICTURE),
    "mobilenet_v3": (mobilenet_v3, PICTURE),
    "efficientnet_b0": (efficientnet_b0, PICTURE),
    "convnext_tiny": (convnext_tiny, PICTURE),
    "vit_b16": (lambda: Patches(224, 16, 768, 12, 12, 1000), PICTURE),
}
OPEN = {"small": {"picture": {0: torch.export.Dim("batch")}, "numbers": {0: torch.export.Dim("batch")}}}


def vary(network: nn.Module, inputs: Sequence[Tensor]) -> nn.Module:
    """Give norms and biases values that matter, for fresh ones are 0 and 1, and batch norms the statistics of
    ``inputs``: without them a deep network answers the same to every input."""
    for name, value in network.named_parameters():
        if value.ndim == 1:
            nn.init.uniform_(value, *((0.7, 1.3) if "weight" in name else (-0.1, 0.1)))
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0  # the statistics are those of the last run
    with torch.no_grad():
        network.train()(*inputs)
    return network.eval()


def main(folder: Path, names: Sequence[str]) -> None:
    for name in names or NETWORKS:
        torch.manual_seed(0)
        make, shapes = NETWORKS[name]
        random = [torch.randint(200, one) if name == "lstm" else torch.randn(one) for one in shapes]
        network = vary(make(), random)
        torch.export.save(
            torch.export.export(network, tuple(random), dynamic_shapes=OPEN.get(name)), folder / f"{name}.pt2"
        )
        with torch.no_grad():
            found = network(*[one[:1] for one in random])
        answers = list(found.values()) if isinstance(found, dict) else [found]
        arrays = {f"feed_{i}": value[:1].numpy() for i, value in enumerate(random)}
        np.savez(folder / f"{name}.npz", **arrays, **{f"fetch_{i}": value.numpy() for i, value in enumerate(answers)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
