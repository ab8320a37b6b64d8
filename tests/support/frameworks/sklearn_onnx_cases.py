"""Models of scikit-learn that skl2onnx wrote, held against ONNX Runtime; prints how many agree.

    python sklearn_onnx_cases.py [FOLDER]

It runs in the environment of ONNX's models, and leaves the files in FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np
import onnxruntime
import pandas as pd
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import linear_model as linear
from sklearn import preprocessing as pre
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM

from builder.importers.frameworks.framework_model import number_strings
from builder.importers.frameworks.onnx.onnx_model import open_onnx

rng = np.random.default_rng(0)
NUMBERS = rng.standard_normal((200, 5)).astype(np.float32)
CLASSES = np.digitize(NUMBERS[:, 0] + NUMBERS[:, 1], [-0.5, 0.5])
TABLE = pd.DataFrame({"age": NUMBERS[:, 0], "fare": NUMBERS[:, 1]}).assign(
    sex=rng.choice(["m", "f"], 200), town=rng.choice(["Rome", "Oslo", "Bern"], 200)
)
KINDS = [
    (name, (StringTensorType if name in ("sex", "town") else FloatTensorType)([None, 1])) for name in TABLE.columns
]
CLASSIFIERS = {
    "logistic": linear.LogisticRegression(),
    "ridge-classes": linear.RidgeClassifier(),
    "descent": linear.SGDClassifier(loss="log_loss", random_state=0),
    "discriminant": LinearDiscriminantAnalysis(),
    "machine": SVC(),
    "cubic-machine": SVC(kernel="poly"),
    "linear-machine": LinearSVC(),
    "gaussian-bayes": GaussianNB(),
    "bernoulli-bayes": BernoulliNB(),
    "neighbours": KNeighborsClassifier(),
    "network": MLPClassifier((5,), max_iter=20, random_state=0),
    "calibrated": CalibratedClassifierCV(linear.LogisticRegression()),
    "clusters": KMeans(3, random_state=0),
    "imputed": make_pipeline(SimpleImputer(), linear.LogisticRegression()),
    "one-class": OneClassSVM(),
}
REGRESSORS = {
    "linear": linear.LinearRegression(),
    "vectors": SVR(),
    "components": PCA(3),
    "scaled": make_pipeline(
        pre.Normalizer(), pre.MinMaxScaler(), pre.MaxAbsScaler(), pre.RobustScaler(), linear.LinearRegression()
    ),
    "binarised": make_pipeline(pre.Binarizer(threshold=0.1), linear.LinearRegression()),
    "polynomial": make_pipeline(pre.PolynomialFeatures(2), linear.Ridge()),
    "quantiles": make_pipeline(pre.QuantileTransformer(n_quantiles=20), linear.Ridge()),
    "power": make_pipeline(pre.PowerTransformer(), linear.Ridge()),
}
ENCODERS = {
    "one-hot-columns": pre.OneHotEncoder(handle_unknown="ignore"),
    "ordinal-columns": pre.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
}


def convert(model: Any, y: Any, table: Any = NUMBERS, **keys: Any) -> bytes:
    """Return the file of ``model``, fitted; its classifiers give labels and a tensor of scores."""
    model.fit(table, y)
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    options = (
        {"options": {id(model): {"zipmap": False}}} if hasattr(last, "predict_proba") or isinstance(last, SVC) else {}
    )
    written: bytes = to_onnx(model, **(keys or {"X": table[:1]}), **options).SerializeToString()
    return written


def list_models() -> dict[str, bytes]:
    """Return the files by name."""
    files = {name: convert(model, CLASSES) for name, model in CLASSIFIERS.items()}
    files |= {name: convert(model, NUMBERS[:, 0] * 2) for name, model in REGRESSORS.items()}
    for name, encoder in ENCODERS.items():
        numeric = make_pipeline(SimpleImputer(strategy="median"), pre.StandardScaler())
        columns = ColumnTransformer([("n", numeric, ["age", "fare"]), ("c", encoder, ["sex", "town"])])
        model = make_pipeline(columns, linear.LogisticRegression())
        files[name] = convert(model, CLASSES, TABLE, initial_types=KINDS)
    return files


def agrees(path: Path, rows: int) -> bool:
    """Return whether labels are the same and floats within 1e-4, for random rows and unknown strings."""
    model = open_onnx(path)
    feeds = [
        rng.integers(-1, 4, (rows, 1)) if port.dtype == "int64" else rng.standard_normal((rows, port.shape[1]))
        for port in number_strings(model.ports).feeds
        if port.shape
    ]
    feeds = [feed if feed.dtype == np.int64 else feed.astype(np.float32) for feed in feeds]
    pairs = zip(jax.jit(model.make_function())(*feeds), model.answer(feeds), strict=True)
    return all(
        (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype) and np.allclose(ours, theirs, 1e-4, 1e-5)
        for ours, theirs in pairs
    )


def record_rows(path: Path) -> None:
    """Write rows of TABLE, one with unknown strings, and ONNX Runtime's answers to them beside the model."""
    rows = TABLE[:5].copy()
    rows.loc[2, ["sex", "town"]] = ["", "Zürich"]
    feeds = {name: rows[[name]].to_numpy() for name in rows}
    labels, scores = onnxruntime.InferenceSession(path).run(None, feeds)
    answers = [{"label": int(label), "probabilities": row.tolist()} for label, row in zip(labels, scores, strict=True)]
    path.with_suffix(".json").write_text(json.dumps({"rows": rows.to_dict("records"), "answers": answers}))


def main(folder: Path) -> None:
    warnings.filterwarnings("ignore")  # Of models that have not converged.
    for name, data in (files := list_models()).items():
        (folder / f"{name}.onnx").write_bytes(data)
    record_rows(folder / "one-hot-columns.onnx")
    different = [name for name in files if not all(agrees(folder / f"{name}.onnx", rows) for rows in (1, 64))]
    print(f"{len(files) - len(different)} of {len(files)} agree", *different)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(*sys.argv[1:2] or [scratch]))
