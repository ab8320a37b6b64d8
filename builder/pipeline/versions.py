"""Versions of a build's tools, which a manifest names."""

from __future__ import annotations

import platform

from builder import __version__
from builder.compiler.link.toolchain import zig_version
from builder.compiler.xla.compilation_result import read_tensorflow_version


def versions() -> dict[str, str]:
    """Return the installed versions of coldforge, Python, TensorFlow and zig."""
    return {
        "coldforge": __version__,
        "python": platform.python_version(),
        "tensorflow": read_tensorflow_version(),
        "zig": zig_version(),
    }
