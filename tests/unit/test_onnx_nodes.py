"""Attributes of TreeEnsemble of ai.onnx.ml that are no trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builder.base.errors import ImportModelError
from builder.importers.trees.onnx_nodes import convert_tree_ensemble

ONE_NODE: dict[str, Any] = {
    "tree_roots": [0],
    "nodes_featureids": [0],
    "nodes_modes": np.array([6], np.uint8),
    "nodes_splits": np.zeros(1, np.float32),
    "nodes_truenodeids": [0],
    "nodes_trueleafs": [1],
    "nodes_falsenodeids": [1],
    "nodes_falseleafs": [1],
    "leaf_targetids": [0, 0],
    "leaf_weights": np.ones(2, np.float32),
    "membership_values": np.array([1, 2, np.nan], np.float32),
}


def test_a_set_belongs_to_its_node() -> None:
    attributes = convert_tree_ensemble(ONE_NODE)
    assert attributes["nodes_modes"] == ("BRANCH_EQ", "LEAF", "LEAF")
    assert attributes["nodes_members"] == ([1.0, 2.0], None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nodes_truenodeids", [-1]),
        ("nodes_trueleafs", [0]),  # The node is its own child.
        ("nodes_modes", np.array([4], np.uint8)),  # The set belongs to no node.
        ("membership_values", np.zeros(0, np.float32)),
    ],
)
def test_what_is_no_tree_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ImportModelError):
        convert_tree_ensemble(ONE_NODE | {name: value})
