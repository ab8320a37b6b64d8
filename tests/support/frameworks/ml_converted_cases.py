"""Models of scikit-learn as skl2onnx writes them, held against ONNX Runtime; prints how many agree.

It runs in the environment of ONNX's models.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, Normalizer, StandardScaler
from sklearn.svm import SVC, SVR

from builder.importers.frameworks.onnx.onnx_model import open_onnx

X, CLASSES = load_iris(return_X_y=True)
X = np.concatenate([X, X[:, ::-1]]).astype(np.float32)
CLASSES = np.concatenate([CLASSES, CLASSES])
NAMES = np.array(["setosa", "versicolor", "virginica"])[CLASSES]
BINARY = (CLASSES > 0) * 3 + 2
THREE, TWO = ("setosa", "versicolor", "virginica"), ("2", "5")
CASES: list[tuple[Any, Any, tuple[str, ...], int]] = [
    (RandomForestClassifier(5, random_state=0), NAMES, THREE, 1),
    (RandomForestClassifier(5, random_state=0), BINARY, TWO, 1),
    (GradientBoostingClassifier(n_estimators=5, random_state=0), NAMES, THREE, 1),
    (GradientBoostingClassifier(n_estimators=5, random_state=0), BINARY, TWO, 1),
    (ExtraTreesRegressor(5, random_state=0), CLASSES, (), 1),
    (LogisticRegression(), NAMES, THREE, 1),
    (LogisticRegression(), BINARY, TWO, 1),
    (LinearRegression(), CLASSES, (), 1),
    (SVC(), NAMES, THREE, 2),
    (SVC(kernel="poly"), BINARY, TWO, 2),
    (SVR(), CLASSES, (), 1),
    (GaussianNB(), NAMES, THREE, 1),
    (KNeighborsClassifier(3), CLASSES, ("0", "1", "2"), 1),
    (make_pipeline(StandardScaler(), PCA(2)), None, (), 1),
    (make_pipeline(Normalizer(), Binarizer(threshold=0.5), LogisticRegression()), NAMES, THREE, 1),
]


def run_case(estimator: Any, targets: Any, names: tuple[str, ...], outputs: int, path: Path) -> bool:
    """Say whether outputs and names are as they should be, and all numbers the same to 1e-4."""
    path.write_bytes(to_onnx(estimator.fit(X, targets), X[:1]).SerializeToString())
    model = open_onnx(path)
    ours, theirs = jax.jit(model.make_function())(X), model.answer([X])
    same = all(
        np.asarray(a).dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-4)
        for a, b in zip(ours, theirs, strict=True)
    )
    return same and model.ports.labels == names and len(ours) == outputs


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        agreed = sum(run_case(*case, Path(folder) / "model.onnx") for case in CASES)
    print(f"{agreed} of {len(CASES)} agree")
