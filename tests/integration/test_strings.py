"""Models that take encoded pictures or answer in words, from the export to the function; TensorFlow is the judge."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import ImportModelError, SandboxError
from builder.base.progress import Progress
from builder.base.project import cache_folder
from builder.base.tf import import_tensorflow
from builder.config import ImageSpec, ModelSpec, OutputSpec, read_spec
from builder.importers.allowed_ops import UnsupportedOpsError
from builder.importers.images.complete_config import CompletedSpec, complete_spec
from builder.importers.images.cut_decoding import make_probe_image
from builder.importers.images.image_settings import load_photographs
from builder.importers.model_import import import_model, open_model
from builder.importers.samples.labelled_samples import decode_image
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.resolve_strings import load_string_settings, write_string_settings
from builder.pipeline.workspace import Workspace
from builder.sources import locate_model
from handler.budget import RequestLimits
from handler.model import Model
from handler.server import Server
from tests.conftest import ROOT
from tests.support import byte_models, needs
from tests.support.http import Client
from tests.support.models import empty_project, run_graph, spec_for

pytestmark = pytest.mark.integration

tf = import_tensorflow()
V: Any = byte_models


def found_in(path: Path, **options: Any) -> CompletedSpec:
    spec = spec_for(path, **options)
    return complete_spec(open_model(spec, path), spec)


def image(width: int, height: int, resize: Any = "bilinear", antialias: bool = False, **options: Any) -> ImageSpec:
    return ImageSpec("data", width, height, resize=resize, antialias=antialias, decode="exact", **options)


NORMAL = {"scale": tuple(1 / 255 / s for s in (0.229, 0.224, 0.225)), "mean": (123.675, 116.28, 103.53)}


@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        (V.plain, [None], image(32, 40)),
        (V.alone, [], image(48, 64, "bicubic", True, scale=(1 / 255,))),
        (V.grey, [None], image(28, 28, "area", mode="grey")),
        (V.padded, [None, 1], image(80, 96, fit="contain")),
        (V.base64, [None], image(40, 40, scale=(1 / 255,))),
        (V.normalised, [None], image(40, 40, channel_order="bgr", padding=(104, 116, 124), **NORMAL)),
        (V.cropped, [None], image(48, 56, scale=(1 / 255,), crop=0.875)),
        (V.cut_off, [None], image(40, 40, antialias=True)),
        (V.square, [None], image(56, 56, fit="square", crop=0.875)),
        (V.square_by_the_decoder, [None], image(56, 56, "bicubic", fit="square", crop=0.875)),
        (V.short, [None], image(48, 56, antialias=True, fit="short", crop=0.75)),
        (V.short_side, [None], image(56, 56, scale=(1 / 255,), fit="short_rounded", crop=0.875)),
        (V.by_tensorflow_1(half_pixel_centers=True), [None], image(32, 40)),
        (V.by_tensorflow_1(), [None], image(32, 40, grid="asymmetric")),
        (V.by_tensorflow_1(align_corners=True), [None], image(32, 40, grid="align_corners")),
        (V.by_tensorflow_1("nearest_neighbor"), [None], image(32, 40, "nearest", grid="asymmetric")),
    ],
)
def test_settings_that_do_what_the_graph_does(
    function: Callable[..., Any], shape: list[int | None], expected: ImageSpec, tmp_path: Path
) -> None:
    path = byte_models.save(function, tmp_path / "saved", shape)
    batch = 1 if shape == [] else 2
    found = found_in(path, batch=batch)
    own = found.spec.image
    assert own is not None
    assert own.scale == pytest.approx(expected.scale, rel=1e-5)
    assert own.mean == pytest.approx(expected.mean, rel=1e-5)
    assert ImageSpec(**{**vars(own), "scale": expected.scale, "mean": expected.mean}) == expected
    graph = import_model(found.spec, path, tmp_path / "graph")
    assert [(p.spec.name, p.spec.dtype, p.spec.shape) for p in graph.feeds] == [
        ("data", "uint8", (batch, own.height, own.width, own.channels))
    ]
    assert not {node.op for node in graph.read_definition().node} & {"While", "StatelessWhile", "DecodeJpeg"}


@pytest.mark.parametrize("size", [(400, 300), (33, 21), (7, 100), (1, 1), (2, 3)])
@pytest.mark.parametrize("part", [0.875, 0.5, 0.3, 0.01])
def test_the_part_that_is_seen_is_tensorflow_s(size: tuple[int, int], part: float) -> None:
    pixels = make_probe_image(*size)
    cut = tf.image.central_crop(pixels, part).numpy()
    own = image(20, 10, "nearest", crop=part)
    found = decode_image(tf.io.encode_png(pixels).numpy(), own)
    if cut.size:
        np.testing.assert_array_equal(found, tf.image.resize(cut, (10, 20), "nearest"))
    else:  # of a part smaller than a pixel TensorFlow makes nothing
        assert found.shape == (10, 20, 3)


@pytest.mark.parametrize("size", [(400, 300), (33, 80), (57, 57), (9, 200), (1, 3)])
@pytest.mark.parametrize(("method", "antialias"), [("bilinear", False), ("bicubic", True), ("area", False)])
def test_a_short_side_is_resized_as_tensorflow_does_it(size: tuple[int, int], method: Any, antialias: bool) -> None:
    """256 pixels and then 224 of them, as all networks have it; here 16 and 14, and no square."""
    pixels = np.random.default_rng(3).integers(0, 256, (size[1], size[0], 3), np.uint8)
    sides = tf.cast(tf.shape(pixels)[:2], tf.float32)
    whole = tf.image.resize(pixels, tf.cast(sides * (16 / tf.reduce_min(sides)), tf.int32), method, antialias=antialias)
    top, left = (int(side - wanted) // 2 for side, wanted in zip(whole.shape[:2], (15, 14), strict=True))
    wanted = np.clip(whole[top : top + 15, left : left + 14], 0, 255)
    own = image(14, 15, method, antialias, fit="short", crop=0.875)
    found = decode_image(tf.io.encode_png(pixels).numpy(), own)
    np.testing.assert_allclose(found, wanted, atol=1.01 if antialias else 0.51)


@pytest.mark.parametrize("size", [(40, 30), (7, 100), (1, 1), (2, 3), (13, 8)])
@pytest.mark.parametrize("target", [(13, 8), (1, 5), (40, 61)])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("grid", ["asymmetric", "align_corners"])
def test_pixels_lie_where_tensorflow_1_had_them(
    grid: Any, method: Any, target: tuple[int, int], size: tuple[int, int]
) -> None:
    pixels = np.random.default_rng(4).integers(0, 256, (size[1], size[0], 3), np.uint8)
    resize = getattr(tf.compat.v1.image, f"resize_{'nearest_neighbor' if method == 'nearest' else method}")
    wanted = resize(pixels[None].astype(np.float32), target[::-1], align_corners=grid == "align_corners")[0]
    found = decode_image(tf.io.encode_png(pixels).numpy(), image(*target, method, grid=grid))
    np.testing.assert_allclose(found, wanted, atol=0.51 if method == "bilinear" else 0)


def test_labels_in_every_place(tmp_path: Path) -> None:
    path = byte_models.save(byte_models.labelled, tmp_path / "saved")
    found = found_in(path)
    assert [(o.name, o.kind, o.labels) for o in found.spec.outputs] == [
        ("best", "label", byte_models.LABELS),
        ("label", "label", byte_models.LABELS),
        ("scores", "classification", byte_models.LABELS),
        ("values", "raw", ()),
    ]
    assert "'classes', which is left out" in "\n".join(found.lines)


def test_a_keras_model_behind_its_preprocessing(tmp_path: Path) -> None:
    keras: Any = needs.needs_module("keras")
    layers = keras.layers
    keras.utils.set_random_seed(1)
    parts = [keras.Input((32, 32, 3)), layers.Rescaling(1 / 255), layers.Conv2D(4, 3, activation="relu")]
    network = keras.Sequential([*parts, layers.GlobalAveragePooling2D(), layers.Dense(3, activation="softmax")])

    class Served(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.variables_of_it = network.variables  # a module that tracks the model itself saves copies of them

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="data")])
        def serve(self, data: Any) -> Any:
            pictures = byte_models.each(
                lambda one: tf.image.resize(tf.io.decode_image(one, 3, expand_animations=False), (32, 32)), data
            )
            return {"y": network(pictures, training=False)}

    served = Served()
    path = tmp_path / "saved"
    tf.saved_model.save(served, str(path), signatures={"serving_default": served.serve})
    found = found_in(path)
    assert found.spec.image == image(32, 32)
    graph = import_model(found.spec, path, tmp_path / "graph")
    data = load_photographs()[0]
    ours = run_graph(graph, {"data": decode_image(data, image(32, 32))[None]})["y"]
    np.testing.assert_allclose(ours, served.serve(tf.constant([data]))["y"], atol=2e-3)


def test_an_export_of_tensorflow_1(tmp_path: Path) -> None:
    path = byte_models.save_of_tensorflow_1(tmp_path / "saved")
    found = found_in(path)
    assert found.spec.image == image(32, 40)
    assert found.spec.outputs == (
        OutputSpec("classes", "classes", "label", byte_models.LABELS),
        OutputSpec("scores", "scores", "classification", byte_models.LABELS),
    )
    import_model(found.spec, path, tmp_path / "graph")


def test_a_key_that_comes_back_is_left_out(tmp_path: Path) -> None:
    path = byte_models.save_with_key(tmp_path / "saved")
    found = found_in(path)
    assert "'key' is left out" in "\n".join(found.lines)
    assert found.spec.outputs == (OutputSpec("scores", "scores", "classification", byte_models.LABELS),)
    graph = import_model(found.spec, path, tmp_path / "graph")
    assert [p.spec.name for p in (*graph.feeds, *graph.fetches)] == ["image_bytes", "scores"]


def test_a_trained_network_that_takes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emotion example's network, exported as TensorFlow Serving wants it: model.toml says where it is, no more."""
    keras: Any = needs.needs_module("keras")
    file = locate_model(read_spec(ROOT / "examples" / "emotion" / "model.toml"), cache_folder())
    names = ("anger", "disgust", "fear", "happiness", "sadness", "surprise", "nothing")

    class Served(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = keras.saving.load_model(file, compile=False)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="data")])
        def serve(self, data: Any) -> Any:
            def prepared(one: Any) -> Any:
                return tf.image.resize(tf.io.decode_jpeg(one, channels=1, dct_method="INTEGER_ACCURATE"), (64, 64))

            scores = self.network((byte_models.each(prepared, data) / 255 - 0.5) * 2, training=False)
            best = tf.math.top_k(scores, 2)[1]
            return {"scores": scores, "best": tf.gather(tf.constant(names), best)}

    served = Served()
    project = empty_project(tmp_path, monkeypatch)
    tf.saved_model.save(served, str(tmp_path / "saved"), signatures={"serving_default": served.serve})
    (tmp_path / "model.toml").write_text('[model]\nsource = "saved"\nname = "served"\n')
    bundle = build_bundle(
        Workspace.from_spec(read_spec(tmp_path / "model.toml"), project, progress=Progress(quiet=True))
    ).bundle
    client = Client(Server({"served": Model(str(bundle.library))}, RequestLimits()))
    files = load_photographs()
    wanted = {name: value.numpy() for name, value in served.serve(tf.constant(files)).items()}
    body = {"instances": [{"b64": base64.b64encode(data).decode()} for data in files]}
    status, answer = client.post("/v1/models/served:predict", body)
    assert (status, client.failures) == (200, [])
    # Both decode to the same bits: the function rounds what is resized to whole grey levels.
    np.testing.assert_allclose([row["scores"] for row in answer["predictions"]], wanted["scores"], atol=0.01)
    assert [row["best"][0] for row in answer["predictions"]] == [row[0].decode() for row in wanted["best"]]
    for row in answer["predictions"]:
        assert row["best"] == [names[i] for i in np.argsort(row["scores"])[:-3:-1]]
    outputs = client.get("/v1/models/served/metadata")["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert outputs["outputs"]["best"]["dtype"] == "DT_STRING"
    _, answer = client.post("/predict", {"image": base64.b64encode(files[0]).decode()})
    own = answer["predictions"][0]
    assert [own["best"][0], own["scores"][0]["label"]] == [wanted["best"][0][0].decode()] * 2


def test_every_signature_takes_files_and_answers_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has pictures of its own size, and labels of its own."""
    names = ("one", "two", "three", "four")

    def small(one: Any) -> Any:
        return tf.image.resize(tf.io.decode_jpeg(one, channels=1, dct_method="INTEGER_ACCURATE"), (24, 20), "area")

    class Served(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 3])])
        def numbers(self, colours: Any) -> Any:
            return {"y": byte_models.head(colours[:, None, None])}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="data")])
        def large(self, data: Any) -> Any:
            return byte_models.labelled(data)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="file")])
        def grey(self, file: Any) -> Any:
            scores = byte_models.head(byte_models.each(small, file) / 255)
            return {"y": scores, "name": tf.gather(tf.constant(names), tf.argmax(scores, -1))}

    served = Served()
    project = empty_project(tmp_path, monkeypatch)
    signatures = {"numbers": served.numbers, "large": served.large, "grey": served.grey}
    tf.saved_model.save(served, str(tmp_path / "saved"), signatures=signatures)
    (tmp_path / "model.toml").write_text(
        '[model]\nsource = "saved"\nname = "served"\nsignature = ["numbers", "large", "grey"]\n'
    )
    bundle = build_bundle(
        Workspace.from_spec(read_spec(tmp_path / "model.toml"), project, progress=Progress(quiet=True))
    ).bundle
    client = Client(Server({"served": Model(str(bundle.library))}, RequestLimits()))
    data = load_photographs()[0]
    sent = base64.b64encode(data).decode()
    scores, name = (served.grey(tf.constant([data]))[one].numpy()[0] for one in ("y", "name"))
    status, answer = client.post("/predict", {"signature": "grey", "image": sent})
    assert (status, client.failures) == (200, []), answer
    (found,) = answer["predictions"]
    assert (found["name"], found["y"][0]["label"]) == (name.decode(), name.decode())
    np.testing.assert_allclose(found["y"][0]["probability"], scores.max(), atol=0.01)
    body = {"signature_name": "grey", "instances": [{"b64": sent}]}
    _, answer = client.post("/v1/models/served:predict", body)
    assert answer["predictions"][0]["name"] == name.decode()
    np.testing.assert_allclose(answer["predictions"][0]["y"], scores, atol=0.01)
    inputs = [{"name": "file", "shape": [1], "datatype": "BYTES", "data": [sent]}]
    _, answer = client.post("/v2/models/served/infer", {"parameters": {"signature": "grey"}, "inputs": inputs})
    assert names[answer["outputs"][0]["data"][0]] == name.decode()
    _, answer = client.post("/predict", {"signature": "large", "images": [sent, sent]})
    assert [one["label"] for one in answer["predictions"]] == [
        served.large(tf.constant([data]))["label"][0].numpy().decode()
    ] * 2
    status, answer = client.post("/predict", {"signature": "numbers", "inputs": {"colours": [[0.1, 0.2, 0.3]]}})
    assert (status, len(answer["predictions"])) == (200, 1)
    status, answer = client.post("/predict", {"image": sent})
    assert (status, answer["error"]["code"]) == (400, "wrong_field")


@pytest.mark.parametrize("dtype", [tf.float32, tf.uint8])
def test_an_image_that_is_normalised_by_itself(dtype: Any, tmp_path: Path) -> None:
    """In a loop, after it has its size: that is compiled."""

    def prepared(one: Any) -> Any:
        picture = tf.io.decode_jpeg(one, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.image.per_image_standardization(tf.cast(tf.image.resize(picture, (40, 32)), dtype))

    def serve(data: Any) -> Any:
        return {"y": byte_models.head(byte_models.each(prepared, data))}

    path = byte_models.save(serve, tmp_path / "saved")
    found = found_in(path, batch=2)
    assert found.spec.image == image(32, 40)
    graph = import_model(found.spec, path, tmp_path / "graph")
    files = load_photographs()[:2]
    pixels = np.stack([decode_image(data, image(32, 40)) for data in files])
    assert graph.feeds[0].spec.shape == pixels.shape
    answer = run_graph(graph, {"data": pixels})["y"]
    np.testing.assert_allclose(answer, serve(tf.constant(files))["y"], atol=0.005)


def test_labels_out_of_a_table(tmp_path: Path) -> None:
    path = byte_models.save_with_table(tmp_path / "saved")
    found = found_in(path)
    assert [(o.name, o.kind, o.labels) for o in found.spec.outputs] == [
        ("label", "label", byte_models.LABELS),
        ("y", "classification", byte_models.LABELS),
    ]
    graph = import_model(found.spec, path, tmp_path / "graph")
    x = np.eye(4, dtype=np.float32)[[2]]
    assert run_graph(graph, {"x": x})["label"].tolist() == [2]


def test_settings_of_one_s_own_are_taken_and_verified(tmp_path: Path) -> None:
    path = byte_models.save(byte_models.plain, tmp_path / "saved")
    own = ImageSpec(None, 32, 40, antialias=False, decode="fast", background=(0,))
    assert found_in(path, image=own).spec.image == ImageSpec("data", 32, 40, antialias=False, background=(0,))
    with pytest.raises(ImportModelError, match=r"bilinear with antialias.* off TensorFlow's by \d+\.\d grey levels"):
        found_in(path, image=ImageSpec(None, 32, 40))


class TestRefusals:
    def test_how_far_the_nearest_setting_is_off(self, tmp_path: Path) -> None:
        path = byte_models.save(byte_models.corner, tmp_path / "saved")
        with pytest.raises(ImportModelError, match=r"by \d\d\.\d grey levels in the mean and (?s:.*)ResizeB"):
            found_in(path)

    def test_a_resizing_of_tensorflow_1_that_has_no_setting(self, tmp_path: Path) -> None:
        path = byte_models.save(byte_models.by_tensorflow_1("bicubic"), tmp_path / "saved")
        with pytest.raises(ImportModelError, match=r"ResizeBicubic with a grid asymmetric: of these, .image. knows"):
            found_in(path)

    def test_a_size_that_the_image_decides(self, tmp_path: Path) -> None:
        def serve(data: Any) -> Any:
            return {"y": tf.reduce_mean(tf.cast(tf.io.decode_jpeg(data, channels=3), tf.float32), (0, 1))}

        path = byte_models.save(serve, tmp_path / "saved", [])
        with pytest.raises(ImportModelError, match=r"'data' is strings.*depends on the data: resize\D+DecodeJpeg\*"):
            found_in(path)

    def test_ops_that_reach_outside_do_not_run(self, tmp_path: Path) -> None:
        def serve(data: Any) -> Any:
            small = byte_models.each(
                lambda one: tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(one), 3), (8, 8)), data
            )
            return {"y": byte_models.head(small)}

        path = byte_models.save(serve, tmp_path / "saved")
        with pytest.raises(UnsupportedOpsError, match="ReadFile"):
            found_in(path)

    def test_normalising_by_all_of_the_image(self, tmp_path: Path) -> None:
        """By what is there before it has a size of its own."""

        def prepared(one: Any) -> Any:
            picture = tf.cast(tf.io.decode_jpeg(one, channels=3), tf.float32)
            return tf.image.resize(picture - tf.reduce_mean(picture), (40, 40))

        path = byte_models.save(
            lambda data: {"y": byte_models.head(byte_models.each(prepared, data))}, tmp_path / "saved"
        )
        with pytest.raises(ImportModelError, match="in no proportion to the pixels'"):
            found_in(path)


def detecting(data: Any) -> Any:
    """A box in each picture, whose score is its first probability."""
    y = byte_models.plain(data)["y"]
    return {"boxes": tf.ones([tf.shape(y)[0], 1, 1]) * [0.1, 0.2, 0.5, 0.9], "scores": y[:, :1]}


DETECTED = OutputSpec("objects", "boxes", "detection", scores="scores", box_format="yxyx")


def test_objects_in_images_that_the_graph_decodes(tmp_path: Path) -> None:
    """Nothing of pictures stands in model.toml."""
    path = byte_models.save(detecting, tmp_path / "saved")
    (tmp_path / "model.toml").write_text(
        '[model]\nsource = "saved"\nname = "served"\n[[outputs]]\nname = "objects"\nboxes = "boxes"\n'
        'kind = "detection"\nscores = "scores"\nbox_format = "yxyx"\n'
    )
    spec = read_spec(tmp_path / "model.toml")
    assert spec.outputs == (DETECTED,)
    write_string_settings(spec, path, tmp_path)
    found = complete_spec(open_model(spec, path), spec)
    spec, _ = load_string_settings(tmp_path, spec)
    assert (spec.image, spec.outputs) == (found.spec.image, (DETECTED,))
    graph = import_model(spec, path, tmp_path / "graph")
    assert [port.spec.shape for port in graph.feeds] == [(1, 40, 32, 3)]


def test_objects_in_no_images(tmp_path: Path) -> None:
    module = tf.Module()
    serve = tf.function(
        lambda x: {"boxes": x[:, None], "scores": x[:, :1]}, input_signature=[tf.TensorSpec([None, 4], name="x")]
    )
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures={"serving_default": serve})
    spec = spec_for(tmp_path / "saved", outputs=(DETECTED,))
    with pytest.raises(ImportModelError, match=r"\[\[outputs\]\] objects: it is of an image, and the model takes none"):
        import_model(spec, tmp_path / "saved", tmp_path / "graph")


def test_what_was_found_is_read_as_a_model_toml(tmp_path: Path) -> None:
    path = byte_models.save(byte_models.labelled, tmp_path / "saved")
    spec = spec_for(path)
    write_string_settings(spec, path, tmp_path)
    found = complete_spec(open_model(spec, path), spec)
    assert load_string_settings(tmp_path, spec) == (found.spec, tuple(found.lines))
    (tmp_path / "lines.json").write_text(json.dumps(["\x1b[2J"]))
    assert load_string_settings(tmp_path, spec)[1] == (r"\x1b[2J",)
    for hostile in ("[image]\nwidth = 1e9", "a" * 10, '[model]\nsource = "m"\nname = "../.."\nformat = "saved_model"'):
        (tmp_path / "found.toml").write_text(hostile)
        with pytest.raises(SandboxError, match="left settings that are not valid"):
            load_string_settings(tmp_path, spec)


def test_completed_specs_are_of_one_kind(tmp_path: Path) -> None:
    """What no string stands in is not touched."""
    path = byte_models.save_with_table(tmp_path / "saved")
    spec: ModelSpec = spec_for(path, outputs=(OutputSpec("mine", "y", "classification", ("a", "b", "c", "d")),))
    found = complete_spec(open_model(spec, path), spec)
    assert found.spec.outputs == spec.outputs
