"""Inputs that PyTorch looks up in tables: it raises outside of the rows that are read off the program, and only there.

Prints how many models agree, and each that does not. It runs in the environment that coldforge makes for PyTorch.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from builder.importers.frameworks.torch_model import open_torch

TABLE = torch.arange(30.0).reshape(10, 3)
LOOKED_UP: dict[str, Callable[[Tensor], Tensor]] = {
    "embedding": lambda i: torch.embedding(TABLE, i),
    "narrow indices": lambda i: torch.embedding(TABLE, i.to(torch.int32)),
    "moved": lambda i: torch.embedding(TABLE, i.reshape(2, 2).unsqueeze(0).transpose(1, 2).expand(3, 2, 2)),
    "index_select": lambda i: torch.index_select(TABLE, 0, i),
    "the last axis": lambda i: torch.index_select(TABLE.T.contiguous(), -1, i),
    "two tables": lambda i: torch.embedding(TABLE, i)[:, :1] + torch.embedding(TABLE[:7], i)[:, 1:],
}


def with_a_replaced(i: Tensor) -> Tensor:
    copy = i.clone()
    copy[1:2] = 0  # written through a view: the table's rows are looked up by the copy itself
    return torch.embedding(TABLE, copy)


OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "a sum": lambda i: torch.embedding(TABLE, i + 1),
    "a part": lambda i: torch.embedding(TABLE, i[:2]),
    "negative ones": lambda i: TABLE[i],
    "no index": lambda i: i * 2,
    "whether it is 0": lambda i: torch.embedding(TABLE, i.to(torch.bool).to(torch.int64)),
    "a narrow type": lambda i: torch.embedding(TABLE, i.to(torch.uint8).to(torch.int64)),
    "one replaced": with_a_replaced,
    "clipped in place": lambda i: torch.embedding(TABLE, i.clone().clamp_(0, 9)),
    "joined, and clipped in place": lambda i: torch.embedding(TABLE, torch.cat([i, i]).clamp_(0, 9)),
    "truths": lambda i: torch.embedding(TABLE, i.to(torch.int64)),
    "a table without a dimension": lambda i: torch.index_select(TABLE[2, 2], 0, i[:1]),
}


class Module(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, i: Tensor) -> Any:
        return self.function(i)


def answers(module: torch.nn.Module, value: int) -> bool:
    try:
        module(torch.tensor([0, value, 1, 2]))
    except (IndexError, RuntimeError):
        return False
    return True


def fed_to(name: str) -> Tensor:
    return torch.tensor([True, False, True, False] if name == "truths" else [0, 1, 2, 3])


def agrees(module: torch.nn.Module, rows: int | None, looked_up: bool) -> bool:
    if not looked_up or rows is None:
        return looked_up == (rows is not None)
    return all(answers(module, value) == (0 <= value < rows) for value in (-1, 0, rows - 1, rows, 2**31 - 1))


def main(folder: Path) -> None:
    count = 0
    for name, function in (LOOKED_UP | OTHERS).items():
        module = Module(function)
        torch.export.save(torch.export.export(module, (fed_to(name),)), folder / "model.pt2")
        (feed,) = open_torch(folder / "model.pt2").ports.feeds
        if agrees(module, feed.rows, name in LOOKED_UP):
            count += 1
        else:
            print(f"{name}: {feed.rows}")
    print(f"{count} of {len(LOOKED_UP) + len(OTHERS)} agree")
    sys.stdout.flush()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
