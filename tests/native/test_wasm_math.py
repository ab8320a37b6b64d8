"""The vectorised functions of runtime/wasm/math.c against float64, everywhere and at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import needs
from tests.support.wasm import REPOSITORY, build, through

needs.needs_module("wasmtime")

SOURCE = REPOSITORY / "builder" / "runtime" / "wasm" / "math.c"
EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-38, -1e-38, 3.4e38, -3.4e38, 1e-8]

# Name: reference, low and high of the values tried, units in the last place, absolute error that is fine as well.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, float, float, float]] = {
    "exp": (np.exp, -104, 89, 3, 1e-45),
    "log": (np.log, 1e-38, 1e38, 3, 1e-7),
    "log1p": (np.log1p, -0.999, 50, 4, 1e-9),
    "tanh": (np.tanh, -12, 12, 5, 0),
    "erf": (np.vectorize(math.erf), -5, 5, 0, 5e-7),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-30, 1e30, 2, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_within_a_few_units_of_the_last_place(name: str, tmp_path: Path) -> None:
    reference, low, high, ulps, absolute = FUNCTIONS[name]
    source = tmp_path / "map.c"
    # One unit, as with XLA's kernels: inlined into the loop.
    source.write_text(f"""\
#include "{SOURCE}"
float values[8192];
float *data(void) {{ return values; }}
void map(int32_t count) {{
    for (int32_t i = 0; i < count; i++) values[i] = cf_{name}_f32(values[i]);
}}
""")
    rng = np.random.default_rng(7)
    spread = rng.uniform(low, high, 2000)
    small = np.sign(spread) * 10.0 ** rng.uniform(-8, 0, 2000)
    values = np.concatenate([EDGES, spread, small[(small >= low) & (small <= high)]]).astype(np.float32)
    ours = through(build(source, ("data", "map"), tmp_path), values, np.float32)
    with np.errstate(all="ignore"):
        theirs = reference(values.astype(np.float64)).astype(np.float32)
        close = np.abs(ours.astype(np.float64) - theirs) <= np.maximum(ulps * np.spacing(np.abs(theirs)), absolute)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    wrong = np.flatnonzero(~(close | same))
    assert not wrong.size, [(float(values[i]), float(ours[i]), float(theirs[i])) for i in wrong[:10]]
