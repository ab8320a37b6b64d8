"""Random ensembles of trees of ai.onnx.ml held against ONNX Runtime; prints how many agree.

With a folder as argument, one of them is left there, with a row and ONNX Runtime's answer in a ``.npz`` beside it.
Rows lie at thresholds, one float beside them, and at NaN. It runs in the environment of ONNX's models. TreeEnsemble is
held against ONNX's reference as well, except where that is wrong (it reads a set up to a zero only, and not a tree that
is a leaf) or has no post_transform, and where ONNX Runtime departs from the specification: it cuts off fractions that
it looks up in a large set. A build is held against ONNX Runtime.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from builder.importers.frameworks.onnx.graph_function import GraphRunner
from builder.importers.frameworks.onnx.text_codes import TextCodes

rng = np.random.default_rng(0)
ML, FEATURES = "ai.onnx.ml", 4
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
THRESHOLDS = np.array([-2.5, -1, 0, 0.1, 1, 2, 3, 1e6], np.float32)


def draw_nodes(trees: int, modes: list[str], doubles: bool) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Return attributes of nodes, and the tree and number of each leaf."""
    rows: list[tuple[Any, ...]] = []
    for tree in range(trees):
        waiting, count = [(0, 0)], 1
        while waiting:
            number, depth = waiting.pop()
            if depth > 4 or rng.random() < 0.15:
                rows.append((tree, number, 0, "LEAF", 0.0, 0, 0, 0))
                continue
            value = float(rng.choice(THRESHOLDS)) + (rng.choice([0, 1e-9]) if doubles else 0)
            feature, tracks = int(rng.integers(FEATURES)), int(rng.integers(2))
            rows.append((tree, number, feature, str(rng.choice(modes)), float(value), count, count + 1, tracks))
            waiting += [(count + 1, depth + 1), (count, depth + 1)]  # ONNX's reference reads sets in this order.
            count += 2
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    columns = dict(
        zip([*(f"nodes_{n}" for n in names), "nodes_missing_value_tracks_true"], zip(*rows, strict=True), strict=True)
    )
    if doubles:
        values = np.array(columns.pop("nodes_values"), np.float64)
        columns["nodes_values_as_tensor"] = numpy_helper.from_array(values)
    return columns, [row[:2] for row in rows if row[3] == "LEAF"]


def draw_rows(dtype: Any) -> Any:
    """Return rows at thresholds, beside them, elsewhere, and with NaN."""
    if dtype == np.int64:
        return rng.integers(-3, 4, (300, FEATURES))
    cuts = np.array([*THRESHOLDS, *(THRESHOLDS + np.float64(1e-9) if dtype == np.float64 else [])], dtype)
    near = [np.nextafter(cuts[cuts != 0], dtype(way)) for way in (-np.inf, np.inf)]
    values = np.concatenate([cuts, *near, [np.nan, 5, -7, 0.5, np.inf, -np.inf]]).astype(dtype)
    return rng.choice(values, (300, FEATURES))


def make_model(operator: str, x: Any, attributes: dict[str, Any]) -> Any:
    outputs = ["label", "scores"] if operator.endswith("Classifier") else ["scores"]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], outputs, domain=ML, **attributes)],
        operator,
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), ["rows", FEATURES])],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
    )
    for output in graph.output:
        output.type.Clear()
    opsets = {"": 17, ML: 5 if operator == "TreeEnsemble" else 3}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*entry) for entry in opsets.items()])
    model.ir_version = 9
    return model


def run_case(operator: str, x: Any, attributes: dict[str, Any], by_reference: bool = False) -> bool:
    """Say whether labels are the same, and scores to 1e-5; ``by_reference``: to ONNX's reference, too."""
    model = make_model(operator, x, attributes)
    graph, outputs = model.graph, [output.name for output in model.graph.output]
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    texts: tuple[str, ...] = ()

    def compute(x: Any) -> list[Any]:
        nonlocal texts
        scope = {"x": x}
        GraphRunner(opsets, {}).run_graph(graph, scope)
        values = [scope[name] for name in outputs]
        texts = next((value.texts for value in values if isinstance(value, TextCodes)), ())
        return [value.codes if isinstance(value, TextCodes) else value for value in values]

    ours = [np.asarray(value) for value in jax.jit(compute)(x)]
    if texts:
        ours[0] = np.array(texts, object)[ours[0]]
    same = [np.array_equal(a, b) for a, b in zip(ours[:-1], theirs[:-1], strict=True)]
    close = ours[-1].shape == theirs[-1].shape and ours[-1].dtype == theirs[-1].dtype
    if by_reference:
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
        same.append(np.allclose(ours[-1], wanted, 1e-5, 1e-5))
    return all(same) and close and np.allclose(ours[-1], theirs[-1], 1e-5, 1e-5, equal_nan=True)


def draw_regressor(modes: list[str], dtype: Any) -> tuple[str, Any, dict[str, Any]]:
    doubles = dtype == np.float64 and rng.random() < 0.5
    nodes, leaves = draw_nodes(int(rng.integers(1, 9)), modes, doubles)
    targets = int(rng.integers(1, 4))
    keys = [(*leaf, target) for leaf in leaves for target in range(targets)]
    trees, numbers, ids = zip(*keys, strict=True)
    weights = rng.standard_normal(len(keys))
    attributes = {"target_treeids": trees, "target_nodeids": numbers, "target_ids": ids, "n_targets": targets}
    named = {"target_weights_as_tensor": numpy_helper.from_array(weights)} if doubles else {"target_weights": weights}
    if not doubles and rng.random() < 0.5:
        attributes["base_values"] = rng.standard_normal(targets)
    attributes["aggregate_function"] = str(rng.choice(["SUM", "AVERAGE"]))
    return "TreeEnsembleRegressor", draw_rows(dtype), nodes | attributes | named


def draw_ensemble(modes: list[str], dtype: Any, by_reference: bool) -> tuple[str, Any, dict[str, Any], bool]:
    nodes, leaves = draw_nodes(int(rng.integers(1, 9)), modes, False)
    while by_reference and any(number == 0 for _, number in leaves):
        nodes, leaves = draw_nodes(int(rng.integers(1, 9)), modes, False)
    keys, ends = list(zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], strict=True)), {*leaves}
    chosen = [i for i, key in enumerate(keys) if key not in ends or key[1] == 0]
    chosen = chosen if by_reference else rng.permutation(chosen).tolist()
    places = {keys[i]: place for place, i in enumerate(chosen)}
    names = ("featureids", "missing_value_tracks_true")
    attributes: dict[str, Any] = {f"nodes_{name}": [nodes[f"nodes_{name}"][i] for i in chosen] for name in names}
    for side in ("true", "false"):
        numbers = nodes[f"nodes_{side}nodeids"]
        children = [keys[i] if keys[i] in ends else (keys[i][0], numbers[i]) for i in chosen]
        attributes[f"nodes_{side}leafs"] = [int(child in ends) for child in children]
        attributes[f"nodes_{side}nodeids"] = [leaves.index(c) if c in ends else places[c] for c in children]
    codes = [[*MODES, "BRANCH_MEMBER", "LEAF"].index(nodes["nodes_modes"][i]) % 7 for i in chosen]
    values = [0.1, 1, 2, 3] if by_reference else [-1, 0, 1, 2, 3, 1e6]
    sets = [[*rng.choice(values, rng.integers(1, 5), False), np.nan] for code in codes if code == 6]
    tensors = {
        "nodes_modes": np.array(codes, np.uint8),
        "nodes_splits": np.array([nodes["nodes_values"][i] + rng.choice([0, 1e-9]) for i in chosen], dtype),
        "membership_values": np.concatenate([np.zeros(0), *sets]).astype(dtype),
        "leaf_weights": rng.standard_normal(len(leaves)).astype(dtype),
    }
    targets = int(rng.integers(1, 4))
    attributes |= {name: numpy_helper.from_array(array) for name, array in tensors.items()}
    attributes |= {"n_targets": targets, "leaf_targetids": rng.integers(targets, size=len(leaves)).tolist()}
    attributes |= {
        "aggregate_function": int(rng.integers(2)),
        "tree_roots": [places[key] for key in keys if key[1] == 0],
    }
    attributes["post_transform"] = 0 if by_reference else int(rng.choice([0, 3]))
    return "TreeEnsemble", draw_rows(dtype), attributes, by_reference


def draw_classifier(modes: list[str], dtype: Any) -> tuple[str, Any, dict[str, Any]]:
    nodes, leaves = draw_nodes(int(rng.integers(1, 9)), modes, False)
    classes = int(rng.integers(2, 5))
    single = classes == 2 and rng.random() < 0.7
    keys = [(*leaf, i) for leaf in leaves for i in ([0] if single else range(classes))]
    if single and rng.random() < 0.5:
        keys = [(tree, number, 1) for tree, number, _ in keys]
    trees, numbers, ids = zip(*keys, strict=True)
    weights = rng.standard_normal(len(keys)) if rng.random() < 0.6 else rng.random(len(keys)) / 4
    attributes = {"class_treeids": trees, "class_nodeids": numbers, "class_ids": ids, "class_weights": weights}
    if rng.random() < 0.3:
        attributes["base_values"] = rng.standard_normal(1 if classes == 2 else classes)
    if rng.random() < 0.5:
        attributes["classlabels_strings"] = [f"class {i}" for i in range(classes)]
    else:
        attributes["classlabels_int64s"] = [int(i) for i in np.arange(classes) * 3 + 5]
    attributes["post_transform"] = str(rng.choice(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]))
    return "TreeEnsembleClassifier", draw_rows(dtype), nodes | attributes


if __name__ == "__main__":
    kinds = [[mode] for mode in MODES] + [MODES, MODES[:1], MODES[:1]]
    agreed = 0
    for number in range(60):
        draw = draw_classifier if number % 3 else draw_regressor
        dtype = [np.float32, np.float32, np.float64, np.int64 if number % 3 else np.float64][number // 9 % 4]
        agreed += run_case(*draw(kinds[number % len(kinds)], dtype))
    kinds = [[*MODES, "BRANCH_MEMBER"], ["BRANCH_MEMBER"], *kinds]
    for number in range(40):
        dtype = (np.float32, np.float64)[number // 2 % 2]
        agreed += run_case(*draw_ensemble(kinds[number % 20 // 2], dtype, number % 2 == 0))
    print(f"{agreed} of 100 agree")
    for folder in map(Path, sys.argv[1:]):
        operator, x, attributes = draw_regressor(MODES, np.float32)
        model, shape = make_model(operator, x, attributes), ["rows", attributes["n_targets"]]
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("scores", TensorProto.FLOAT, shape))
        onnx.save(model, folder / "mixed.onnx")
        answer = onnxruntime.InferenceSession(folder / "mixed.onnx").run(None, {"x": x[:1]})[0]
        np.savez(folder / "mixed.npz", feed=x[:1], fetch=answer)
