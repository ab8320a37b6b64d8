"""LightGBM's models in text, version 4: src/boosting/gbdt_model_text.cpp and src/io/tree.cpp of LightGBM."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.importers.trees.ensemble import Ensemble, Missing, Transform, Tree, round_down

_TRANSFORMS: dict[str, Transform] = {
    "regression": "identity", "regression_l1": "identity", "huber": "identity", "fair": "identity",
    "quantile": "identity", "mape": "identity", "lambdarank": "identity", "rank_xendcg": "identity",
    "custom": "identity", "binary": "sigmoid", "cross_entropy": "sigmoid", "multiclass": "softmax",
    "multiclassova": "one_against_all", "poisson": "exp", "gamma": "exp", "tweedie": "exp",
    "cross_entropy_lambda": "log1p_exp",
}  # fmt: skip
_MISSING: tuple[Missing, ...] = ("none", "zero", "nan")
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_ZERO = np.float32(1e-35)
"""The largest absolute value that LightGBM takes for zero: kZeroThreshold of include/LightGBM/meta.h."""


def read_lightgbm(data: bytes) -> Ensemble:
    """Return the ensemble of a file. Raises ImportModelError."""
    try:
        text = data.decode()
        header, *blocks = _split_blocks(text)
        return replace(_read_ensemble(header, blocks), categories=_name_categories(header, text))
    except (ValueError, LookupError, OverflowError) as error:
        raise ImportModelError(f"This is not a model of LightGBM's that can be read ({error}).") from error


def _split_blocks(text: str) -> Iterator[dict[str, str]]:
    """Give the pairs of the header, and then those of each tree."""
    begin, end, _ = text.partition("end of trees")
    if not end:
        raise ValueError("it does not end with its trees")
    for block in begin.split("\nTree="):
        lines = [line.partition("=") for line in block.splitlines()]
        yield {key: value for key, _, value in lines}


def _read_ensemble(header: Mapping[str, str], blocks: list[dict[str, str]]) -> Ensemble:
    name, *options = header.get("objective", "custom").split()
    settings = dict(option.partition(":")[::2] for option in options)
    if name not in _TRANSFORMS:
        raise ImportModelError(f"LightGBM's objective {name!r} is not read. These are: {', '.join(_TRANSFORMS)}.")
    if "sqrt" in options:
        raise ImportModelError("LightGBM's regression with reg_sqrt is not read: train it without.")
    count = int(header["num_tree_per_iteration"])
    averages = "average_output" in header
    return Ensemble(
        tuple(map(_read_tree, blocks)),
        tuple(i % count for i in range(len(blocks))),
        tuple(header["feature_names"].split()),
        (0.0,) * count,
        "float64",
        _TRANSFORMS[name],
        divisor=len(blocks) // count if averages else 1,
        slope=float(settings.get("sigmoid", 1)),
        truncates=True,
    )


def _name_categories(header: Mapping[str, str], text: str) -> dict[str, tuple[str, ...]]:
    """Return the names of categories in the file's last line, a list for each column of pandas that has categories.

    Which columns these are shows in ``feature_infos``, where a column of a single category may be ``none``.
    """
    _, _, line = text.rpartition("\npandas_categorical:")
    lists = json.loads(line) if line.strip() else None
    if not lists:
        return {}
    infos = dict(zip(header["feature_names"].split(), header["feature_infos"].split(), strict=True))
    listed = [name for name, info in infos.items() if not info.startswith("[")]
    columns = listed if len(listed) == len(lists) else [name for name in listed if infos[name] != "none"]
    if len(columns) != len(lists):
        raise ImportModelError(
            "The file names the categories of pandas' columns, and does not say which columns these are, since some "
            "have one value only. Train without columns that are always the same."
        )
    return {name: tuple(map(_write_name, names)) for name, names in zip(columns, lists, strict=True)}


def _write_name(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _read_tree(block: Mapping[str, str]) -> Tree:
    if int(block.get("is_linear", 0)):
        raise ImportModelError("LightGBM's linear trees are not read: train without linear_tree.")
    leaves, nodes = _read_numbers(block, "leaf_value", float), int(block["num_leaves"]) - 1
    if len(leaves) != nodes + 1:
        raise ValueError(f"a tree of {nodes + 1} leaves has {len(leaves)} values")
    kinds, thresholds, features, lefts, rights = (
        np.array(_read_numbers(block, name, kind)[:nodes])
        for name, kind in (
            ("decision_type", int), ("threshold", float), ("split_feature", int), ("left_child", int),
            ("right_child", int),
        )
    )  # fmt: skip
    kinds = kinds.astype(np.int64)
    sets = _read_categories(block)
    return Tree(
        features.astype(np.int32),
        _avoid_zeros(round_down(thresholds)),
        lefts.astype(np.int32),
        rights.astype(np.int32),
        (kinds & (_DEFAULT_LEFT | _CATEGORICAL)) == _DEFAULT_LEFT,  # NaN is in no category.
        tuple("nan" if kind & _CATEGORICAL else _MISSING[kind >> 2 & 3] for kind in kinds.tolist()),
        np.array(leaves, np.float64)[:, None],
        {i: sets[int(thresholds[i])] for i in np.flatnonzero(kinds & _CATEGORICAL).tolist()},
    )


def _avoid_zeros(thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return thresholds that compare as the values do for which LightGBM takes zero: those up to _ZERO."""
    below = np.where((thresholds < 0) & (thresholds >= -_ZERO), np.nextafter(-_ZERO, np.float32(-np.inf)), thresholds)
    return np.where((below >= 0) & (below < _ZERO), _ZERO, below)


def _read_numbers(block: Mapping[str, str], name: str, kind: type) -> list[Any]:
    return [kind(word) for word in block.get(name, "").split()]


def _read_categories(block: Mapping[str, str]) -> list[frozenset[int]]:
    """Return the sets of categories that go left, of which the file has the bits."""
    bounds, words = _read_numbers(block, "cat_boundaries", int), _read_numbers(block, "cat_threshold", int)
    parts = [words[begin:end] for begin, end in itertools.pairwise(bounds)]
    return [
        frozenset(32 * i + bit for i, word in enumerate(part) for bit in range(32) if word >> bit & 1) for part in parts
    ]
