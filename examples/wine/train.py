"""Train a random forest that tells which cultivar a wine is of: ``python examples/wine/train.py``.

Writes ``build/wine/model.skops`` and ``build/wine/held_out.json`` (``rows`` of 13 numbers, and ``labels``: wines that
the forest never saw). It runs scikit-learn in the environment in which models of tables are read, which is made when it
is missing. Seeds are fixed: one machine gives the same forest every time. Fails when fewer than 95 % are told right.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "wine"
REQUIRED_ACCURACY = 0.95
SEED = 1
TREES = 100


def run_with_sklearn() -> None:
    """Start this script again with the Python that has scikit-learn."""
    sys.path.insert(0, str(ROOT))
    from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment

    python = ensure_environment(FRAMEWORKS["sklearn"], print) / "bin" / "python"
    os.execv(python, [str(python), __file__, "train"])


def main() -> None:
    from sklearn.datasets import load_wine
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split
    from skops import io as skops

    wines = load_wine(as_frame=True)
    names = [f"cultivar {number + 1}" for number in wines.target]
    rows, held_rows, labels, held_labels = train_test_split(
        wines.data, names, test_size=0.3, random_state=SEED, stratify=names
    )
    forest = RandomForestClassifier(TREES, random_state=SEED).fit(rows, labels)
    accuracy = forest.score(held_rows, held_labels)
    print(f"{accuracy:.1%} of {len(held_labels)} held-out wines told right")
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"expected at least {REQUIRED_ACCURACY:.0%}; no model written")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "held_out.json").write_text(json.dumps({"rows": held_rows.to_numpy().tolist(), "labels": held_labels}))
    # Last, and in one move: make takes the file's presence for success.
    unfinished = FOLDER / "unfinished.skops"
    skops.dump(forest, unfinished)
    unfinished.replace(FOLDER / "model.skops")


if __name__ == "__main__":
    main() if sys.argv[1:] == ["train"] else run_with_sklearn()
