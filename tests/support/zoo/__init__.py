"""A zoo of small graphs: what TensorFlow users build, and what breaks compilers.

``CASES`` are to be frozen, compiled, linked, run and compared with TensorFlow; ``REFUSED`` must be turned
away by name. ``Case.trace()`` gives the concrete function, ``Case.sample()`` values for its feeds.
``TOGETHER`` is many of ``CASES`` in one graph, which ``TURN`` builds.
"""

from __future__ import annotations

import os

from builder.base.tf import ENVIRONMENT

os.environ.update(ENVIRONMENT)  # before TensorFlow is loaded: it is to answer here as it does in a build

from . import control, detection, dynamic, layers, maths, networks, refusals, rewritten, signals, special
from .case import CASES, REFUSED, Case
from .together import TOGETHER, TURN

__all__ = [
    "CASES",
    "REFUSED",
    "TOGETHER",
    "TURN",
    "Case",
    "control",
    "detection",
    "dynamic",
    "layers",
    "maths",
    "networks",
    "refusals",
    "rewritten",
    "signals",
    "special",
]
