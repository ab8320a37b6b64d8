"""Fuzz one target with atheris, in a process of its own: ``python -m tests.fuzz.one TARGET [libFuzzer's options]``."""

from __future__ import annotations

import sys

import atheris

# Coverage is of the handler's code and of Pillow's Python; libjpeg and its like are not instrumented.
with atheris.instrument_imports(include=["handler", "PIL"]):
    from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401

    from tests.fuzz.targets import TARGETS, servers


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    servers()
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
