"""PyTorch's operators that torchax lacks or answers in another type, each as a program of JAX and by PyTorch itself.

    python torch_operator_cases.py

prints a line for each case that differs, and how many were run. It runs in the environment that coldforge makes for
PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import _pytree as pytree

from builder.importers.frameworks.torch_program import convert_to_jax

torch.manual_seed(0)
WHOLE = torch.tensor([[-7, 5, 0, 9], [3, -1, 2, 100]], dtype=torch.int32)
IDS = torch.tensor([[0, 3, 2], [1, 4, 4]])
ROWS, EDGES = torch.randn(4, 9), torch.tensor([-1.0, 0.0, 0.0, 1.0])
PICTURES, VOLUME = torch.randn(2, 3, 11, 13), torch.randn(2, 5, 7, 6)
SQUARE = torch.randn(2, 5, 5) + 3 * torch.eye(5)
VALUES = torch.tensor([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, torch.nan, torch.inf])

Case = tuple[str, Callable[..., Any], Sequence[Tensor]]


def cases() -> Iterator[Case]:
    yield from types()
    yield from pictures()
    yield "one_hot", lambda ids: functional.one_hot(ids, 5), (IDS,)
    yield "searchsorted", lambda x: torch.searchsorted(EDGES, x), (VALUES,)
    yield "searchsorted right", lambda x: torch.searchsorted(EDGES, x, right=True), (VALUES,)
    yield "searchsorted int32", lambda x: torch.searchsorted(EDGES, x, side="right", out_int32=True), (ROWS,)
    yield "searchsorted rows", lambda x: torch.searchsorted(x.sort(-1)[0], x), (ROWS,)
    yield "searchsorted unsorted", lambda x: torch.searchsorted(x, x, sorter=x.argsort()), (ROWS,)
    yield "searchsorted scalar", lambda x: x + torch.searchsorted(EDGES, 0.5), (ROWS,)
    yield "bucketize", lambda x: (torch.bucketize(x, EDGES), torch.bucketize(x, EDGES, right=True)), (VALUES,)
    yield "inv", lambda x: (torch.linalg.inv(x), x.inverse()), (SQUARE,)
    yield "solve", lambda x: torch.linalg.solve(x, x[..., :2] + 1), (SQUARE,)
    yield "solve vector", lambda x: (torch.linalg.solve(x, x[..., 0]), torch.linalg.solve(x, x[0, 0])), (SQUARE,)
    yield "solve right", lambda x: torch.linalg.solve(x, x + 1, left=False), (SQUARE,)
    yield "cholesky", lambda x: torch.linalg.cholesky(x @ x.mT), (SQUARE,)
    yield "det", lambda x: (torch.linalg.det(x), x[:, :2, :2].det(), torch.linalg.slogdet(x)), (SQUARE,)
    yield "fft", lambda x: torch.fft.rfft(x).abs(), (ROWS,)


def types() -> Iterator[Case]:
    """Where JAX's rules of promotion are not PyTorch's."""
    for name, divisor in (("a number", 3), ("a negative one", -3), ("a tensor", torch.tensor([3], dtype=torch.int32))):
        for mode in (None, "trunc", "floor"):
            yield f"{mode} by {name}", lambda n, d=divisor, m=mode: torch.div(n, d, rounding_mode=m), (WHOLE,)
        yield f"// by {name}", lambda n, d=divisor: n // d, (WHOLE,)
        yield f"% by {name}", lambda n, d=divisor: (n % d, torch.fmod(n, d)), (WHOLE,)
    yield "cumsum", lambda n: n.cumsum(-1), (WHOLE,)
    yield "places", lambda x: (x.topk(2), x.kthvalue(2), x.argsort(-1, descending=True), x.max(-1)), (ROWS,)


def pictures() -> Iterator[Case]:
    yield "convolution valid", lambda x: functional.conv2d(x, x[:, :, :4, :4], padding="valid"), (PICTURES,)
    for sizes in ((1, 1), (4, 5), (11, 2), (1, 13), (12, 14)):
        yield (
            f"adaptive_max_pool2d {sizes}",
            lambda x, s=sizes: functional.adaptive_max_pool2d(x, s, return_indices=True),
            (PICTURES,),
        )
    yield "adaptive_max_pool1d", lambda x: functional.adaptive_max_pool1d(x, 3), (ROWS,)
    yield "adaptive_max_pool3d", lambda x: functional.adaptive_max_pool3d(x, (2, 3, 4), return_indices=True), (VOLUME,)
    for mode in ("bilinear", "bicubic"):
        for options in (
            {"size": (5, 7)},
            {"size": (15, 7)},
            {"size": (5, 20), "align_corners": True},
            {"scale_factor": 0.6},
            {"scale_factor": 0.6, "recompute_scale_factor": True},
        ):
            yield (
                f"{mode} {options}",
                lambda x, m=mode, o=options: functional.interpolate(x, mode=m, antialias=True, **o),
                (PICTURES,),
            )


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def difference(function: Callable[..., Any], feeds: Sequence[Tensor]) -> str | None:
    """How the program's answers differ from PyTorch's, in type, shape or value."""
    module = Module(function)
    wanted = [value.numpy() for value in pytree.tree_leaves(module(*feeds))]
    found = jax.jit(convert_to_jax(torch.export.export(module, tuple(feeds))))(*[feed.numpy() for feed in feeds])
    for ours, theirs in zip(map(np.asarray, found), wanted, strict=True):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}"
        if not np.allclose(ours, theirs, rtol=1e-5, atol=1e-5 if theirs.dtype.kind == "f" else 0, equal_nan=True):
            return f"{ours} for {theirs}"
    return None


def main() -> None:
    count = 0
    for name, function, feeds in cases():
        count += 1
        if wrong := difference(function, feeds):
            print(f"{name}: {wrong}")
    print(f"{count} runs")


if __name__ == "__main__":
    main()
