"""Programs of layers, pools and repackings run in NumPy, in float64, straight from their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from builder.compiler.lower.activations import FUNCTIONS
from builder.compiler.lower.geometry import PANEL, THIN_CHANNELS
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer, View
from builder.compiler.lower.steps.image_step import NormStep, PoolStep, RepackStep
from builder.compiler.lower.steps.layer_step import LayerStep

Floats = NDArray[np.float32]


class Interpreter:
    def __init__(self, program: Program) -> None:
        self.program = program
        # What no step has written is not a number: a read before a write, or of a halo nobody cleared, shows.
        self.arena = np.full(program.arena_size // 4, np.nan, np.float32)
        weights = bytearray(program.weights_size)
        for weight in program.weights:
            weights[weight.offset : weight.offset + len(weight.data)] = weight.data
        self.weights = np.frombuffer(bytes(weights), np.float32)
        self.feeds: list[Floats] = []

    def run(self, feeds: Sequence[Any]) -> list[Floats]:
        self.feeds = [np.asarray(feed, np.float32).ravel() for feed in feeds]
        for port, feed in zip(self.program.feeds, self.feeds, strict=True):
            if port.buffer.space == "arena":
                self.flat(port.buffer)[:] = feed
        for step in self.program.steps:
            match step:
                case LayerStep():
                    self.layer(step)
                case PoolStep():
                    self.pool(step)
                case NormStep():
                    self.norm(step)
                case RepackStep():
                    source = self.view(step.input, step.batch, step.size, step.channels).copy()
                    self.store(step.output, source, step.halo)
                case _:
                    raise NotImplementedError(type(step).__name__)
        return [self.flat(port.buffer).reshape(port.spec.shape).copy() for port in self.program.fetches]

    def flat(self, buffer: Buffer) -> Floats:
        if buffer.space == "feed":
            return self.feeds[buffer.offset]
        space = self.arena if buffer.space == "arena" else self.weights
        return space[buffer.offset // 4 : (buffer.offset + buffer.size) // 4]

    def view(
        self, view: View, batch: int, size: tuple[int, int], channels: int, start: tuple[int, int] = (0, 0)
    ) -> Floats:
        """The picture, or one that begins ``start`` rows and pixels before it."""
        first = view.first - start[0] * view.row - start[1] * view.pixel
        flat = self.flat(view.buffer)
        last = first + (batch - 1) * view.image + (size[0] - 1) * view.row + (size[1] - 1) * view.pixel + channels
        assert first >= 0
        assert last <= flat.size
        steps = [4 * s for s in (view.image, view.row, view.pixel, 1)]
        return as_strided(flat[first:], (batch, *size, channels), steps)

    def store(self, view: View, values: Any, halo: tuple[int, int, int, int]) -> None:
        batch, height, width, channels = values.shape
        top, left, bottom, right = halo
        whole = self.view(view, batch, (height + top + bottom, width + left + right), channels, (top, left))
        whole[...] = 0
        whole[:, top : top + height, left : left + width] = values

    def layer(self, step: LayerStep) -> None:
        shape = step.geometry
        size = tuple(
            (shape.out_size[a] - 1) * shape.stride[a] + (shape.kernel_size[a] - 1) * shape.dilation[a] + 1
            for a in (0, 1)
        )
        source = self.view(step.input, shape.batch, (size[0], size[1]), shape.in_channels, step.padding)
        source = source.astype(np.float64)
        if step.factor is not None:
            source = source * self.flat(step.factor)[: shape.in_channels]
        kernel = self.kernel(step).astype(np.float64)
        out = np.zeros((shape.batch, *shape.out_size, shape.out_channels))
        inner, outer = shape.in_channels // shape.groups, shape.out_channels // shape.groups
        for y in range(shape.kernel_size[0]):
            for x in range(shape.kernel_size[1]):
                rows = source[:, y * shape.dilation[0] :][:, :: shape.stride[0]][:, : shape.out_size[0]]
                part = rows[:, :, x * shape.dilation[1] :][:, :, :: shape.stride[1]][:, :, : shape.out_size[1]]
                for g in range(shape.groups):
                    block = part[..., g * inner : (g + 1) * inner] @ kernel[y, x, :, g * outer : (g + 1) * outer]
                    out[..., g * outer : (g + 1) * outer] += block
        epilogue, channels = step.epilogue, shape.out_channels
        out += self.flat(epilogue.bias)[:channels]
        if epilogue.residual is not None:
            has = epilogue.residual_channels or channels
            other = self.view(epilogue.residual, shape.batch, shape.out_size, has).astype(np.float64)
            other = np.pad(other, [(0, 0)] * 3 + [(0, channels - has)])
            scale = epilogue.residual_scale
            out += other if scale is None else other * self.flat(scale)[:channels]
        if epilogue.activation == "clamp":
            out = np.clip(out, epilogue.low, epilogue.high)
        elif epilogue.slopes is not None:
            out = np.where(out > 0, out, out * self.flat(epilogue.slopes)[:channels])
        else:
            out = FUNCTIONS[epilogue.activation](out)
        if epilogue.second_scale is not None:
            assert epilogue.second_shift is not None
            scaled = out * self.flat(epilogue.second_scale)[:channels] + self.flat(epilogue.second_shift)[:channels]
            scaled = np.clip(scaled, epilogue.second_low, epilogue.second_high)
            if epilogue.second is not None:
                self.store(epilogue.second, scaled, step.second_halo)
            out = scaled if epilogue.finishes else out
        self.store(step.output, out, step.halo)

    def kernel(self, step: LayerStep) -> Floats:
        """The weights unpacked to [height, width, in channels / groups, out channels]."""
        shape = step.geometry
        height, width = shape.kernel_size
        flat, inner = self.flat(step.weights), shape.in_channels // shape.groups
        if step.algorithm == "depthwise":
            return flat.reshape(height, width, 1, -1)[..., : shape.out_channels]
        if step.algorithm.startswith("winograd"):
            panels = flat.reshape(-1, inner, 9, PANEL).transpose(2, 1, 0, 3)
            return panels.reshape(3, 3, inner, -1)[..., : shape.out_channels]
        if step.algorithm == "thin":
            outer, found, at = shape.out_channels // shape.groups, [], 0
            tiles = -(-outer // THIN_CHANNELS)
            for tile in [*range(tiles)] * shape.groups:
                some = (tile + 1) * outer // tiles - tile * outer // tiles
                size = height * width * inner * some
                found.append(flat[at : at + size].reshape(height, width, inner, some))
                at += size
            return np.concatenate(found, axis=-1)
        panels = flat.reshape(shape.groups, -1, height * width * inner, PANEL)
        columns = panels.transpose(2, 0, 1, 3).reshape(height, width, inner, shape.groups, -1)
        return columns[..., : shape.out_channels // shape.groups].reshape(height, width, inner, shape.out_channels)

    def pool(self, step: PoolStep) -> None:
        source = self.view(step.input, step.batch, step.in_size, step.channels).astype(np.float64)
        out = np.zeros((step.batch, *step.out_size, step.channels))
        for y in range(step.out_size[0]):
            for x in range(step.out_size[1]):
                top, left = y * step.stride[0] - step.padding[0], x * step.stride[1] - step.padding[1]
                window = source[:, max(0, top) : top + step.window[0], max(0, left) : left + step.window[1]]
                out[:, y, x] = window.max((1, 2)) if step.kind == "max" else window.sum((1, 2)) * step.scale
        self.store(step.output, out, step.halo)

    def norm(self, step: NormStep) -> None:
        x = self.view(step.input, step.batch, step.size, step.channels).astype(np.float64)
        if step.kind == "softmax":
            powers = np.exp(x - x.max(-1, keepdims=True))
            self.store(step.output, powers / powers.sum(-1, keepdims=True), step.halo)
            return
        d = x - x.mean(-1, keepdims=True) if step.kind == "layer norm" else x
        assert step.gamma is not None
        assert step.beta is not None
        gamma, beta = (self.flat(b)[: step.channels].astype(np.float64) for b in (step.gamma, step.beta))
        out = d / np.sqrt((d * d).mean(-1, keepdims=True) + step.epsilon) * gamma + beta
        self.store(step.output, out, step.halo)
