"""Write ``_abi.py`` and ``_audio.py`` from the C headers: ``python -m handler._abi_build``.

This is cffi's out-of-line ABI mode: the declarations are parsed here, once, and the function loads the result without
the parser (or the cffi package: ``_cffi_backend`` is enough). The Lambda package does not contain this module.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

RUNTIME = Path(__file__).parents[1] / "builder" / "runtime"
HEADERS: Mapping[Path, Path] = {
    Path(__file__).with_name("_abi.py"): RUNTIME / "abi" / "model.h",
    Path(__file__).with_name("_audio.py"): RUNTIME / "audio" / "audio.h",
}
"""Each module, and the header that it is generated from."""


def extract_declarations(header: str) -> str:
    """Return the header's types and functions, without comments, preprocessor lines and the C++ guard."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.DOTALL)
    return re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)


def generate_module(header: Path) -> str:
    """Return the source of the module generated from ``header``."""
    import cffi

    builder = cffi.FFI()
    builder.cdef(extract_declarations(header.read_text()))
    builder.set_source("_abi", None)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "_abi.py")
        with contextlib.redirect_stdout(io.StringIO()):  # cffi prints a line
            builder.emit_python_code(str(target))
        source = header.relative_to(RUNTIME.parents[1]).as_posix()
        return f"# ruff: noqa\n# fmt: off\n# Written by _abi_build.py from {source}.\n" + target.read_text()


if __name__ == "__main__":
    for module, header in HEADERS.items():
        module.write_text(generate_module(header))
