"""Several sizes of inputs in one library: what model.toml says, how a run chooses, and what fills up a small input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from builder.base.errors import ImportModelError, SpecError
from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.weight_store import merge_weights
from builder.config import FeedSpec, ImageSpec, ModelSpec, Source, Variant, read_spec, render_spec
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph
from builder.importers.graph import GraphPort as GraphPort
from builder.importers.spec_checks import require_variants
from builder.package import openapi
from handler.budget import RequestLimits
from handler.description import Description, Port, parse_description
from handler.errors import HandlerError, InferenceError, StartupError, WrongShapeError
from handler.model import Model
from handler.protocols import open_inference, predict, tf_serving
from handler.request import count_items, make_feeds, split_request
from handler.shape_buckets import choose_size, match_port, pad_tensor
from tests.support.instrumented import link

W = np.arange(16, dtype=np.float32)
LENGTHS = (4, 8, 16)
SPEC = ModelSpec(
    Path("model.toml"),
    "sized",
    "1",
    Source("graph_def", Path("g.pb")),
    batches=(1, 3),
    feeds=(FeedSpec("x", (1, 4), tuple((1, n) for n in LENGTHS), pad=-1.0, nan=True),),
)


def program(shape: tuple[int, int]) -> Program:
    """y is x, and w [batch, 4] the weights 12 to 15."""
    size, batch = 4 * shape[0] * shape[1], shape[0]
    return Program(
        steps=(
            CopyStep("y", Buffer("arena", 0, size), Buffer("arena", 1024, size), 4, (size // 4,), (1,), (1,)),
            CopyStep("w", Buffer("weights", 48, 16), Buffer("arena", 2048, 16 * batch), 4, (batch, 4), (0, 1), (4, 1)),
        ),
        feeds=(BoundPort(TensorSpec("x", "float32", shape), Buffer("arena", 0, size)),),
        fetches=(
            BoundPort(TensorSpec("y", "float32", shape), Buffer("arena", 1024, size)),
            BoundPort(TensorSpec("w", "float32", (batch, 4)), Buffer("arena", 2048, 16 * batch)),
        ),
        weights=(Weight(0, W.tobytes()),),
        arena_size=4096,
        weights_size=64,
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sized")
    shapes = (SPEC.of_variant(variant).feeds[0].shape for variant in SPEC.variants)
    first, *rest = merge_weights([program((s[0], s[1])) for s in shapes if s])
    others = dict(zip(SPEC.variants[1:], rest, strict=True))
    sources = emit_sources(first, SPEC, X86_64, folder, others=others)
    assert sources.weights.stat().st_size == 64
    return link(sources, [], folder)


@pytest.fixture(scope="module")
def described(library: Path) -> Description:
    return parse_description((library.parent / "model.json").read_text())


# The library.


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", LENGTHS)
def test_the_sizes_choose_the_program(library: Path, batch: int, length: int) -> None:
    model = Model(str(library))
    x = np.random.default_rng(batch).standard_normal((batch, length)).astype(np.float32)
    for size in (None, LENGTHS.index(length)):
        y, w = model.run([x.tobytes()], size)
        np.testing.assert_array_equal(np.frombuffer(y, np.float32).reshape(batch, length), x)
        np.testing.assert_array_equal(np.frombuffer(w, np.float32).reshape(batch, 4), np.tile(W[12:], (batch, 1)))
    model.warm_up()
    model.close()


@pytest.mark.parametrize("size", [0, 15, 17, 20, 60, 1000])
def test_an_unknown_size_is_refused_with_those_there_are(library: Path, size: int) -> None:
    model = Model(str(library))
    with pytest.raises(InferenceError, match=f"feed x takes 16 or 48 or 32 or 96 or 64 or 192 bytes, not {size}$"):
        model.run([bytes(size)])
    model.close()


def test_a_fetch_of_another_size_is_refused(library: Path) -> None:
    model = Model(str(library))
    with pytest.raises(InferenceError, match="fetch w takes 16 bytes, not 8"):
        model.run([bytes(32)], 2)
    model.close()


def test_the_description_and_the_header_tell_every_size(library: Path) -> None:
    told = json.loads((library.parent / "model.json").read_text())
    assert [size["feeds"][0]["shape"] for size in told["shapes"]] == [[1, 4], [1, 8], [1, 16]]
    assert [size["fetches"][0]["bytes"] for size in told["shapes"]] == [16, 32, 64]
    assert told["shapes"][0] == {"feeds": told["feeds"], "fetches": told["fetches"]}
    assert (told["batches"], told["pad"], told["nan"]) == ([1, 3], {"x": -1}, ["x"])
    parsed = parse_description(json.dumps(told))
    assert [(port.name, port.nan) for one in parsed.size_variants for port in one.feeds] == [("x", True)] * 3
    header = (library.parent / "model.h").read_text()
    assert "CF_FEED_X_SIZE 16u" in header
    assert " *   x float32 [1, 8] of 32 bytes, y float32 [1, 8] of 32 bytes, w float32 [1, 4] of 16 bytes\n" in header
    assert "It runs 3 items at once as well" in header


def test_a_description_that_contradicts_itself_is_refused(library: Path) -> None:
    told: dict[str, Any] = json.loads((library.parent / "model.json").read_text())
    other = [told["shapes"][1], told["shapes"][0]]
    renamed = [told["shapes"][0], json.loads(json.dumps(told["shapes"][1]).replace('"x"', '"z"'))]
    for wrong in ({"shapes": other}, {"shapes": renamed}, {"pad": {"z": 0}}, {"shapes": 3}):
        with pytest.raises(StartupError, match="cannot be used"):
            parse_description(json.dumps(told | wrong))


# Requests.


@st.composite
def within_another(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    most = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    return tuple(draw(st.integers(1, size)) for size in most), tuple(most)


@given(within_another(), st.sampled_from(["int8", "int32", "int64", "float32", "bool"]), st.integers(0, 1))
def test_padding_is_as_numpys(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, pad: int) -> None:
    shape, most = shapes
    x = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    port = Port("x", dtype, most, int(np.prod(most)) * x.itemsize)
    description = Description("m", "1", 1, (port,), (), None, (), pad={"x": pad})
    smaller = match_port(shape, port, description)
    assert smaller.shape == shape
    assert smaller.size == x.nbytes
    found = np.frombuffer(pad_tensor(x.tobytes(), smaller, port, description), dtype).reshape(most)
    around = [(0, size - own) for own, size in zip(shape, most, strict=True)]
    np.testing.assert_array_equal(found, np.pad(x, around, constant_values=pad))


@pytest.mark.parametrize(
    ("shape", "size"), [((1, 4), 0), ((9, 8), 1), ((2, 16), 2), ((1, 3), 0), ((1, 5), 1), ((7, 9), 2), ((16,), 2)]
)
def test_the_smallest_size_with_room_is_taken(described: Description, shape: tuple[int, ...], size: int) -> None:
    assert choose_size({"x": shape}, described).size == size


@pytest.mark.parametrize("shape", [(1, 17), (0, 4), (1, 0), (1, 4, 1), (), (17,)])
def test_what_fits_nowhere_is_refused_with_what_there_is(described: Description, shape: tuple[int, ...]) -> None:
    with pytest.raises(WrongShapeError, match=r'"x" \[n, 4\] or "x" \[n, 8\] or "x" \[n, 16\] is needed, or less'):
        choose_size({"x": shape}, described)


def test_without_a_pad_only_exact_sizes_are_taken(described: Description) -> None:
    exact = described._replace(pad={})
    assert choose_size({"x": (5, 8)}, exact).size == 1
    with pytest.raises(WrongShapeError, match=r"\[n, 16\] is needed$"):
        choose_size({"x": (5, 7)}, exact)


def request_of(protocol: str, x: np.ndarray, description: Description) -> Any:
    limits = RequestLimits()
    if protocol == "predict":
        return predict.parse_event({"inputs": {"x": x.tolist()}}, description, limits)
    if protocol == "serving":
        return tf_serving._parse_request({"x": x.tolist()}, description, limits)
    tensor = {"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.ravel().tolist()}
    return open_inference._parse_request({"inputs": [tensor]}, memoryview(b""), description, limits, lambda *_: None)


@pytest.mark.parametrize("protocol", ["predict", "serving", "inference"])
@pytest.mark.parametrize("length", [1, 4, 7, 8, 16])
def test_every_protocol_fills_up(library: Path, described: Description, protocol: str, length: int) -> None:
    count = 1 if protocol == "predict" else 5
    x = np.random.default_rng(length).standard_normal((count, length)).astype(np.float32)
    request = request_of(protocol, x, described)
    size = next(n for n, most in enumerate(LENGTHS) if most >= length)
    assert request.size == size
    sized = described.select_size(size)
    cut = [(make_feeds(part.inputs, sized), count_items(part, sized)) for part in split_request(request, sized)]
    assert sum(n for _, n in cut) == count
    model = Model(str(library))
    found = [np.frombuffer(model.run(one, size)[0], np.float32).reshape(-1, LENGTHS[size])[:n] for one, n in cut]
    model.close()
    expected = np.pad(x, ((0, 0), (0, LENGTHS[size] - length)), constant_values=-1)
    np.testing.assert_array_equal(np.concatenate(found), expected)


@pytest.mark.parametrize("protocol", ["predict", "serving", "inference"])
def test_every_protocol_refuses_what_is_too_long(described: Description, protocol: str) -> None:
    with pytest.raises(WrongShapeError, match=r'"x" \[n, 16\] is needed'):
        request_of(protocol, np.zeros((1, 17), np.float32), described)


def test_texts_of_one_request_have_one_length(described: Description) -> None:
    with pytest.raises(HandlerError):
        tf_serving._parse_request({"x": [[1.0] * 5, [1.0] * 6]}, described, RequestLimits())


def test_metadata_leave_open_what_differs(described: Description) -> None:
    assert [p["shape"] for p in open_inference.describe_model(described)["inputs"]] == [[-1, -1]]
    assert [p["shape"] for p in open_inference.describe_model(described)["outputs"]] == [[-1, -1], [-1, 4]]


# model.toml.

TEXT = '[model]\nsource = "a.keras"\nname = "a"\n'


def spec_of(path: Path, more: str) -> ModelSpec:
    (path / "model.toml").write_text(TEXT + more)
    return read_spec(path / "model.toml")


def feed(name: str, *lines: str) -> str:
    return f'[[feeds]]\nname = "{name}"\n' + "".join(f"{line}\n" for line in lines)


def test_the_spec_gives_shapes(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, feed("x", "shapes = [[1, 64], [1, 32]]", "pad = 0") + feed("n", "shape = []"))
    assert spec.feeds == (FeedSpec("x", (1, 64), ((1, 64), (1, 32)), 0.0), FeedSpec("n", ()))
    assert spec.variants == (Variant(1), Variant(1, 1, name="s1x32", says="with x [1, 32]"))
    assert [spec.of_variant(v).feeds[0].shape for v in spec.variants] == [(1, 64), (1, 32)]
    assert spec.alone.variants == (Variant(1),)
    (tmp_path / "model.toml").write_text(render_spec(spec))
    assert read_spec(tmp_path / "model.toml") == spec
    one = spec_of(tmp_path, feed("x", "shapes = [[1, 64]]"))
    assert one.feeds == (FeedSpec("x", (1, 64)),)


def test_every_batch_of_every_size_is_a_variant() -> None:
    assert [(v.batch, v.size, v.suffix, v.symbol) for v in SPEC.variants] == [
        (1, 0, "", ""),
        (3, 0, "-3", "_3"),
        (1, 1, "-s1x8", "_s1x8"),
        (3, 1, "-3-s1x8", "_3_s1x8"),
        (1, 2, "-s1x16", "_s1x16"),
        (3, 2, "-3-s1x16", "_3_s1x16"),
    ]
    assert SPEC.variants[3].says == "in a batch of 3, with x [3, 8]"
    assert SPEC.of_variant(SPEC.variants[3]).feeds[0].shape == (3, 8)


def test_an_image_of_another_size_is_of_that_size() -> None:
    feeds = (FeedSpec("x", (1, 64, 48, 3), ((1, 64, 48, 3), (1, 96, 80, 3))),)
    spec = replace(SPEC, feeds=feeds, batches=(), image=ImageSpec(None, 48, 64))
    images = [spec.of_variant(variant).image for variant in spec.variants]
    assert [(image.height, image.width) for image in images if image] == [(64, 48), (96, 80)]


IMAGE = '[image]\nwidth = 48\nheight = 64\nfeed = "x"\n'


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (feed("x", "shapes = []"), r"7: \[\[feeds\]\]\.shapes: is empty|shapes: is empty"),
        (feed("x", "shapes = [1, 64]"), "item 1: is a whole number; must be a list"),
        (feed("x", "shape = [1, 2]", "shapes = [[1, 64]]"), "cannot be used together with shape; keep one of them"),
        (feed("x", "shapes = [[1, 64], [64]]"), "have different numbers of dimensions"),
        (feed("x", "shapes = [[1, 64], [1, 64]]"), "item 2 is item 1; each must differ"),
        (
            feed("x", "shapes = [[1, 64], [1, 32]]") + feed("y", "shapes = [[1, 64]]"),
            "1 given, but 2 for 'x'; give each the same number",
        ),
        (feed("x", 'pad = "0"'), "pad: is a string; must be a number"),
        (
            IMAGE + feed("x", "shapes = [[1, 64, 64, 3], [1, 32, 32, 3]]"),
            r"begin with \[1, 64, 64, 3\]; \[image\] and batch make it \[1, 64, 48, 3\]",
        ),
        (
            IMAGE + feed("x", "shapes = [[1, 64, 48, 3], [1, 32, 32, 1]]"),
            r"item 2 is \[1, 32, 32, 1\]; images are \[1, height, width, 3\]",
        ),
        (IMAGE + feed("x", "shapes = [[1, 64, 48, 3], [1, 64, 64, 3]]", "pad = 0"), "images are resized; delete"),
    ],
)
def test_rules_of_shapes(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        spec_of(tmp_path, more)


def test_two_feeds_go_together(tmp_path: Path) -> None:
    """Of one feed the same shape may come again, where the other's differs."""
    both = feed("x", "shapes = [[1, 2], [1, 2]]") + feed("y", "shapes = [[1, 4], [1, 8]]")
    assert [v.name for v in spec_of(tmp_path, both).variants] == ["", "s1x2_1x8"]


# The build.


def graph(x: tuple[int, ...], y: tuple[int, ...], dtype: str = "int32") -> FrozenGraph:
    ports = ((GraphPort(TensorSpec("x", dtype, x), "x:0"),), (GraphPort(TensorSpec("y", "float32", y), "y:0"),))
    return FrozenGraph(Path("g"), *ports)


def test_sizes_that_cannot_be_told_apart_are_refused() -> None:
    spec = replace(SPEC, batches=(), feeds=(FeedSpec("x", (1, 2, 3), ((1, 2, 3), (1, 3, 2))),))
    require_variants(spec, [graph((1, 2, 3), (1, 2)), graph((1, 3, 2), (1, 3))])
    with pytest.raises(
        ImportModelError, match=r"A run with x \[1, 3, 2\] takes and gives the same numbers of bytes as one of the "
    ):
        require_variants(spec, [graph((1, 2, 3), (1, 2)), graph((1, 3, 2), (1, 2))])


def test_each_size_must_scale_with_the_batch() -> None:
    spec = replace(SPEC, feeds=(FeedSpec("x", (1, 2), ((1, 2), (1, 4))),))
    fine = [graph((1, 2), (1,)), graph((3, 2), (3,)), graph((1, 4), (1,))]
    require_variants(spec, [*fine, graph((3, 4), (3,))])
    with pytest.raises(ImportModelError, match=r"'y' is .* where the batch is 1"):
        require_variants(spec, [*fine, graph((3, 4), (1,))])


@pytest.mark.parametrize(("pad", "dtype", "fine"), [(-1, "int32", True), (0.5, "int32", False), (-1, "uint8", False)])
def test_a_pad_must_be_of_the_feeds_type(pad: float, dtype: str, fine: bool) -> None:
    spec = replace(SPEC, batches=(), feeds=(FeedSpec("x", (1, 2), pad=float(pad)),))
    if fine:
        return require_variants(spec, [graph((1, 2), (1,), dtype)])
    with pytest.raises(ImportModelError, match=f"pads 'x' with {pad:g}, which {dtype} cannot hold"):
        require_variants(spec, [graph((1, 2), (1,), dtype)])


def test_nan_must_be_of_the_feeds_type() -> None:
    spec = replace(SPEC, batches=(), feeds=(FeedSpec("x", (1, 2), nan=True),))
    require_variants(spec, [graph((1, 2), (1,), "float32")])
    with pytest.raises(ImportModelError, match="'x' be NaN, which int32 cannot hold"):
        require_variants(spec, [graph((1, 2), (1,), "int32")])


# The OpenAPI document.


def accepts(document: dict[str, Any], path: str, body: dict[str, Any]) -> bool:
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    validator = Draft202012Validator(schema | {"components": document["components"]})
    return bool(validator.is_valid(body))


@pytest.mark.parametrize(
    ("shape", "fine"), [((1, 4), True), ((1, 8), True), ((1, 5), True), ((1, 16), True), ((1, 17), False)]
)
def test_the_openapi_document_has_every_size(described: Description, shape: tuple[int, ...], fine: bool) -> None:
    document = openapi.make_document([described], RequestLimits())
    x = np.ones(shape).tolist()
    assert accepts(document, "/predict", {"inputs": {"x": x}}) == fine
    assert accepts(document, "/v1/models/sized:predict", {"instances": x}) == fine
    tensor = {"name": "x", "shape": list(shape), "datatype": "FP32", "data": x[0]}
    assert accepts(document, "/v2/models/sized/infer", {"inputs": [tensor]}) == fine
    exact = openapi.make_document([described._replace(pad={})], RequestLimits())
    assert accepts(exact, "/predict", {"inputs": {"x": x}}) == (fine and shape[1] in LENGTHS)
