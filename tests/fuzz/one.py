"""Fuzz one target with atheris, in a process of its own: ``python -m tests.fuzz.one TARGET [libFuzzer's options]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import atheris

# Coverage is of the handler's code and of Pillow's Python; libjpeg and its like are not instrumented.
with atheris.instrument_imports(include=["handler", "PIL"]):
    from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401

    import handler
    from tests.fuzz.targets import TARGETS, servers

    # Those too that the function imports only when they are needed: later they would not be instrumented.
    for module in pkgutil.walk_packages(handler.__path__, "handler."):
        if module.name not in ("handler.app", "handler._abi_build"):
            importlib.import_module(module.name)


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    servers()
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
