"""Networks of PyTorch and of JAX's Flax NNX, with seeded weights, each exported in its framework's own process."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

from builder.config import Source
from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment
from tests.conformance.case import Case
from tests.conftest import ROOT

PYTORCH, JAX = "PyTorch", "JAX"

NETWORKS = ROOT / "tests" / "support" / "frameworks"
FLAX = ROOT / ".venv-flax" / "bin" / "python"


def pytorch() -> list[Case]:
    small, large = ("loops", "lstm", "small", "unet"), ("convnext_tiny", "efficientnet_b0", "mobilenet_v3", "resnet18")
    return [Case(PYTORCH, name, partial(_torch, name)) for name in sorted((*small, *large, "resnet50", "vit_b16"))]


def jax() -> list[Case]:
    return [Case(JAX, name, partial(_flax, name)) for name in ("attention", "dense", "gru", "lstm", "pictures")]


def _torch(name: str, folder: Path, _: int) -> Source:
    python = ensure_environment(FRAMEWORKS["pytorch"], print) / "bin" / "python"
    subprocess.run([python, NETWORKS / "torch_networks.py", folder, name], check=True)
    return Source("pytorch", folder / f"{name}.pt2", trust=True)


def _flax(name: str, folder: Path, _: int) -> Source:
    subprocess.run([FLAX, NETWORKS / "flax_networks.py", folder], check=True)  # all of them, in seconds
    return Source("jax", folder / f"{name}.jax")
