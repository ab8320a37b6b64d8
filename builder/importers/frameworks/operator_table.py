"""The table that says what an operator of ONNX or LiteRT computes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_CONTEXT = frozenset({"opset", "outputs", "run"})


@dataclass(frozen=True)
class Operator:
    """A function of the inputs, in order, and of the operator's attributes.

    ``context``: what it takes as keywords of the operator's place in a model. In ONNX these are ``opset`` (the version
    of the operator's domain that the model names) and ``outputs`` (the number of outputs of the node); in LiteRT
    ``outputs`` (the tensors of the outputs) and ``run`` (which runs a subgraph by its number).
    """

    compute: Callable[..., Any]
    context: frozenset[str]


class OperatorTable(dict[tuple[str, str], Operator]):
    """Operators by their domain ("" for a format's own) and name."""

    def define(self, *names: str, domain: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that enters a function as the operators ``names``."""

        def enter(function: Callable[..., Any]) -> Callable[..., Any]:
            for name in names:
                self.enter(name, function, domain)
            return function

        return enter

    def enter(self, name: str, function: Callable[..., Any], domain: str = "") -> None:
        """Enter ``function`` as the operator ``name``."""
        self[domain, name] = Operator(function, _CONTEXT & inspect.signature(function).parameters.keys())

    def enter_all(self, functions: Mapping[str, Callable[..., Any]], domain: str = "") -> None:
        """Enter each function as the operator of its name."""
        for name, function in functions.items():
            self.enter(name, function, domain)
