"""Look-ups of whole numbers become searches in the graph that answer as TensorFlow's own tables do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.errors import ImportModelError
from builder.base.tf import import_tensorflow
from builder.importers.allowed_ops import UnsupportedOpsError
from builder.importers.graph import WORDS
from builder.importers.lookup_tables import LookupTable, search_table, sort_entries
from handler.text.words import parse_program
from tests.support import needs
from tests.support.hostile import change_meta_graph
from tests.support.models import freeze, run_graph, save_keras

pytestmark = pytest.mark.integration

tf = import_tensorflow()
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
    table = LookupTable.from_arrays(np.array(keys, key_dtype), values)
    assert table is not None
    for shape in [(-1,), (1, -1)]:
        shaped = tf.reshape(asked, shape)
        expected = tf.lookup.StaticHashTable(filled, -7).lookup(shaped)
        np.testing.assert_array_equal(search_table(table, shaped, tf.constant(-7, dtype)), expected)


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


LINES = b"red\tcr\xc3\xa9me\t7\r\ngreen\t-\t-3\nlast one\tx\t12"
"""A file of columns: with two kinds of ends of lines, none at its end, and more than ASCII."""
WHOLE, NUMBER = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
COLUMNS = {
    "lines": (tf.string, WHOLE, tf.int64, NUMBER, {}),
    "columns": (tf.string, 1, tf.int64, 2, {}),
    "the first lines": (tf.string, 0, tf.int64, NUMBER, {"vocab_size": 2}),
    "words to words": (tf.string, 0, tf.string, 1, {}),
    "between spaces": (tf.string, 0, tf.int64, NUMBER, {"delimiter": " "}),
    "numbers": (tf.int64, 2, tf.int64, NUMBER, {}),
}
ASKED = [LINES.split(b"\n")[1], b"red", b"green", b"-", b"x", b"last one", b"last", b"cr\xc3\xa9me", b"", b"other"]


def of_a_file(path: Path, case: str) -> Any:
    """A SavedModel that looks up what is asked, in a table that one of its assets fills; what TensorFlow answers."""
    key, at, value, of, options = COLUMNS[case]
    (path.parent / "vocabulary.txt").write_bytes(LINES)
    file = tf.lookup.TextFileInitializer(str(path.parent / "vocabulary.txt"), key, at, value, of, **options)
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(file, "none" if value == tf.string else -1)

    @tf.function(input_signature=[tf.TensorSpec([None], key, name="x")])
    def serve(x: Any) -> Any:
        found = module.table.lookup(x)
        return {"y": tf.strings.to_hash_bucket_fast(found, 2**30) if value == tf.string else found}

    tf.saved_model.save(module, str(path), {"serving_default": serve})
    (path.parent / "vocabulary.txt").unlink()
    return serve(tf.constant(asked(case), key))["y"].numpy()


def test_an_asset_as_tensorflow_1_lists_it(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    (tmp_path / "vocabulary.txt").write_bytes(LINES)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.string, [None], name="x")
        file = tf.lookup.TextFileInitializer(str(tmp_path / "vocabulary.txt"), tf.string, WHOLE, tf.int64, NUMBER)
        y = tf.lookup.StaticVocabularyTable(file, 3).lookup(x)
        init = v1.tables_initializer()
        session.run(init)
        expected = session.run(y, {x: ASKED})
        builder = v1.saved_model.Builder(str(tmp_path / "m"))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        listed = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature}, assets_collection=listed, main_op=init
        )
        builder.save()
    graph = freeze(tmp_path / "m", tmp_path / "out", batch=len(ASKED))
    words = parse_program((tmp_path / "out" / WORDS).read_bytes())
    found = [words.compute_arrays([[text]])[graph.feeds[0].spec.name].values for text in ASKED]
    np.testing.assert_array_equal(np.ravel(found), expected)


def asked(case: str) -> list[Any]:
    return ASKED if COLUMNS[case][0] == tf.string else [7, -3, 12, 0, 1, 2]


@pytest.mark.parametrize("case", COLUMNS)
def test_a_table_of_an_asset(case: str, tmp_path: Path) -> None:
    expected = of_a_file(tmp_path / "m", case)
    graph = freeze(tmp_path / "m", tmp_path / "out", batch=len(expected))
    feed = graph.feeds[0].spec
    if graph.strings:
        words = parse_program((tmp_path / "out" / WORDS).read_bytes())
        values = [words.compute_arrays([[text]])[feed.name].values for text in ASKED]
        x = np.array(values, feed.dtype).reshape(feed.shape)
    else:
        x = np.array(asked(case), feed.dtype)
    np.testing.assert_array_equal(run_graph(graph, {feed.name: x})["y"], expected)


def _renamed(name: str) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        def rename(meta: Any) -> None:
            meta.asset_file_def[0].filename = name

        change_meta_graph(model, rename)

    return change


def _linked(model: Path) -> None:
    (model.parent / "secret.txt").write_bytes(LINES)
    (model / "assets" / "vocabulary.txt").unlink()
    (model / "assets" / "vocabulary.txt").symlink_to(model.parent / "secret.txt")


def _twice(model: Path) -> None:
    (model / "assets" / "vocabulary.txt").write_bytes(LINES + b"\ngreen\t-\t-3\n")


BAD_FILES: dict[str, Callable[[Path], None]] = {
    "a file outside": _renamed("../../secret.txt"),
    "a path from the root": _renamed("/etc/passwd"),
    "no file": _renamed("other.txt"),
    "a link": _linked,
    "a key twice": _twice,
    "nothing": lambda model: (model / "assets" / "vocabulary.txt").write_bytes(b"") and None,
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_is_none_of_the_assets_is_not_read(case: str, tmp_path: Path) -> None:
    of_a_file(tmp_path / "m", "lines")
    (tmp_path / "secret.txt").write_bytes(LINES)
    BAD_FILES[case](tmp_path / "m")
    with pytest.raises(ImportModelError, match="nothing says what is in its table"):
        freeze(tmp_path / "m", tmp_path / "out", batch=1)


def test_a_table_of_words_is_refused_by_the_op_that_reads_it(tmp_path: Path) -> None:
    layer = L.StringLookup(vocabulary=["a", "b"], invert=True)
    model = keras.Sequential([keras.Input((4,), dtype="int64"), layer, L.StringLookup(vocabulary=["b", "a"])])
    with pytest.raises(UnsupportedOpsError, match=r"LookupTableFindV2 x2"):
        freeze(save_keras(model, tmp_path / "m.keras"), tmp_path / "out")


def test_an_exported_table_has_one_order() -> None:
    keys, values = np.array([b"cat", b"a", b"mat"], object), np.array([1, 2, 0])
    assert [array.tolist() for array in sort_entries(keys, values)] == [[b"mat", b"cat", b"a"], [0, 1, 2]]
