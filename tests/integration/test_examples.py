"""Models that take serialized tf.Examples, from the export to the function's answers; TensorFlow is the judge."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.base.errors import ImportModelError
from builder.base.tf import import_tensorflow
from builder.config import FeedSpec, read_spec
from builder.importers.images.complete_config import complete_spec
from builder.importers.model_import import import_model, open_model
from builder.importers.strings.example_frontend import require_equal_answers
from builder.importers.strings.tf_examples import without_examples
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.workspace import Workspace
from handler.budget import RequestLimits
from handler.description import Port
from handler.errors import WrongExampleError
from handler.inputs.example import Feature, Value, parse_example
from handler.model import Model
from handler.server import Server
from handler.text.words import parse_program
from tests.support import example_models as models
from tests.support.example_protos import encode_proto, random_protos
from tests.support.http import Client
from tests.support.models import empty_project, run_graph, spec_for
from tests.support.words import tensors

pytestmark = pytest.mark.integration

tf = import_tensorflow()
FEATURES = (
    Feature("level", "float32", 2, np.array([1, 2], np.float32).tobytes()),
    Feature("days", "int64", 2),
    Feature("tags", "string", 1, (b"none",)),
)


@tf.function(input_signature=[tf.TensorSpec([1], tf.string)])  # type: ignore[untyped-decorator]  # TensorFlow has no types
def read_by_tensorflow(proto: Any) -> Any:
    fixed = tf.io.FixedLenFeature
    read = tf.io.parse_example(
        proto,
        {
            "level": fixed([2], tf.float32, [1, 2]),
            "days": fixed([2], tf.int64),
            "tags": fixed([1], tf.string, ["none"]),
        },
    )
    return read["level"], read["days"], read["tags"]


def wanted(proto: bytes) -> list[Value] | None:
    """What TensorFlow reads; None where it reads nothing."""
    try:
        level, days, tags = (value.numpy() for value in read_by_tensorflow(tf.constant([proto])))
    except tf.errors.InvalidArgumentError:
        return None
    return [level.tobytes(), days.tobytes(), tuple(tags.ravel().tolist())]


def found(proto: bytes) -> list[Value] | None:
    try:
        return parse_example(proto, FEATURES)
    except WrongExampleError:
        return None


VALUES = {
    "float32": st.lists(st.floats(width=32), max_size=3),
    "int64": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    "string": st.lists(st.binary(max_size=5), max_size=3),
}
LISTS = st.sampled_from(list(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), st.none() | VALUES[kind]))
KEYS = st.sampled_from(["level", "days", "tags", "", "other"])
ENTRIES = st.lists(st.tuples(KEYS, LISTS).map(lambda pair: (pair[0], *pair[1])), max_size=6)
RIGHT = [("level", "float32", [3.0, 4.0]), ("days", "int64", [1, -1]), ("tags", "string", [b"x"])]


@given(ENTRIES, st.booleans(), st.booleans())
@settings(deadline=None, max_examples=150)
def test_reads_what_tensorflow_reads_and_refuses_what_it_refuses(entries: Any, packed: bool, turned: bool) -> None:
    for proto in (encode_proto(entries, packed=packed, turned=turned), encode_proto([*RIGHT, *entries], packed=packed)):
        assert found(proto) == wanted(proto)


@given(st.integers(0, 49), st.data())
@settings(deadline=None, max_examples=300)
def test_reads_nothing_else_of_damaged_ones(number: int, data: Any) -> None:
    proto = bytearray(PROTOS[number])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(proto)))
        proto[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    ours = found(bytes(proto))
    assert ours is None or ours == wanted(bytes(proto))


PROTOS = random_protos(FEATURES, 50)


def reads(**features: Any) -> Callable[[Any], Any]:
    """A model that sums what it reads."""

    def model(examples: Any) -> Any:
        read = tf.io.parse_example(examples, features)
        dense = [tf.sparse.to_dense(one) if isinstance(one, tf.SparseTensor) else one for one in read.values()]
        dense = [one.to_tensor() if isinstance(one, tf.RaggedTensor) else one for one in dense]
        return {"y": tf.add_n([tf.reduce_sum(tf.cast(one, tf.float32), -1) for one in dense])}

    return model


def in_a_loop(examples: Any) -> Any:
    def one(example: Any) -> Any:
        return tf.io.parse_single_example(example, {"x": models.F([3], tf.float32)})["x"]

    return {"y": tf.map_fn(one, examples, fn_output_signature=tf.float32)}


def something_else(examples: Any) -> Any:
    read = tf.io.parse_example(examples, {"x": models.F([], tf.float32)})
    return {"y": read["x"] + tf.cast(tf.strings.length(examples), tf.float32)}


def pictures(examples: Any) -> Any:
    read = tf.io.parse_example(examples, {"picture": models.F([], tf.string)})
    small = tf.map_fn(
        lambda data: tf.image.resize(tf.io.decode_jpeg(data, channels=3), (32, 32)),
        read["picture"],
        fn_output_signature=tf.float32,
    )
    return {"y": tf.reduce_mean(small, (1, 2))}


def scripts(examples: Any) -> Any:
    read = tf.io.parse_example(examples, {"word": models.F([], tf.string)})
    letters = tf.strings.unicode_decode(read["word"], "UTF-8").to_tensor(0, shape=[None, 3])
    return {"y": tf.cast(tf.strings.unicode_script(letters), tf.float32)}


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "of any length": (reads(x=tf.io.VarLenFeature(tf.float32)), "The feature 'x' .*VarLenFeature"),
    "ragged": (reads(x=tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)), "The feature 'x' .*RaggedFeature"),
    "a sequence": (
        reads(x=tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)),
        "The feature 'x' .*FixedLenSequenceFeature",
    ),
    "in a loop": (in_a_loop, "inside of a loop .*whole batch"),
    "something else": (something_else, "something else with 'examples'"),
    "pictures": (pictures, "The feature 'picture' .*holds images"),
    "strings that steps do not know": (scripts, "UnicodeScript"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_what_it_is(tmp_path: Path, case: str) -> None:
    model, message = REFUSED[case]
    path = models.save(model, tmp_path / "saved")
    spec = spec_for(path, batch=2)
    with pytest.raises(Exception, match=message):
        import_model(complete_spec(open_model(spec, path), spec).spec, path, tmp_path / "graph")


def test_a_feature_that_no_answer_depends_on_is_left_out(tmp_path: Path) -> None:
    def model(examples: Any) -> Any:
        fixed = models.F([2], tf.float32)
        read = tf.io.parse_example(examples, {"x": fixed, "label": fixed, "names": tf.io.VarLenFeature(tf.string)})
        return {"y": read["x"] * 2, "key": examples}

    path = models.save(model, tmp_path / "saved")
    spec = spec_for(path, batch=2)
    found = complete_spec(open_model(spec, path), spec)
    graph = import_model(found.spec, path, tmp_path / "graph")
    assert [port.spec.name for port in graph.feeds] == ["x"]
    assert [port.spec.name for port in graph.fetches] == ["y"]


@pytest.mark.parametrize("shape", [(), (3,)])
def test_one_example_and_a_fixed_number_of_them(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = models.save(reads(x=models.F([2], tf.float32)), tmp_path / "saved", shape)
    graph = import_model(spec_for(path, batch=3 if shape else 1), path, tmp_path / "graph")
    assert [(port.spec.name, port.spec.shape) for port in graph.feeds] == [("x", (*shape, 2))]
    if not shape:
        with pytest.raises(ImportModelError, match="set batch = 1"):
            import_model(spec_for(path, batch=2), path, tmp_path / "graph")


def test_the_ops_of_tensorflow_1(tmp_path: Path) -> None:
    """ParseExample and ParseSingleExample, which exports of its time have."""

    def old(examples: Any) -> Any:
        read = tf.raw_ops.ParseExample(
            serialized=examples, names=[], sparse_keys=[], dense_keys=["x", "n"], sparse_types=[],
            dense_defaults=[tf.constant([], tf.float32), tf.constant(5, tf.int64)], dense_shapes=[[2], []],
        )  # fmt: skip
        return {"y": read.dense_values[0] * tf.cast(read.dense_values[1], tf.float32)[:, None]}

    def single(example: Any) -> Any:
        read = tf.raw_ops.ParseSingleExample(
            serialized=example, dense_defaults=[tf.constant([], tf.float32)], num_sparse=0, sparse_keys=[],
            dense_keys=["x"], sparse_types=[], dense_shapes=[[2]],
        )  # fmt: skip
        return {"y": read.dense_values[0] * 2}

    graph = import_model(spec_for(models.save(old, tmp_path / "old"), batch=2), tmp_path / "old", tmp_path / "graph")
    assert {port.spec.name: port.spec.shape for port in graph.feeds} == {"x": (2, 2), "n": (2,)}
    path = models.save(single, tmp_path / "single", ())
    assert import_model(spec_for(path), path, tmp_path / "one").feeds[0].spec.shape == (2,)


def test_a_vocabulary_in_a_file(tmp_path: Path) -> None:
    path = models.save(models.Words(tmp_path / "colours.txt"), tmp_path / "saved")
    (tmp_path / "colours.txt").unlink()
    spec = spec_for(path, batch=3)
    graph = import_model(complete_spec(open_model(spec, path), spec).spec, path, tmp_path / "graph")
    words = parse_program(graph.words_path.read_bytes())
    found = [words.compute_arrays([[text], [b"a", b"b"]])["colour"].values for text in (b"Blue", b"red")]
    assert found == [[2], [0]]


def test_a_text_of_any_length_in_an_example(tmp_path: Path) -> None:
    """Cut off where it has more words than the model takes."""

    def counted(examples: Any) -> Any:
        read = tf.io.parse_example(examples, {"text": models.F([], tf.string), "x": models.F([], tf.float32)})
        hashes = tf.strings.to_hash_bucket_fast(tf.strings.split(read["text"]), 100) + 1
        places = tf.cast(hashes.to_tensor(0), tf.float32)
        return {"y": tf.reduce_sum(places**2, -1) + read["x"]}

    path = models.save(counted, tmp_path / "saved")
    spec = spec_for(path, batch=2, feeds=(FeedSpec("text", lengths=(4,), truncate=True),))
    graph = import_model(complete_spec(open_model(spec, path), spec).spec, path, tmp_path / "graph")
    ports = {p.spec.name: Port(p.spec.name, p.spec.dtype, p.spec.shape, p.spec.size) for p in graph.feeds}
    made = tensors(
        parse_program(graph.words_path.read_bytes()), {"text": [b"a b", b"a b c d e f"]}, {"text": ports["text"]}
    )
    feeds = {"text": np.frombuffer(made["text"], np.int64).reshape(2, 4), "x": np.array([1, 2], np.float32)}
    protos = [
        encode_proto([("text", "string", [text]), ("x", "float32", [x])]) for text, x in ((b"a b", 1), (b"a b c d", 2))
    ]
    np.testing.assert_allclose(run_graph(graph, feeds)["y"], counted(tf.constant(protos))["y"])


def test_a_function_that_reads_something_else_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = models.save(models.Numbers(), tmp_path / "saved")
    spec = spec_for(path, batch=2)
    _, examples = without_examples(open_model(spec, path), spec)
    assert examples
    require_equal_answers(examples, None, ["scores"])

    def another(data: bytes, features: Any) -> list[Any]:
        age, *others = parse_example(data, features)
        return [age[::-1], *others]

    monkeypatch.setattr("handler.inputs.example.parse_example", another)
    with pytest.raises(ImportModelError, match="something else of the feature 'age'"):
        require_equal_answers(examples, None, ["scores"])


SPEC = """\
[model]
source = "saved"
name = "people"
batch = 4
signature = ["serving_default", "shades"]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Client]:
    """The SavedModel, and the function with its bundle."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(folder, patch)
        words = models.Words()
        models.save(words, folder / "saved", shades=words.shades)
        (folder / "model.toml").write_text(SPEC, encoding="utf-8")
        bundle = build_bundle(Workspace.from_spec(read_spec(folder / "model.toml"), project)).bundle
    model = Model(str(bundle.library))
    return folder / "saved", Client(Server({"people": model}, RequestLimits()))


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "age": 20.0 + at,
            "code/day": [at, -at],
            "measured": [[0.5, at], [-1.0, 2.0]],
            "seen": at,
            "colour": ["Red", "violet", "green"][at % 3],
            "tags": [f"tag {at}", "日本"],
        }
        for at in range(count)
    ]


def written(row: dict[str, Any]) -> bytes:
    def values(value: Any) -> list[Any]:
        flat = np.ravel(value).tolist()
        return [one.encode() if isinstance(one, str) else one for one in flat]

    return encode_proto([(key, models.WORDS[key].dtype.name, values(value)) for key, value in row.items()])


@pytest.mark.parametrize("count", [1, 3, 9])
def test_every_protocol_answers_as_tensorflow(built: tuple[Path, Client], count: int) -> None:
    path, client = built
    given = rows(count)
    protos = list(map(written, given))
    expected = models.answers(path, protos)
    coded = [base64.b64encode(one).decode() for one in protos]
    columns = {name: [row[name] for row in given] for name in given[0]}
    serialized = [{"b64": one} for one in coded]
    for body in ({"examples": coded}, {"inputs": columns}):
        status, answer = client.post("/predict", body)
        assert status == 200, answer
        for name, values in expected.items():
            np.testing.assert_allclose([one[name] for one in answer["predictions"]], values, atol=1e-5)
    for instances in (serialized, given):
        _, answer = client.post("/v1/models/people:predict", {"instances": instances})
        for name, values in expected.items():
            np.testing.assert_allclose([one[name] for one in answer["predictions"]], values, atol=1e-5)
    tensor = {"name": "examples", "datatype": "BYTES", "shape": [count], "data": coded}
    _, answer = client.post("/v2/models/people/infer", {"inputs": [tensor]})
    for one in answer["outputs"]:
        np.testing.assert_allclose(np.reshape(one["data"], one["shape"]), expected[one["name"]], atol=1e-5)


def test_strings_of_another_signature(built: tuple[Path, Client]) -> None:
    path, client = built
    colours, dark = ["green", "GREEN", " red ", "日本", ""], [0.5, 1.0, 2.0, 3.0, -1.0]
    signature = tf.saved_model.load(str(path)).signatures["shades"]
    expected = signature(colour=tf.constant(colours), dark=tf.constant(dark))["shade"]
    given = {"colour": colours, "dark": dark}
    status, answer = client.post("/predict", {"signature": "shades", "inputs": given})
    assert status == 200, answer
    np.testing.assert_allclose([one["shade"] for one in answer["predictions"]], expected)
    _, answer = client.post("/v1/models/people:predict", {"signature_name": "shades", "inputs": given})
    np.testing.assert_allclose(answer["outputs"], expected)
    inputs = [
        {"name": "colour", "datatype": "BYTES", "shape": [5], "data": colours},
        {"name": "dark", "datatype": "FP32", "shape": [5], "data": dark},
    ]
    _, answer = client.post("/v2/models/people/infer", {"parameters": {"signature": "shades"}, "inputs": inputs})
    np.testing.assert_allclose(answer["outputs"][0]["data"], expected)


def test_what_is_missing_has_the_default_of_the_model(built: tuple[Path, Client]) -> None:
    path, client = built
    row = rows(1)[0]
    short = written({key: row[key] for key in ("code/day", "measured", "tags")})
    _, answer = client.post("/predict", {"examples": [base64.b64encode(short).decode()]})
    for name, values in models.answers(path, [short]).items():
        np.testing.assert_allclose(answer["predictions"][0][name], values[0], atol=1e-5)


def test_a_feature_that_is_wrong_is_named_and_the_next_request_works(built: tuple[Path, Client]) -> None:
    _, client = built
    wrong = base64.b64encode(written(rows(1)[0] | {"tags": ["one"]})).decode()
    status, answer = client.post("/predict", {"examples": [wrong]})
    assert (status, answer["error"]["code"]) == (422, "wrong_example")
    assert 'the feature "tags" must have 2 values, not 1' in answer["error"]["message"]
    assert client.post("/predict", {"inputs": {name: [value] for name, value in rows(1)[0].items()}})[0] == 200
    assert client.failures == []
