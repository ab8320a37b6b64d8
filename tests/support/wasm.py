"""Small WebAssembly modules for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.project import cache_folder
from builder.compiler.link.toolchain import run_compiler
from builder.release.wasm.verify_module import WasmInstance

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = cache_folder() / "zig"
_TARGET = ("-target", "wasm32-wasi", "-O3", "-fno-math-errno", "-fvisibility=hidden", "-Wno-override-module")


def build(source: Path, exports: Sequence[str], folder: Path) -> WasmInstance:
    """One file of C or LLVM IR as a module with SIMD, loaded; ``data`` must be its buffer where there is one."""
    compiled, module = folder / f"{source.stem}.o", folder / f"{source.stem}.wasm"
    run_compiler([*_TARGET, "-mcpu=generic+simd128", "-c", str(source), "-o", str(compiled)], folder, CACHE)
    options = ["-mexec-model=reactor", "-Wl,--no-entry", *(f"-Wl,--export={name}" for name in exports)]
    # For this CPU the C library is there already; see builder/release/wasm/link_module.py.
    run_compiler([*_TARGET, "-mcpu=generic", *options, str(compiled), "-o", str(module)], folder, CACHE)
    return WasmInstance(module)


def through(module: WasmInstance, values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """What the function ``map(count)`` makes of ``values`` in the array at ``data()``, in place."""
    at = module.call_function("data")
    module.write(at, values.tobytes())
    module.call_function("map", values.size)
    return np.frombuffer(module.read(at, np.dtype(dtype).itemsize * values.size), dtype)
