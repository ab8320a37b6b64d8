"""What our function imports while it starts, and how long each module takes (``python -X importtime``)."""

from __future__ import annotations

import re
import subprocess
from dataclasses import asdict, dataclass
from typing import Any

from builder.local.emulator import Emulator

_LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| ( *)(\S+)")
_MARK = "the function begins here"


@dataclass(frozen=True)
class Import:
    """Milliseconds: ``self_ms`` without, ``cumulative_ms`` with what the module itself imports first."""

    module: str
    self_ms: float
    cumulative_ms: float


def breakdown(function: Emulator, rounds: int, top: int = 12) -> list[dict[str, Any]]:
    """The ``top`` modules by cumulative time, the least of ``rounds`` processes for each.

    What Lambda's runtime client has imported already is not the function's. Importtime itself makes them slower.
    """
    best: dict[str, Import] = {}
    for _ in range(rounds):
        for one in _once(function):
            known = best.get(one.module)
            best[one.module] = one if known is None else min(known, one, key=lambda i: i.cumulative_ms)
    ranked = sorted(best.values(), key=lambda one: -one.cumulative_ms)
    return [asdict(one) for one in ranked[:top]]


def _once(function: Emulator) -> list[Import]:
    module = function.handler.rpartition(".")[0]
    code = f"import awslambdaric.bootstrap, sys; print({_MARK!r}, file=sys.stderr, flush=True); import {module}"
    command = [str(function.python.path), "-S", "-X", "importtime", "-c", code]
    done = subprocess.run(
        command,
        cwd=function.function,
        env=function.variables("/nonexistent"),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.partition(_MARK)[2].splitlines()
    found = (_LINE.fullmatch(line) for line in lines)
    return [Import(one[4], int(one[1]) / 1000, int(one[2]) / 1000) for one in found if one]
