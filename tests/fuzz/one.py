"""Fuzz one target with atheris, in a process of its own: ``python -m tests.fuzz.one TARGET [libFuzzer's options]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from contextlib import suppress

import atheris

# Coverage is of Python: the handler's, Pillow's and the importers'. libjpeg, TensorFlow and the library are not
# instrumented.
with atheris.instrument_imports(include=["handler", "PIL", "builder.importers", "tests.fuzz.recipes"]):
    from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401

    import handler
    from tests.fuzz.oracle import OverspentError
    from tests.fuzz.targets import BUILD, TARGETS, servers
    from tests.fuzz.worst import Worst

    # Those too that the function imports only when they are needed: later they would not be instrumented.
    if sys.argv[1] == "model":
        importlib.import_module("tests.fuzz.model_file")
    for module in pkgutil.walk_packages(handler.__path__, "handler."):
        if module.name not in ("handler.app", "handler.otel", "handler._abi_build"):  # which need what is not here
            importlib.import_module(module.name)


def main() -> None:
    name = sys.argv.pop(1)
    target, worst = TARGETS[name], Worst(BUILD / name)
    servers()
    with suppress(AssertionError):
        target(b"")  # what is built or imported for the first input is not the first input's

    def look(data: bytes) -> None:
        try:
            worst.note(target(data), data)
        except OverspentError as error:
            worst.note(error.spent, data)
            raise

    atheris.Setup(sys.argv, look)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
