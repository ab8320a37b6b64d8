"""Operators of ai.onnx.ml on tables, held against ONNX Runtime; prints how many agree.

It runs in the environment of ONNX's models.
"""

from __future__ import annotations

import os
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from builder.base.errors import ImportModelError
from builder.importers.frameworks.onnx.graph_function import GraphRunner
from builder.importers.frameworks.onnx.text_codes import TextCodes

Case = tuple[str, list[Any], dict[str, Any]]

rng = np.random.default_rng(0)
ML = "ai.onnx.ml"
NAN = float("nan")


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def texts(*values: Any) -> Any:
    return np.array(values, object)


def tensor(*values: Any) -> Any:
    array = np.array(values)
    kind = TensorProto.STRING if array.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor("", kind, array.shape, [v.encode() for v in values] if array.dtype.kind == "U" else array)


def draw_machine(classes: int, kernel: str, probabilities: bool) -> dict[str, Any]:
    """Return the attributes of a support vector machine for four columns."""
    counts, pairs = list(range(2, classes + 2)), classes * (classes - 1) // 2
    drawn = {"prob_a": -np.abs(floats(pairs)) - 0.5, "prob_b": floats(pairs) / 4} if probabilities else {}
    return {
        "coefficients": floats((classes - 1) * sum(counts)).tolist(),
        "support_vectors": floats(sum(counts) * 4).tolist(),
        "vectors_per_class": counts,
        "rho": floats(pairs).tolist(),
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 3.0],
        **{name: values.tolist() for name, values in drawn.items()},
    }


TABLE = floats(60, 4)
EDGES = np.concatenate([TABLE, 0 * TABLE[:1], -abs(TABLE[:1])])
HOLES = np.where(rng.random((6, 4)) < 0.3, np.float32(np.nan), floats(6, 4))
WORDS = texts(["b", "a"], ["zzz", "c"], ["a", "b"])
NUMBERS = np.array([[2, 1], [7, 3], [-1, 2]])
LINEAR = {"coefficients": floats(12).tolist(), "intercepts": floats(3).tolist()}
ONE = {"coefficients": floats(4).tolist(), "intercepts": [0.2]}
VECTORS = {"support_vectors": floats(20).tolist(), "coefficients": floats(5).tolist(), "n_supports": 5, "rho": [0.3]}
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
PLAIN = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
TWO, THREE = {"classlabels_strings": ["no", "yes"]}, {"classlabels_ints": [4, -2, 7]}
STUMP = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [2, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.1, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
    "target_weights": [0.5, -2.0],
}  # fmt: skip
CASES: list[Case] = [
    ("Scaler", [TABLE], {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [1.0, 2.0, 3.0, 0.5]}),
    ("Scaler", [TABLE.astype(np.float64)], {"offset": [0.1], "scale": [3.0]}),
    ("Scaler", [NUMBERS], {"offset": [1.0, 0.0], "scale": [0.5, 2.0]}),
    *(("Normalizer", [EDGES], {"norm": n}) for n in ("MAX", "L1", "L2")),
    ("Normalizer", [TABLE.astype(np.float64)], {"norm": "L2"}),
    ("Imputer", [HOLES], {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": NAN}),
    ("Imputer", [NUMBERS.astype(np.float32)], {"imputed_value_floats": [9.0], "replaced_value_float": 2.0}),
    ("Imputer", [NUMBERS], {"imputed_value_int64s": [8, 9], "replaced_value_int64": 2}),
    ("Binarizer", [TABLE], {"threshold": 0.25}),
    ("ArrayFeatureExtractor", [TABLE, np.array([[3, 0]])], {}),
    ("ArrayFeatureExtractor", [floats(4), np.array([3, 0, 0])], {}),
    ("ArrayFeatureExtractor", [WORDS, np.array([1])], {}),
    ("FeatureVectorizer", [TABLE, TABLE[:, :1], TABLE[:, 1:3]], {"inputdimensions": [4, 1, 2]}),
    ("FeatureVectorizer", [NUMBERS, NUMBERS[:, :1]], {"inputdimensions": [3, 1]}),
    ("OneHotEncoder", [WORDS], {"cats_strings": ["a", "b", "c"]}),
    ("OneHotEncoder", [NUMBERS], {"cats_int64s": [3, 2, 1]}),
    ("OneHotEncoder", [NUMBERS.astype(np.float32) + 0.5], {"cats_int64s": [3, 2, 1]}),
    ("LabelEncoder", [WORDS], {"keys_strings": ["a", "b"], "values_int64s": [5, 6], "default_int64": 9}),
    ("LabelEncoder", [WORDS], {"keys_strings": ["a", "b", "a"], "values_floats": [5.0, 6.0, 7.0]}),
    ("LabelEncoder", [WORDS], {"keys_strings": ["a"], "values_strings": ["alpha"], "default_string": "?"}),
    ("LabelEncoder", [NUMBERS], {"keys_int64s": [7, 1, 2], "values_strings": ["x", "y", "x"]}),
    ("LabelEncoder", [NUMBERS], {"keys_int64s": [7, 1, 2], "values_floats": [0.5, 1.5, NAN], "default_float": 8.0}),
    ("LabelEncoder", [HOLES], {"keys_floats": [float(HOLES[0, 0]), NAN], "values_int64s": [7, 8]}),
    (
        "LabelEncoder",
        [WORDS],
        {"keys_tensor": tensor("a", "c"), "values_tensor": tensor(2.5, 1.5), "default_tensor": tensor(0.5)},
    ),
    ("LabelEncoder", [WORDS], {"classes_strings": ["c", "a", "b"], "version": 1}),
    ("LabelEncoder", [NUMBERS], {"classes_strings": ["c", "a", "b"], "version": 1}),
    ("CategoryMapper", [WORDS], {"cats_strings": ["c", "b"], "cats_int64s": [3, 9]}),
    ("CategoryMapper", [NUMBERS], {"cats_strings": ["c", "b"], "cats_int64s": [3, 2], "default_string": "?"}),
    *(("LinearRegressor", [TABLE], {**LINEAR, "targets": 3, "post_transform": t}) for t in TRANSFORMS),
    ("LinearRegressor", [TABLE], {"coefficients": floats(4).tolist()}),
    *(("TreeEnsembleRegressor", [TABLE], {**STUMP, "n_targets": 2, "post_transform": t}) for t in TRANSFORMS),
    *(("LinearClassifier", [TABLE], {**LINEAR, **THREE, "post_transform": t}) for t in TRANSFORMS),
    *(("LinearClassifier", [TABLE], {**ONE, **TWO, "post_transform": t}) for t in TRANSFORMS),
    ("LinearClassifier", [TABLE], {**ONE, "classlabels_ints": [4, 6]}),
    *(("SVMRegressor", [TABLE], {**VECTORS, "kernel_type": k, "kernel_params": [0.3, 0.5, 2.0]}) for k in KERNELS),
    ("SVMRegressor", [TABLE], {**VECTORS, "kernel_type": "RBF", "kernel_params": [0.3, 0.0, 3.0], "one_class": 1}),
    ("SVMRegressor", [TABLE], {"coefficients": floats(4).tolist(), "rho": [0.1], **PLAIN}),
    *(("SVMClassifier", [TABLE], {**draw_machine(3, k, False), **THREE}) for k in KERNELS),
    *(("SVMClassifier", [TABLE], {**draw_machine(2, "RBF", False), **TWO, "post_transform": t}) for t in TRANSFORMS),
    ("SVMClassifier", [TABLE], {**draw_machine(3, "RBF", True), **THREE}),
    ("SVMClassifier", [TABLE], {**draw_machine(5, "LINEAR", True), "classlabels_ints": [0, 1, 2, 3, 4]}),
    ("SVMClassifier", [TABLE], {**draw_machine(2, "RBF", True), **TWO}),
    ("SVMClassifier", [TABLE], {"coefficients": floats(12).tolist(), "rho": [0.1], **THREE, **PLAIN}),
]  # fmt: skip
REFUSED: list[Case] = [
    ("LinearRegressor", [TABLE], ONE),
    ("SVMRegressor", [TABLE], {"coefficients": floats(4).tolist(), "rho": [0.1], **PLAIN}),
    ("TreeEnsembleRegressor", [TABLE], {**STUMP, "n_targets": 1}),
]
"""Regressors of one target, with which ONNX Runtime computes no logistic function."""


def encode(value: Any) -> Any:
    """Return texts as numbers among half of them, so that the others are unknown to the graph."""
    known = ["a", "b", "c"]
    codes = [known.index(text) if text in known else -1 for text in value.reshape(-1)]
    return np.array(codes, np.int32).reshape(value.shape)


def run_case(operator: str, inputs: list[Any], attributes: dict[str, Any]) -> bool:
    """Return whether labels are the same and floats agree to 1e-5."""
    opsets = {"": 17, ML: attributes.pop("version", 4 if operator == "LabelEncoder" else 3)}
    count = 2 if operator.endswith("Classifier") else 1
    names, results = [f"input_{i}" for i in range(len(inputs))], [f"output_{i}" for i in range(count)]
    node = helper.make_node(operator, names, results, domain=ML, **attributes)
    kinds = [TensorProto.STRING if v.dtype == object else helper.np_dtype_to_tensor_dtype(v.dtype) for v in inputs]
    feeds = [helper.make_tensor_value_info(n, k, v.shape) for n, k, v in zip(names, kinds, inputs, strict=True)]
    graph = helper.make_graph([node], operator, feeds, [helper.make_empty_tensor_value_info(n) for n in results])
    imports = [helper.make_opsetid(*entry) for entry in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(results, dict(zip(names, inputs, strict=True)))

    texts_of: dict[str, tuple[str, ...]] = {}

    def compute(arrays: list[Any]) -> list[Any]:
        scope: dict[str, Any] = {}
        for name, value, array in zip(names, inputs, arrays, strict=True):
            scope[name] = TextCodes(array, ("a", "b", "c"), (set(),)) if value.dtype == object else array
        GraphRunner(opsets, {}).run_nodes([node], scope)
        texts_of.update({name: scope[name].texts for name in results if isinstance(scope[name], TextCodes)})
        return [scope[name].codes if name in texts_of else scope[name] for name in results]

    answers = jax.jit(compute)([encode(value) if value.dtype == object else value for value in inputs])
    for name, ours, theirs in zip(results, answers, wanted, strict=True):
        ours = np.array([*texts_of[name], "zzz"], object)[np.asarray(ours)] if name in texts_of else np.asarray(ours)
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return False
        if not (np.allclose(ours, theirs, 1e-5, 1e-5, True) if ours.dtype.kind == "f" else (ours == theirs).all()):
            return False
    return True


def is_refused(operator: str, inputs: list[Any], attributes: dict[str, Any]) -> bool:
    try:
        run_case(operator, inputs, {**attributes, "post_transform": "LOGISTIC"})
    except ImportModelError as error:
        return "LOGISTIC for a single target" in str(error)
    return False


def main() -> None:
    agree = sum(run_case(operator, inputs, dict(attributes)) for operator, inputs, attributes in CASES)
    print(f"{agree} of {len(CASES)} agree, {sum(is_refused(*case) for case in REFUSED)} of {len(REFUSED)} are refused")


if __name__ == "__main__":
    main()
