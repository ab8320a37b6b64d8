"""``python -m benchmarks.prepare_trees CASE ENGINE``: make an engine's model of a case, unless it is there.

The case's framework comes first, which trains it, and for a forest ONNX Runtime, of whose file ours is built.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import KINDS, TREES_OURS
from benchmarks.models import SAMPLES
from benchmarks.tree_cases import FEATURES, PIECE, TreeCase, find_case, find_model
from builder.base.cache import code_digest, compute_digest, run_cached


def prepare(name: str, engine: str) -> None:
    """Make the engine's model in its folder, anew for another version of the engine, or of our code."""
    case, target = find_case(name), find_model(name, engine)
    version = code_digest() if engine == TREES_OURS else importlib.metadata.version(KINDS[engine].package or "")
    if engine == case.framework:
        run_cached(target.parent, compute_digest(version, name), lambda folder: train(case, folder / target.name))
    else:
        trained = find_model(name, case.framework)
        key = compute_digest(version, trained)
        run_cached(target.parent, key, lambda folder: convert(case, engine, trained, folder / target.name))


def train(case: TreeCase, target: Path) -> None:
    """Train the ensemble, save it as its framework does, and the samples beside it with its own answers."""
    library = importlib.import_module("sklearn.ensemble" if case.framework == "forest" else case.framework)
    kind = "Regressor" if case.task == "regression" else "Classifier"
    rounds, x, y = case.trees // case.shape[1], *case.draw_rows(50_000, 0)
    options: dict[str, Any] = {"n_jobs": 2, "random_state": 0}
    match case.framework:
        case "lightgbm":
            options |= {"num_leaves": case.size, "min_child_samples": 5, "deterministic": True, "verbose": -1}
            model = getattr(library, f"LGBM{kind}")(n_estimators=rounds, **options)
            model.fit(x, y, categorical_feature=case.categorical or "auto").booster_.save_model(target)
        case "xgboost":
            kinds = ["c" if column in case.categorical else "q" for column in range(FEATURES)]
            options |= {"max_depth": case.size, "learning_rate": 0.1, "enable_categorical": True}
            model = getattr(library, f"XGB{kind}")(n_estimators=rounds, feature_types=kinds, **options)
            model.fit(x, y).save_model(target)
        case _:
            model = getattr(library, f"RandomForest{kind}")(case.trees, max_leaf_nodes=case.size or None, **options)
            importlib.import_module("joblib").dump(model.fit(x[:20_000], y[:20_000]), target)
    engine = KINDS[case.framework].load_class()(target, 2)
    for batch, folder in ((1, target.with_name("row") / "keras"), (PIECE, target.with_name("rows") / "keras")):
        folder.mkdir(parents=True)
        for number in range(SAMPLES):
            data = case.draw_rows(find_case(case.name, batch).shape[0], number + 1)[0].tobytes()
            (folder / f"{number}.in").write_bytes(data)
            (folder / f"{number}.out").write_bytes(b"".join(engine.raw(engine.run(engine.feed(data)))))


def convert(case: TreeCase, engine: str, trained: Path, target: Path) -> None:
    """Make ``target``, the model of another engine, from the ``trained`` one."""
    if engine == TREES_OURS:
        from benchmarks.prepare import workspace
        from builder.pipeline.build_bundle import build_bundle

        source = find_model(case.name, "onnxruntime_trees") if case.framework == "forest" else trained
        for batch, name in ((1, target.name), (PIECE, "batch.so")):
            bundle = build_bundle(workspace(find_case(case.name, batch), str(source))).bundle
            shutil.copyfile(bundle.library, target.with_name(name))
    elif engine == "onnxruntime_trees":
        target.write_bytes(convert_onnx(case.framework, load(trained)).SerializeToString())
    elif engine == "lleaves":
        importlib.import_module("lleaves").Model(str(trained)).compile(cache=str(target))
    else:
        import tl2cgen
        import treelite

        if case.framework == "forest":
            model = treelite.sklearn.import_model(load(trained))
        else:
            model = getattr(treelite.frontend, f"from_{case.framework}")(load(trained))
        if engine == "gtil":
            model.serialize(target)
        else:
            tl2cgen.export_lib(model, "gcc", target, {"parallel_comp": case.trees // 10}, nthread=2)


def load(trained: Path) -> Any:
    """Return the framework's own object of a model."""
    if trained.suffix == ".joblib":
        return importlib.import_module("joblib").load(trained)
    framework = importlib.import_module("lightgbm" if trained.suffix == ".txt" else "xgboost")
    return framework.Booster(model_file=str(trained))


def convert_onnx(framework: str, model: Any) -> Any:
    """Return the model in ONNX, for any number of rows."""
    import onnxmltools
    import skl2onnx
    from onnxmltools.convert.common.data_types import FloatTensorType

    options = {} if framework == "xgboost" else {"zipmap": False}
    if framework == "forest":
        return skl2onnx.to_onnx(model, np.zeros((1, FEATURES), np.float32), options=options)
    feeds = [("x", FloatTensorType([None, FEATURES]))]
    return getattr(onnxmltools, f"convert_{framework}")(model, initial_types=feeds, **options)


if __name__ == "__main__":
    prepare(*sys.argv[1:])
