"""Write ``_abi.py`` and ``_audio.py`` from the C headers: ``python -m handler._abi_build``.

cffi's out-of-line ABI mode: the declarations are parsed here, once, and the function loads the result
without the parser (or the cffi package: ``_cffi_backend`` is enough). Not part of the Lambda package.
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
"""Each module, and the header that it is made from."""


def extract_declarations(header: str) -> str:
    """The header's types and functions, without comments, preprocessor lines and the C++ guard."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.DOTALL)
    return re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)


def generate_module(header: Path) -> str:
    """The source of the module that ``header`` becomes."""
    import cffi

    builder = cffi.FFI()
    builder.cdef(extract_declarations(header.read_text()))
    builder.set_source("_abi", None)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "_abi.py")
        with contextlib.redirect_stdout(io.StringIO()):  # cffi announces itself
            builder.emit_python_code(str(target))
        source = header.relative_to(RUNTIME.parents[1]).as_posix()
        return f"# ruff: noqa\n# fmt: off\n# Written by _abi_build.py from {source}.\n" + target.read_text()


if __name__ == "__main__":
    for module, header in HEADERS.items():
        module.write_text(generate_module(header))
