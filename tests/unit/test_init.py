"""The drafted spec: what is concluded from ports, and that the text loads as the draft."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.base.errors import ImportModelError
from builder.config import FeedSpec, FetchSpec, ImageSpec, ModelSpec, OutputSpec, Source, read_spec
from builder.importers.draft import Describe, draft_spec, name_of, with_raw_outputs
from builder.importers.input_scaling import InputScaling
from builder.importers.ports import AnswerFacts, GraphFacts, ImageFacts, ModelPorts, PortInfo
from builder.importers.shapes import pin_shapes


def ports(feeds: list[PortInfo], fetches: list[PortInfo], *signatures: str) -> Describe:
    made = ModelPorts(tuple(feeds), tuple(fetches), signatures[0] if signatures else None, signatures)
    return lambda source, path: made


def drafted(model: Path, describe: Describe, *, trust: bool = False) -> tuple[ModelSpec, str]:
    """The draft, after its text was written and read back."""
    draft = draft_spec(model, describe, trust=trust)
    spec, text = draft.spec, draft.format_toml()
    assert spec.path == model.parent / "model.toml"
    spec.path.write_text(text, encoding="utf-8")
    assert read_spec(spec.path) == spec
    return spec, text


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "Cats & dogs.keras"
    path.touch()
    return path


CLASSES = PortInfo("predictions", "float32", (None, 1000))


@pytest.mark.parametrize("names", [("cat", "dog", "no animal"), ("cat", "dog")])
def test_labels_that_the_file_has(model: Path, names: tuple[str, ...]) -> None:
    """They are the classes' only if there are as many."""
    feeds, fetches = (PortInfo("x", "float32", (1, 8)),), (PortInfo("scores", "float32", (1, 3)),)
    spec, text = drafted(model, lambda *_: ModelPorts(feeds, fetches, labels=names))
    assert spec.outputs[0].labels == (names if len(names) == 3 else ())
    assert ("all 3 of them" in text) == (len(names) != 3)


def test_a_classifier_of_images(model: Path) -> None:
    spec, text = drafted(model, ports([PortInfo("image", "float32", (None, 96, 64, 3))], [CLASSES]))
    assert spec == ModelSpec(
        path=model.parent / "model.toml",
        name="cats_dogs",
        version="1",
        source=Source("keras", model),
        image=ImageSpec(None, 64, 96, "rgb", scale=(1 / 255,)),
        outputs=(OutputSpec("cats_dogs", None, "classification", top_k=5),),
    )
    assert 'scale = "1/255"' in text
    for remark in ("Check against the training code", "all 1000 of them", "ends in raw scores", "trained on BGR"):
        assert remark in text.replace("\n# ", " ")


def test_a_network_without_its_last_layer(model: Path) -> None:
    features = PortInfo("global_average_pooling2d", "float32", (None, 1280))
    spec, text = drafted(model, ports([PortInfo("image", "float32", (None, 96, 64, 3))], [features]))
    assert spec.outputs == (OutputSpec("cats_dogs", None, "embedding"),)
    assert "Named like a vector" in text


def test_objects_in_images(model: Path) -> None:
    sizes = {"detection_boxes": (1, 100, 4), "num_detections": (1,), "detection_scores": (1, 100)}
    found = [PortInfo(name, "float32", shape) for name, shape in sizes.items()]
    found += [PortInfo("detection_classes", "float32", (1, 100)), PortInfo("raw_detection_boxes", "float32", (1, 9, 4))]
    spec, text = drafted(model, ports([PortInfo("image", "uint8", (1, None, None, 3))], found))
    objects, raw = spec.outputs
    assert objects.fetches == ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
    assert (objects.kind, objects.box_format, raw.kind) == ("detection", "yxyx", "raw")
    assert "the first for class 0" in text
    assert [one.fetch for one in with_raw_outputs(spec).outputs] == [*objects.fetches, "raw_detection_boxes"]
    tensors, _ = drafted(model, ports([PortInfo("x", "float32", (1, 9))], found))
    assert "detection" not in {one.kind for one in tensors.outputs}


def test_open_sizes_are_said(model: Path) -> None:
    spec, text = drafted(model, ports([PortInfo("image", "uint8", (None, None, None, 1))], [CLASSES]))
    assert spec.image == ImageSpec(None, 224, 224, "grey")
    assert spec.feeds == ()
    assert "# Check: the model leaves its width open; 224 is assumed.\nwidth = 224" in text
    assert "leaves its height open" in text


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((None, 3, 48, 64), ImageSpec(None, 64, 48, scale=(1 / 255,))),
        ((None, 1, 28, 28), ImageSpec(None, 28, 28, "grey", scale=(1 / 255,))),
        ((None, 3, None, None), ImageSpec(None, 224, 224, scale=(1 / 255,))),
        ((None, 3, 48, 3), ImageSpec(None, 48, 3, scale=(1 / 255,))),  # channels last, where both are possible
        ((None, 3, 12, 64), None),  # attention has as many heads
    ],
)
def test_images_may_have_their_channels_first(
    shape: tuple[int | None, ...], expected: ImageSpec | None, model: Path
) -> None:
    spec, _ = drafted(model, ports([PortInfo("x", "float32", shape)], [CLASSES]))
    assert spec.image == expected


def test_images_of_int8(model: Path) -> None:
    feed = PortInfo("x", "int8", (None, 96, 96, 3), quantised=(1 / 255, -128))
    scores = PortInfo("scores", "int8", (1, 10), quantised=(1 / 256, -128))
    for fetch, kind in (
        (CLASSES, "classification"),
        (scores, "classification"),
        (replace(scores, quantised=None), "raw"),
    ):
        spec, _ = drafted(model, ports([feed], [fetch]))
        assert spec.image == ImageSpec(None, 96, 96, mean=(128.0,))
        assert spec.outputs[0].kind == kind


@pytest.mark.parametrize(
    ("feed", "shape"),
    [
        ("mfcc", (None, 64, 64, 1)),
        ("log_mel", (None, 96, 64, 1)),
        ("spectrogram_input", (None, 124, 129, 1)),
        ("x", (None, 49, 10, 1)),
        ("x", (None, 10, 400, 1)),
    ],
)
def test_sound_in_the_shape_of_images_is_no_image(feed: str, shape: tuple[int, ...], model: Path) -> None:
    assert drafted(model, ports([PortInfo(feed, "float32", shape)], [CLASSES]))[0].image is None


def test_masks_in_the_shape_of_images_are_no_images(model: Path) -> None:
    mask = PortInfo("attention_mask", "float32", (None, 1, 64, 64))
    assert drafted(model, ports([mask], [CLASSES]))[0].image is None


@pytest.mark.parametrize("shape", [(None, 8, 8, 1), (None, 28, 28, 1), (None, 32, 320, 1), (None, 12, 40, 3)])
def test_small_and_long_images_are_images(shape: tuple[int, ...], model: Path) -> None:
    assert drafted(model, ports([PortInfo("melanoma", "float32", shape)], [CLASSES]))[0].image is not None


def test_a_model_of_sound_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "kws_ref_model.keras"
    path.touch()
    assert drafted(path, ports([PortInfo("input_1", "float32", (None, 99, 40, 1))], [CLASSES]))[0].image is None


SCALING = InputScaling("image", (1 / 127.5,) * 3, (-1.0,) * 3)


def test_scaling_is_that_of_the_graph_and_said(model: Path) -> None:
    facts = {
        "divided by 127.5, minus 1": GraphFacts((SCALING,)),
        "minus (0.485, 0.456, 0.406), divided by (0.229, 0.224, 0.225)": GraphFacts(
            (replace(SCALING, scale=(4.3668, 4.46429, 4.44444), offset=(-2.11790, -2.03571, -1.80444)),)
        ),
        "does not scale": GraphFacts((replace(SCALING, scale=(1.0,) * 3, offset=(0.0,) * 3),)),
        "VGG": GraphFacts((), {}, "keras.applications' VGG"),
        "could not be followed": GraphFacts(()),
    }
    for (says, found), scale in zip(facts.items(), (1, 1 / 255, 1 / 255, 1, 1 / 255), strict=True):
        made = ModelPorts((PortInfo("image", "float32", (None, 96, 64, 3)),), (CLASSES,), facts=found)
        spec, text = drafted(model, lambda source, path, made=made: made)  # type: ignore[misc]
        assert says in text.replace("\n# ", " ")
        assert spec.image is not None
        assert spec.image.scale == (scale,)
        assert spec.image.channel_order == ("bgr" if says == "VGG" else "rgb")


def test_facts_come_back_from_json() -> None:
    scalings = (SCALING, replace(SCALING, reverses=True, size=(8, 9)))
    image = ImageFacts(ImageSpec("x", 8, 9, scale=(0.5, 1.0, 2.0), fit="short_exact"), 0.1, 3.0)
    facts = GraphFacts(scalings, {"y": "Softmax"}, "a family", {"x": (1, 32)}, image=image)
    made = ModelPorts((), (), facts=facts)
    rows = json.loads(json.dumps(asdict(made)))
    assert ModelPorts.from_json(rows) == made
    for key, value in (("scalings", [{}]), ("scalings", 3), ("endings", []), ("shapes", "x")):
        with pytest.raises(ImportModelError):
            ModelPorts.from_json(rows | {"facts": rows["facts"] | {key: value}})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("mobilenet_v2/1", "mobilenet_v2"),
        ("exports/face/00000123", "face"),
        ("hub/bit/saved_model/1/saved_model", "bit"),
        ("runs/7/model.keras", "runs"),
        ("8bit.keras", "8bit"),
        ("-rf", "rf"),
        ("--help.keras", "help"),
        ("-.keras", "model"),
    ],
)
def test_what_says_nothing_is_no_name(path: str, name: str, tmp_path: Path) -> None:
    """Such as the number of a version, which two models may well share."""
    full = tmp_path / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.touch() if full.suffix else full.mkdir()
    assert name_of(full) == name


def test_logits_get_softmax_and_few_classes_a_small_top_k(model: Path) -> None:
    spec, text = drafted(
        model, ports([PortInfo("x", "float32", (None, 4))], [PortInfo("logits", "float32", (None, 3))])
    )
    assert spec.image is None
    assert spec.outputs == (OutputSpec("cats_dogs", None, "classification", activation="softmax", top_k=3),)
    assert "softmax is added" in text


def test_several_inputs_and_outputs(model: Path) -> None:
    describe = ports(
        [
            PortInfo("tokens", "int32", (None, None)),
            PortInfo("photo", "float32", (None, 32, 32, 3)),
            PortInfo("wide", "float32", (None, 7)),
            PortInfo("anything", "float32", None),
        ],
        [CLASSES, PortInfo("age", "float32", (None, 1)), PortInfo("boxes", "float32", (None, 10, 4)),
         PortInfo("best", "int64", (None, 5)), PortInfo("open", "float32", (None, None))],
    )  # fmt: skip
    spec, text = drafted(model, describe)
    assert spec.feeds == (FeedSpec("tokens", (1, 128)), FeedSpec("anything"))
    assert spec.image is not None
    assert spec.image.feed == "photo"
    assert [(o.name, o.fetch, o.kind) for o in spec.outputs] == [
        ("predictions", "predictions", "classification"),
        ("age", "age", "regression"),
        ("boxes", "boxes", "raw"),
        ("best", "best", "raw"),
        ("open", "open", "raw"),
    ]
    assert "the model says [?, ?]" in text
    assert "Add the shape anything is called with" in text


def test_sizes_at_which_the_model_runs(model: Path) -> None:
    feeds = PortInfo("ids", "int64", (None, None)), PortInfo("photo", "float32", (None, 3, None, None))
    facts = GraphFacts((), shapes={"ids": (1, 32), "photo": (1, 3, 48, 320)})
    spec, text = drafted(model, lambda *_: ModelPorts(feeds, (CLASSES,), facts=facts))
    assert spec.feeds == (FeedSpec("ids", (1, 32)),)
    assert spec.image == ImageSpec("photo", 320, 48, scale=(1 / 255,))
    assert "it runs at these sizes" in text


def test_dimensions_of_one_name_are_the_batch(model: Path) -> None:
    sound = PortInfo("sound", "float32", (None, 512), dimensions=("batch", ""))
    state = PortInfo("state", "float32", (2, None, 128), dimensions=("", "batch", ""))
    for order in ([sound, state], [state, sound]):
        spec, _ = drafted(model, ports(order, [CLASSES]))
        assert (spec.feeds, spec.batch) == ((), 1)
    made = ModelPorts((sound, state), (CLASSES,))
    assert made.fix_batch(state, 4).shape == (2, 4, 128)
    assert pin_shapes(made, replace(spec, source=Source("onnx", model), batch=4)) == {
        "sound": (4, 512),
        "state": (2, 4, 128),
    }
    assert state.describe_shape() == "[2, batch, 128]"


def test_one_number_may_get_a_value(model: Path) -> None:
    rate = PortInfo("rate", "int64", ())
    spec, text = drafted(model, ports([PortInfo("x", "float32", (None, 8)), rate], [CLASSES]))
    assert spec.feeds == (FeedSpec("rate"),)
    assert "Callers pass one number" in text
    spec, _ = drafted(model, ports([PortInfo("x", "float32", (None, 8)), replace(rate, value=16_000)], [CLASSES]))
    assert spec.feeds == (FeedSpec("rate", value=(16_000,)),)


def test_an_input_in_which_the_graph_looks_for_nan_takes_it(model: Path) -> None:
    found = ModelPorts(
        (PortInfo("age", "float32", (None, 3)), PortInfo("fare", "float32", (None, 3))),
        (CLASSES,),
        facts=GraphFacts((), missing=("age",)),
    )
    spec, text = drafted(model, lambda *_: found)
    assert spec.feeds == (FeedSpec("age", nan=True),)
    assert "nan = true" in text


def test_rows_that_the_data_decides_are_no_batch(model: Path) -> None:
    """Where the inputs have a fixed batch, an open first dimension of an output is none."""
    found = [PortInfo("scores", "float32", (None, 80)), PortInfo("best", "float32", (None,)), CLASSES]
    spec, _ = drafted(model, ports([PortInfo("x", "float32", (1, 4))], found))
    assert [output.kind for output in spec.outputs] == ["raw", "raw", "raw"]
    spec, _ = drafted(model, ports([PortInfo("x", "float32", (None, 4))], found))
    assert [output.kind for output in spec.outputs] == ["classification", "regression", "classification"]
    assert {output.kind for output in with_raw_outputs(spec).outputs} == {"raw"}


def test_a_frozen_graph_names_its_ports(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    path.touch()
    spec, text = drafted(path, ports([PortInfo("x", "float32", (8, 28, 28, 1))], [PortInfo("y", "float32", (8, 10))]))
    assert spec.feeds == (FeedSpec("x"),)
    assert spec.fetches == (FetchSpec("y"),)
    assert spec.batch == 8
    assert "keep those you want" in text


def test_a_saved_model_with_signatures(tmp_path: Path) -> None:
    folder = tmp_path / "saved_model"
    folder.mkdir()
    (folder / "saved_model.pb").touch()
    spec, text = drafted(folder, ports([PortInfo("x", "float32", (None, 2))], [CLASSES], "predict", "embed"))
    assert spec.source == Source("saved_model", folder, signature="predict")
    assert "# The model has predict, embed.\nsignature" in text


def test_a_h5_file_needs_trust(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    path.touch()
    describe = ports([PortInfo("x", "float32", (None, 2))], [CLASSES])
    with pytest.raises(ImportModelError, match="may run code when it is loaded"):
        draft_spec(path, describe)
    assert drafted(path, describe, trust=True)[0].source.trust


def test_an_architecture_is_drafted_with_the_weights_beside_it(tmp_path: Path) -> None:
    path, describe = tmp_path / "m.json", ports([PortInfo("x", "float32", (None, 2))], [CLASSES])
    path.write_text('{"class_name": "Sequential"}')
    with pytest.raises(ImportModelError, match="beside it there is no"):
        draft_spec(path, describe, trust=True)
    for name in ("a.h5", "b.weights.h5"):
        (tmp_path / name).touch()
    with pytest.raises(ImportModelError, match=r"a\.h5, b\.weights\.h5"):
        draft_spec(path, describe, trust=True)
    (tmp_path / "m.weights.h5").touch()
    spec, _ = drafted(path, describe, trust=True)
    assert spec.source == Source("h5", path, trust=True, weights=tmp_path / "m.weights.h5")


def test_trust_is_written_for_every_format(tmp_path: Path) -> None:
    """A .keras file may hold a Lambda layer, and a SavedModel an init op."""
    feeds = [PortInfo("x", "float32", (None, 2))]
    keras, saved = tmp_path / "m.keras", tmp_path / "saved"
    keras.touch()
    saved.mkdir()
    (saved / "saved_model.pb").touch()
    for path, describe in ((keras, ports(feeds, [CLASSES])), (saved, ports(feeds, [CLASSES], "predict", "embed"))):
        spec, text = drafted(path, describe, trust=True)
        assert spec.source.trust
        assert "\ntrust = true" in text
        assert not drafted(path, describe)[0].source.trust


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.md").touch()
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("none.keras", "no such file"),
        ("m.md", "not a known kind"),
        ("empty", "folder without saved_model.pb"),
        ("saved_model.pb", "name its folder"),
    ):
        with pytest.raises(ImportModelError, match=message):
            draft_spec(tmp_path / name, ports([], []))


shapes = st.none() | st.lists(st.none() | st.sampled_from([1, 2, 3, 64, 300]), max_size=5).map(tuple)
some_ports = st.lists(
    st.builds(
        PortInfo,
        st.from_regex(r"[A-Za-z0-9.][A-Za-z0-9_./-]{0,8}", fullmatch=True),
        st.sampled_from(["float32", "float64", "uint8", "int64", "string"]),
        shapes,
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda port: port.name,
)


@given(feeds=some_ports, fetches=some_ports, name=st.sampled_from(["m.keras", "m.h5", "m.pb", "saved"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_draft_loads(feeds: list[PortInfo], fetches: list[PortInfo], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "saved":
        path.mkdir(exist_ok=True)
        path /= "saved_model.pb"
    path.touch()
    drafted(tmp_path / name, ports(feeds, fetches), trust=True)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_tokenizer_beside_the_model_is_named(model: Path, name: str) -> None:
    ids, mask = (PortInfo(feed, "int32", (None, None)) for feed in ("input_ids", "attention_mask"))
    describe = ports([ids, mask], [PortInfo("vector", "float32", (None, 8))])
    assert drafted(model, describe)[0].text is None
    (model.parent / name).write_text("", encoding="utf-8")
    spec, text = drafted(model, describe)
    assert spec.text
    assert spec.text.file == model.parent / name
    assert f"Found beside the model: {name}." in text
    pixels = ports([PortInfo("input_ids", "int32", (None, 8, 8, 3))], [PortInfo("vector", "float32", (None, 8))])
    assert drafted(model, pixels)[0].text is None


@pytest.mark.parametrize(
    ("parameters", "kind"), [(22_000_000, "float32"), (109_000_000, "float16"), (278_000_000, "int8")]
)
def test_a_text_encoder_that_says_what_it_answers(tmp_path: Path, parameters: int, kind: str) -> None:
    folder = tmp_path / "encoder"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    feeds = tuple(
        PortInfo(name, "int64", (None, None), dimensions=("batch", "length"))
        for name in ("input_ids", "attention_mask")
    )
    facts = GraphFacts(
        (), answers={"logits": AnswerFacts("tokens", "softmax")}, lengths=(16, 64), parameters=parameters
    )
    fetch = PortInfo("logits", "float32", (None, None, 3), dimensions=("batch", "length", ""))
    ports = ModelPorts(feeds, (fetch,), facts=facts, labels=("O", "B-PER", "I-PER"))
    spec = draft_spec(folder, lambda source, path: ports).spec
    assert spec.source.format == "transformers"
    assert [feed.shapes for feed in spec.feeds] == [((1, 16), (1, 64))] * 2
    (output,) = spec.outputs
    assert (output.kind, output.labels, output.activation) == ("tokens", ("O", "B-PER", "I-PER"), "softmax")
    assert spec.weights.type == kind
    sizes = [batch * length for batch in spec.buckets for length in (16, 64)]
    assert len({*sizes}) == len(sizes)  # A library tells its programs apart by their bytes.
