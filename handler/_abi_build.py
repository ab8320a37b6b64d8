"""Write ``_abi.py`` from the C ABI's header: ``python -m handler._abi_build``.

cffi's out-of-line ABI mode: the declarations are parsed here, once, and the function loads the result
without the parser (or the cffi package: ``_cffi_backend`` is enough). Not part of the Lambda package.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from pathlib import Path

HEADER = Path(__file__).parents[1] / "builder" / "runtime" / "abi" / "model.h"
MODULE = Path(__file__).with_name("_abi.py")
PREFIX = "# ruff: noqa\n# fmt: off\n# Written by _abi_build.py from builder/runtime/abi/model.h.\n"


def declarations(header: str) -> str:
    """The header's types and functions, without comments, preprocessor lines and the C++ guard."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.DOTALL)
    return re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)


def generate(header: str) -> str:
    """The source of ``_abi.py``."""
    import cffi

    builder = cffi.FFI()
    builder.cdef(declarations(header))
    builder.set_source("_abi", None)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "_abi.py")
        with contextlib.redirect_stdout(io.StringIO()):  # cffi announces itself
            builder.emit_python_code(str(target))
        return PREFIX + target.read_text()


if __name__ == "__main__":
    MODULE.write_text(generate(HEADER.read_text()))
