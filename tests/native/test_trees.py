"""The kernel of tree ensembles against a walk through each tree, row by row."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.project import RUNTIME
from builder.importers.rewrites.custom_steps import TREE_ARRAYS
from builder.importers.trees import ranks
from builder.importers.trees.ensemble import Ensemble, Missing, Tree
from builder.importers.trees.ranks import pack_trees
from tests.support import needs
from tests.support.layers import LIBRARY, examples
from tests.support.runtime import SANITIZERS, sanitizer_environment

FEATURES = 4
NUMBERS = [0.0, -0.0, 1.0, 1e-35, -1e-36, 2e-35, 3.5, -7.25, 1e30, np.inf, -np.inf]


class KernelTrees(ctypes.Structure):
    """``cf_trees``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "features", "columns", "trees", "outputs", "width")),
        *((name, ctypes.c_int32) for name in ("words", "wide", "doubles", "blocks")),
        ("scratch", ctypes.c_int64),
    )


class KernelTreesData(ctypes.Structure):
    """``cf_trees_data``."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("x", *TREE_ARRAYS, "sums", "indices", "scratch"))


THREADS = """
#include "platform/threads.h"
uint32_t cf_threads(const cf_context *context) {
    (void)context;
    return 2;
}
void cf_parallel_for(cf_context *context, int64_t tasks, cf_task run, void *argument) {
    (void)context;
    for (int64_t i = tasks - 1; i >= 0; i--) run(argument, i, 0);
}
"""


def compile_trees(folder: Path, *options: str) -> Path:
    (folder / "threads.c").write_text(THREADS)
    sources = [folder / "threads.c", RUNTIME / "trees" / "trees.c"]
    subprocess.run(["gcc", *options, f"-I{RUNTIME}", "-o", folder / "trees.so", *sources], check=True)
    return folder / "trees.so"


LEVELS = ["x86-64-v3"] if LIBRARY in os.environ else ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


@pytest.fixture(scope="module", params=LEVELS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if LIBRARY in os.environ:
        return ctypes.CDLL(os.environ[LIBRARY])
    needs.gcc()
    if "v4" in request.param and "avx512bw" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the processor has no AVX-512")
    options = ["-std=c11", "-O2", f"-march={request.param}", "-Wall", "-Wextra", "-Wno-psabi", "-Werror"]
    return ctypes.CDLL(str(compile_trees(tmp_path_factory.mktemp("trees"), *options, "-shared", "-fPIC")))


def run(library: Any, ensemble: Ensemble, x: Any, indices: Any = None) -> Any:
    packed = pack_trees(ensemble, numbered=indices is not None)
    arrays = [getattr(packed, name) for name in TREE_ARRAYS]
    sums = np.zeros((len(x), len(ensemble.bases)), ensemble.dtype)
    blocks = min(16, len(x) // 64 + 1)
    block = 2 * len(packed.columns) + 8 * len(ensemble.bases)
    memory = np.zeros(64 * (blocks * block + 2 * packed.most_nodes + 3), np.uint8)
    aligned = (memory.ctypes.data + 63) // 64 * 64
    width, doubles = packed.leaves.shape[1], ensemble.dtype == "float64"
    call = KernelTrees(
        len(x),
        FEATURES,
        len(packed.columns),
        len(packed.trees),
        len(ensemble.bases),
        width,
        packed.words,
        packed.wide,
        doubles,
        blocks,
        0,
    )
    leaves = None if indices is None else indices.ctypes.data
    data = KernelTreesData(x.ctypes.data, *(array.ctypes.data for array in arrays), sums.ctypes.data, leaves, aligned)
    library.cf_trees_v3(None, ctypes.byref(call), ctypes.byref(data))
    return sums


def find_leaf(tree: Tree, row: Any, truncates: bool) -> int:
    node = 0 if len(tree.features) else -1
    while node >= 0:
        value, missing = float(row[tree.features[node]]), tree.missing[node]
        absent = np.isnan(value) or (missing == "zero" and abs(np.float32(value)) <= np.float32(1e-35))
        if missing != "none" and absent:
            left = bool(tree.missing_left[node])
        else:
            value = 0.0 if np.isnan(value) else value
            chosen = tree.categories.get(node)
            valid = value > -1 if truncates else value >= 0
            left = value <= tree.thresholds[node] if chosen is None else valid and int(min(value, 1e9)) in chosen
        node = int((tree.lefts if left else tree.rights)[node])
    return ~node


@st.composite
def draw_trees(draw: st.DrawFn) -> Tree:
    leaves = draw(st.integers(1, draw(st.sampled_from([40, 40, 300]))))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lefts, rights = np.full(leaves - 1, -1, np.int32), np.full(leaves - 1, -2, np.int32)
    balanced, depths = draw(st.booleans()), [1, 1]
    for node in range(1, leaves - 1):  # Each node takes the place of a leaf, which becomes its left child.
        leaf = ~(int(np.argmin(depths)) if balanced else int(random.integers(0, node + 1)))
        depths[~leaf] += 1
        depths.append(depths[~leaf])
        for side in (lefts[:node], rights[:node]):
            side[side == leaf] = node
        lefts[node], rights[node] = leaf, ~(node + 1)
    kinds: list[Missing] = ["none", "nan", "zero"]
    sets = {node: frozenset(random.integers(0, 70, 9).tolist()) for node in range(leaves - 1) if random.random() < 0.2}
    pool = np.array([*NUMBERS, *random.standard_normal(draw(st.sampled_from([1, 5, 400])))], np.float32)
    return Tree(
        random.integers(0, FEATURES, leaves - 1).astype(np.int32),
        random.choice(pool, leaves - 1),
        lefts,
        rights,
        random.random(leaves - 1) < 0.5,
        tuple("nan" if node in sets else kinds[random.integers(0, 3)] for node in range(leaves - 1)),
        random.standard_normal((leaves, 1)),
        sets,
    )


@examples(150)
@given(trees=st.lists(draw_trees(), min_size=1, max_size=30), dtype=st.sampled_from(["float32", "float64"]),
       outputs=st.integers(1, 3), wide=st.booleans(), count=st.sampled_from([1, 2, 12, 13, 63, 64, 65, 130, 400]),
       large=st.sampled_from([1, 10, 256]))  # fmt: skip
def test_any_ensemble(
    library: Any, trees: list[Tree], dtype: Any, outputs: int, wide: bool, count: int, large: int
) -> None:
    """Rows at every threshold and beside it, missing values and categories: the same sums to the last bit."""
    bases, width = (0.25, -1.0, 0.0)[:outputs], outputs if wide else 1
    groups = tuple(0 if wide else i % outputs for i in range(len(trees)))
    trees = [replace(tree, leaves=tree.leaves * np.arange(1, width + 1)) for tree in trees]
    ensemble = Ensemble(tuple(trees), groups, ("a", "b", "c", "d"), bases, dtype, "identity", truncates=wide)
    cuts = np.concatenate([np.float32(NUMBERS), *(tree.thresholds for tree in trees)])
    values = [cuts, np.nextafter(cuts, np.float32(np.inf)), np.nextafter(cuts, np.float32(-np.inf)), [np.nan] * 9]
    x = np.random.default_rng(count).choice(np.concatenate([*values, np.arange(-2, 70), [-0.5]]), (count, FEATURES))
    x = x.astype(np.float32)
    expected = np.tile(np.array(bases, dtype), (count, 1))
    leaves = np.array([[find_leaf(tree, row, wide) for tree in trees] for row in x], np.int32)
    for tree, group, own in zip(trees, groups, leaves.T, strict=True):
        expected[:, group : group + width] += tree.leaves[own].astype(dtype)
    indices = np.full((count + 1, len(trees)), -1, np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "LARGE", large)
        np.testing.assert_array_equal(run(library, ensemble, x), expected)
        np.testing.assert_array_equal(run(library, ensemble, x, indices), expected)
    np.testing.assert_array_equal(indices, [*leaves, [-1] * len(trees)])


@pytest.mark.parametrize(("count", "size"), [(255, 200), (256, 700), (900, 200), (900, 700), (900, 300), (70000, 700)])
def test_many_thresholds_of_a_feature(library: Any, count: int, size: int) -> None:
    """More than ranks of one byte, and of two, in trees of up to ``size`` nodes."""
    random = np.random.default_rng(count)
    cuts = np.sort(random.standard_normal(count).astype(np.float32))
    trees = []
    for part in np.array_split(cuts, -(-count // size)):
        chain = np.arange(len(part), dtype=np.int32)
        rights, zeros = np.append(chain[1:], ~np.int32(len(part))), np.zeros(len(part), np.int32)
        values = np.arange(len(part) + 1.0)[:, None]
        trees.append(Tree(zeros, part, ~chain, rights, zeros > 0, ("nan",) * len(part), values, {}))
    ensemble = Ensemble(tuple(trees), (0,) * len(trees), ("a", "b", "c", "d"), (0.0,), "float64", "identity")
    x = random.choice(np.append(cuts, np.float32([np.nan, 9, -9])), (100, FEATURES)).astype(np.float32)
    expected = np.where(np.isnan(x[:, 0]), count, np.searchsorted(cuts, x[:, 0]))
    np.testing.assert_array_equal(run(library, ensemble, x)[:, 0], expected)
    np.testing.assert_array_equal(run(library, ensemble, x[:3])[:, 0], expected[:3])


def test_the_bits_of_categories_are_integers() -> None:
    """As a float32, these would be a signalling NaN, of which compilers make a quiet one: a category came with it."""
    zero = np.zeros(1, np.int32)
    leaf, zeros = np.zeros((2, 1)), np.zeros(1, np.float32)
    sets = [{3}, {4}, {5}, {6}, {3, 4}, {3, 5}, {0, 3}]
    trees = [Tree(zero, zeros, zero - 1, zero - 2, zero > 0, ("nan",), leaf, {0: frozenset(own)}) for own in sets]
    packed = pack_trees(Ensemble(tuple(trees), (0,) * len(trees), ("a",), (0.0,), "float64", "identity"))
    assert packed.thresholds.dtype == np.int32
    assert packed.thresholds.view(np.uint32)[0] == 0xFFBFFFFF


@pytest.mark.full
@pytest.mark.xdist_group("sanitized trees")
@pytest.mark.skipif(LIBRARY in os.environ, reason="this is the sanitized run")
def test_under_sanitizers(tmp_path: Path) -> None:
    needs.gcc()
    library = compile_trees(tmp_path, *SANITIZERS, "-Wno-psabi")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", __file__]
    environment = sanitizer_environment() | {LIBRARY: str(library)}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[:4000]
