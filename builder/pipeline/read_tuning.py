"""The file tuning.json: the fastest algorithm for each layer, measured by ``coldforge tune`` on some machine.

It is next to model.toml and can be committed: a build reads nothing else of a measurement, so the same file gives
the same library anywhere. The static rule of ``builder.compiler.lower.packing`` decides everything else.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import SpecError
from builder.base.project import RUNTIME
from builder.base.records import parse_json, read_part
from builder.compiler.lower.geometry import Algorithm
from builder.config import ModelSpec

SCHEMA = 1

AlgorithmTimes = Mapping[str, Mapping[str, float]]
"""Microseconds by instruction set and algorithm."""


@dataclass(frozen=True)
class AlgorithmChoice:
    """The algorithm for one geometry, and each candidate's time for all layers of that geometry together."""

    algorithm: Algorithm
    microseconds: AlgorithmTimes


@dataclass(frozen=True)
class Tuning:
    """Measured algorithms. ``kernels``: digest of the kernels, on a ``target``; ``layers``: by ``Geometry.label``."""

    kernels: str
    target: str
    cpu: str = ""
    layers: Mapping[str, AlgorithmChoice] = field(default_factory=dict)

    def choose_algorithms(self, target: str) -> dict[str, Algorithm]:
        """Return the algorithms for lowering: none if another processor or other kernels than today's were measured."""
        fits = self.current and self.target == target
        return {label: c.algorithm for label, c in self.layers.items()} if fits else {}

    @property
    def current(self) -> bool:
        """True if today's kernels were measured."""
        return self.kernels == kernels_digest()

    def explain_stale(self, geometries: Collection[str]) -> str:
        """Explain in one line which part a model with these geometries can't use; empty if it can use all."""
        if not self.current:
            return "was measured with other kernels than today's; the static rule decides"
        first, *others = sorted(set(self.layers) - set(geometries)) or [""]
        more = f" and {len(others)} more" if others else ""
        return f"tells of layers that the model does not have ({first}{more}); they are ignored" if first else ""

    def to_json(self) -> str:
        """Return the JSON with one line for each layer."""
        lines = [f"  {json.dumps(label)}: {json.dumps(asdict(c))}" for label, c in sorted(self.layers.items())]
        head = json.dumps({"schema": SCHEMA, "kernels": self.kernels, "target": self.target, "cpu": self.cpu}, indent=1)
        return head.removesuffix("\n}") + ',\n "layers": {\n' + ",\n".join(lines) + "\n }\n}\n"


def load_tuning(spec: ModelSpec) -> Tuning:
    """Load the tuning next to model.toml; without one, an empty one. Raises as ``read_tuning`` does."""
    return read_tuning(spec.tuning_path) or Tuning(kernels_digest(), "")


def explain_stale_tuning(spec: ModelSpec, geometries: Collection[str]) -> str:
    """Explain in one line which part of the tuning a model with these geometries can't use; empty if it can use all."""
    stale = load_tuning(spec).explain_stale(geometries)
    return f"{spec.tuning_path.name} {stale}" if stale else ""


def read_tuning(path: Path) -> Tuning | None:
    """Read the tuning at ``path``, None if there is no file. Raises SpecError for a file that is not a valid tuning."""
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        return read_part(Tuning, data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(
            f"{path} is not a tuning file of this version of coldforge ({type(error).__name__}: {error}); delete it, "
            "or write it again with `coldforge tune`."
        ) from error


@functools.cache
def kernels_digest() -> str:
    """Return a digest of the fused kernels' sources, which decide the speed of a layer."""
    return compute_digest(RUNTIME / "fused", RUNTIME / "platform" / "threads.c")[:16]
