"""Fuzz one target with atheris in this process: ``python -m tests.fuzz.one TARGET [libFuzzer's options]``."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import atheris

# Coverage is of Python: the handler's, Pillow's and the importers'. libjpeg, TensorFlow and the library are not
# instrumented.
INSTRUMENTED = ["handler", "PIL", "builder.importers", "tests.fuzz.recipes"]

with atheris.instrument_imports(include=INSTRUMENTED):
    from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401

    import handler
    from tests.fuzz.oracle import OverspentError
    from tests.fuzz.targets import BUILD, TARGETS, servers
    from tests.fuzz.worst import Worst

    # Those too that the function imports only when they are needed: later they would not be instrumented.
    for module in pkgutil.walk_packages(handler.__path__, "handler."):
        if module.name not in ("handler.app", "handler.otel", "handler._abi_build"):  # which need what is not here
            importlib.import_module(module.name)


def fuzz_target(name: str, options: Sequence[str]) -> NoReturn:
    """Fuzz the target with libFuzzer's ``options``, and end the process with libFuzzer's exit status."""
    if name == "model":  # which imports TensorFlow
        with atheris.instrument_imports(include=INSTRUMENTED):
            importlib.import_module("tests.fuzz.model_file")
    target, worst = TARGETS[name], Worst(BUILD / name)
    servers()
    with suppress(AssertionError):
        target(b"")  # what is built or imported for the first input is not the first input's
    gc.freeze()  # or the oracle's collection before each input would take longer than the input

    def look(data: bytes) -> None:
        try:
            worst.note(target(data), data)
        except OverspentError as error:
            worst.note(error.spent, data)
            raise

    atheris.Setup([sys.argv[0], *options], look)
    atheris.Fuzz()
    raise AssertionError("libFuzzer returned")


if __name__ == "__main__":
    fuzz_target(sys.argv[1], sys.argv[2:])
