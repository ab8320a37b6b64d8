"""Look-ups of whole numbers become searches in the graph that answer as TensorFlow's own tables do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.importers.allowed_ops import UnsupportedOpsError
from builder.importers.tables import Table, find
from builder.importers.tf import tensorflow
from tests.support import needs
from tests.support.hostile import change_meta_graph
from tests.support.models import freeze, run_graph, save_keras

pytestmark = pytest.mark.integration

tf = tensorflow()
keras: Any = needs.needs_module("keras")
L: Any = keras.layers

LEAST, MOST = -(2**31), 2**31 - 1


@given(
    st.lists(st.integers(LEAST, MOST) | st.integers(-5, 5), min_size=1, max_size=40, unique=True),
    st.lists(st.integers(LEAST, MOST) | st.integers(-5, 5), max_size=20),
    st.sampled_from([("int32", "int32"), ("int32", "float32"), ("int64", "int64"), ("int64", "float32")]),
)
def test_a_search_finds_what_a_table_does(keys: list[int], others: list[int], dtypes: tuple[str, str]) -> None:
    key_dtype, dtype = dtypes
    values = np.random.default_rng(len(keys)).integers(-99, 99, len(keys)).astype(dtype)
    filled = tf.lookup.KeyValueTensorInitializer(np.array(keys, key_dtype), values)
    asked = tf.constant([*keys, *others], key_dtype)
    table = Table.of(np.array(keys, key_dtype), values)
    assert table is not None
    for shape in [(-1,), (1, -1)]:
        shaped = tf.reshape(asked, shape)
        expected = tf.lookup.StaticHashTable(filled, -7).lookup(shaped)
        np.testing.assert_array_equal(find(table, shaped, tf.constant(-7, dtype)), expected)


def static(path: Path) -> None:
    """A table that an init op fills, found through a function."""
    module = tf.Module()
    keys, values = tf.constant([5, -3, 10**12], tf.int64), tf.constant([0.5, 1.5, 2.5])
    module.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.int64, name="x")])
    def serve(x: Any) -> Any:
        return {"y": 2 * module.table.lookup(x)}

    tf.saved_model.save(module, str(path), {"serving_default": serve})


def of_tensorflow_1(path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.int64, [None, 4], name="x")
        filled = tf.lookup.KeyValueTensorInitializer([5, -3, 10**12], [0.5, 1.5, 2.5], tf.int64, tf.float32)
        y = 2 * tf.lookup.StaticHashTable(filled, -1.0).lookup(x)
        session.run(v1.tables_initializer())
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        init = v1.tables_initializer()
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, main_op=init)
        builder.save()


@pytest.mark.parametrize("save", [static, of_tensorflow_1])
def test_a_table_of_a_saved_model(save: Callable[[Path], None], tmp_path: Path) -> None:
    save(tmp_path / "m")
    graph = freeze(tmp_path / "m", tmp_path / "out")
    x = np.array([[10**12, 4, -3, 5]])
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["y"], [[5, -2, 3, 1]])


def test_a_table_of_keras(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,), dtype="int32"), L.IntegerLookup(vocabulary=[0, 7, 5])])
    graph = freeze(save_keras(model, tmp_path / "m.keras"), tmp_path / "out")
    x = np.array([[5, 6, 7, 0]], "int32")
    (answer,) = run_graph(graph, {graph.feeds[0].spec.name: x}).values()
    np.testing.assert_array_equal(answer, model.predict(x, verbose=0))


def _filled_again(meta: Any) -> None:
    """By the init op's function, once more."""
    function = next(f for f in meta.graph_def.library.function if "initializer" in f.signature.name)
    fill = next(node for node in function.node_def if node.op == "LookupTableImportV2")
    function.node_def.add().CopyFrom(fill)
    function.node_def[-1].name = "again"


def _too_large(meta: Any) -> None:
    """Keys that declare more than there is."""
    for node in meta.graph_def.node:
        if node.op == "Const" and node.attr["value"].tensor.dtype == tf.int64.as_datatype_enum:
            node.attr["value"].tensor.tensor_shape.dim[0].size = 10**8


def _in_a_circle(meta: Any) -> None:
    """The table that is filled comes from a node that reads itself."""
    function = next(f for f in meta.graph_def.library.function if "initializer" in f.signature.name)
    fill = next(node for node in function.node_def if node.op == "LookupTableImportV2")
    function.node_def.add(name="circle", op="Identity", input=["circle:output:0"])
    fill.input[0] = "circle:output:0"


def _without_init_op(meta: Any) -> None:
    del meta.signature_def["__saved_model_init_op"]
    del meta.collection_def["saved_model_main_op"]


@pytest.mark.parametrize("change", [_filled_again, _too_large, _in_a_circle, _without_init_op])
def test_a_table_that_is_not_known_is_refused_by_the_op_that_reads_it(
    change: Callable[[Any], None], tmp_path: Path
) -> None:
    static(tmp_path / "m")
    change_meta_graph(tmp_path / "m", change)
    with pytest.raises(UnsupportedOpsError, match=r"LookupTableFindV2 x1"):
        freeze(tmp_path / "m", tmp_path / "out")


def test_a_table_of_words_is_refused_by_the_op_that_reads_it(tmp_path: Path) -> None:
    layer = L.StringLookup(vocabulary=["a", "b"], invert=True)
    model = keras.Sequential([keras.Input((4,), dtype="int64"), layer, L.StringLookup(vocabulary=["b", "a"])])
    with pytest.raises(UnsupportedOpsError, match=r"LookupTableFindV2 x2"):
        freeze(save_keras(model, tmp_path / "m.keras"), tmp_path / "out")
