"""Files of XGBoost, LightGBM and scikit-learn, each built and held against its framework's own answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.base.errors import ImportModelError
from builder.cli import main
from tests.integration.test_frameworks import assert_builds
from tests.support.framework_scripts import run_script

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]


@pytest.fixture(scope="module")
def tree_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``tree_model_cases`` leaves; the sums of all its files are the frameworks' own."""
    folder = tmp_path_factory.mktemp("trees")
    assert run_script("xgboost", "tree_model_cases.py", folder) == "28 of 28 agree\n"
    return folder


@pytest.mark.parametrize(
    "name",
    ["xgboost-classes.ubj", "xgboost-categories.json", "lightgbm-classes.txt", "lightgbm-categories.txt"],
)
def test_an_ensemble_of_trees(tree_models: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = assert_builds(tree_models / name, tmp_path, monkeypatch)
    assert [step["kind"] for step in manifest["lowering"]["fused_steps"]] == ["trees"]


def test_trees_of_onnx_that_look_up_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BRANCH_EQ searches for a value in a list; the search has no loop, as a loop's program is not optimised."""
    assert run_script("onnx", "ml_tree_cases.py", tmp_path) == "100 of 100 agree\n"
    manifest = assert_builds(tmp_path / "mixed.onnx", tmp_path, monkeypatch)
    assert manifest["lowering"]["path"] == "optimised"
    assert [step["kind"] for step in manifest["lowering"]["fused_steps"]] == ["trees"]


@pytest.fixture(scope="module")
def sklearn_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``sklearn_cases`` leaves."""
    folder = tmp_path_factory.mktemp("sklearn")
    assert run_script("sklearn", "sklearn_cases.py", folder) == "90 of 90 agree\n"
    return folder


BUILT = ("forest-gaps.joblib", "imputed.skops", "one-hot-strict.joblib", "binned-texts.joblib", "xgboost.joblib")


@pytest.mark.parametrize("name", BUILT)
def test_estimators_of_scikit_learn(
    sklearn_models: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = 1e-6 if name == "xgboost.joblib" else 1e-12  # XGBoost's probabilities are float32.
    manifest = assert_builds(sklearn_models / name, tmp_path, monkeypatch, error)
    (output,) = manifest["verification"]["outputs"]
    assert not output["constant"]


@pytest.mark.parametrize("name", ["xgboost-classes.ubj", "lightgbm-classes.txt", "boosted.joblib"])
def test_leaves(
    tree_models: Path, sklearn_models: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leaves of one row and of a block of them are the framework's own."""
    lines, folder = 'batch = [1, 20]\nsignature = "leaves"\n', sklearn_models if ".joblib" in name else tree_models
    manifest = assert_builds(folder / name, tmp_path, monkeypatch, lines=lines, recorded=".leaves.npz")
    numbers = [output for output in manifest["verification"]["outputs"] if output["fetch"] == "leaves"]
    assert [(output["exact"], output["constant"]) for output in numbers] == [(True, False)] * 2


def test_an_estimator_whose_leaves_are_not_told(
    sklearn_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = sklearn_models / "binned.joblib"
    toml = tmp_path / "model.toml"
    toml.write_text(f'[model]\nsource = "{source}"\ntrust = true\nsignature = "leaves"\n')
    assert main(["bundle", str(toml), "--in", "host"]) == ImportModelError.exit_code
    assert 'HistGradientBoostingClassifier has no signature "leaves"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("forest-gaps.joblib", "a pickled file may run code when it is loaded"),
        ("forest-gaps.skops", "types that skops does not trust: sklearn.tree._tree.Tree. If you trust"),
        ("quadratic.skops", "QuadraticDiscriminantAnalysis.predict_proba of scikit-learn is not supported. Use"),
        ("unfitted.skops", "unfitted.skops is not fitted"),
        ("other.skops", "other.skops holds dict, and no estimator"),
        ("damaged.skops", "damaged.skops cannot be loaded by scikit-learn"),
    ],
)
def test_a_file_of_scikit_learn_that_is_refused(
    sklearn_models: Path, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(sklearn_models / name)]) == ImportModelError.exit_code
    assert said in capsys.readouterr().err


def test_a_file_of_another_version_of_scikit_learn(sklearn_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(sklearn_models / "older.skops")]) == 0
    assert "was saved by scikit-learn 1.2.0" in "".join(capsys.readouterr())
