"""tuning.json, and what a build and the tuner make of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from builder.base.errors import SpecError
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.packing import (
    choose_algorithm,
    choose_thin_block,
    compute_scratch_size,
    list_algorithms,
    resolve_algorithm,
)
from builder.config import ModelSpec, Source
from builder.measure.tune_layers import TuningResult, choose_fastest, format_tuning, to_dict
from builder.pipeline.read_tuning import AlgorithmChoice, Tuning, kernels_digest, read_tuning
from tests.support.results import printed

sides = st.tuples(st.integers(1, 40), st.integers(1, 40))
geometries = st.builds(
    Geometry,
    batch=st.integers(1, 12),
    in_channels=st.integers(1, 600),
    out_size=sides,
    out_channels=st.integers(1, 600),
    kernel_size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    stride=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    dilation=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    groups=st.integers(1, 12),
)
SHAPE = Geometry(1, 64, (14, 14), 64, (3, 3))
SMALL = Geometry(1, 64, (4, 4), 64, (3, 3))


@given(a=geometries, b=geometries, field=st.sampled_from(list(Geometry.__dataclass_fields__)))
def test_labels_tell_geometries_apart(a: Geometry, b: Geometry, field: str) -> None:
    near = replace(a, **{field: getattr(b, field)})
    assert (a.label == near.label) == (a == near)
    assert (a.label == b.label) == (a == b)


def test_labels_are_readable() -> None:
    assert SHAPE.label == "3x3 14x14x64-64"
    strided = Geometry(2, 6, (14, 7), 12, (5, 3), (2, 2), (1, 2), 3)
    assert strided.label == "5x3 14x7x6-12 /2 dilation 1x2 groups 3 batch 2"


def test_winograd_where_it_saves_more_than_its_transforms_take() -> None:
    assert choose_algorithm(replace(SHAPE, out_size=(7, 7))) == "winograd4"
    assert choose_algorithm(replace(SHAPE, out_size=(6, 6))) == "winograd2"  # which wastes none of its tiles there
    assert (
        choose_algorithm(replace(SMALL, batch=16)) == "winograd4"
    )  # the weights are transformed once for all pictures
    assert choose_algorithm(replace(SHAPE, out_size=(1, 200))) == "direct"
    assert choose_algorithm(replace(SHAPE, out_size=(7, 7)), allow_winograd=False) == "direct"


def test_few_output_channels_leave_their_lanes_to_pixels() -> None:
    thin = replace(SHAPE, out_channels=8)
    assert list_algorithms(thin) == ("thin", "direct")
    assert list_algorithms(thin, kind="int8") == ("direct",)
    assert choose_algorithm(replace(thin, out_channels=16, groups=2)) == "thin"
    assert "thin" not in list_algorithms(replace(thin, out_channels=9))
    assert choose_algorithm(replace(thin, out_size=(3, 4))) == "direct"
    assert choose_algorithm(replace(thin, in_channels=512)) == "direct"
    assert choose_algorithm(replace(thin, kernel_size=(1, 1))) == "direct"
    assert choose_algorithm(replace(thin, kernel_size=(1, 1), out_channels=4)) == "thin"


@given(shape=geometries)
def test_a_block_of_a_thin_layer_is_a_part_of_the_image(shape: Geometry) -> None:
    assume(shape.in_channels % shape.groups == shape.out_channels % shape.groups == 0)
    rows, columns = choose_thin_block(shape)
    assert 1 <= rows <= shape.out_size[0]
    assert 1 <= columns <= shape.out_size[1]
    assert compute_scratch_size(shape, "thin", threads=1) <= 256 << 10 or (rows == 1 and columns <= 128)


def test_what_is_tuned_is_taken_where_the_layer_can_have_it() -> None:
    assert choose_algorithm(SHAPE) == "winograd4"
    assert choose_algorithm(SMALL) == "direct"
    for algorithm in list_algorithms(SHAPE):
        assert resolve_algorithm(SHAPE, {SHAPE.label: algorithm}) == algorithm
    assert resolve_algorithm(SHAPE, {SMALL.label: "direct"}) == "winograd4"
    assert resolve_algorithm(SHAPE, {SHAPE.label: "winograd2"}, allow_winograd=False) == "direct"
    assert resolve_algorithm(SHAPE, {SHAPE.label: "depthwise"}) == "winograd4"
    assert resolve_algorithm(SHAPE, {SHAPE.label: "of a later version"}) == "winograd4"  # type: ignore[dict-item]


def test_another_algorithm_must_be_clearly_faster_on_all_instruction_sets_together() -> None:
    v3, v4 = "x86-64-v3", "x86-64-v4"
    assert choose_fastest("winograd4", {v3: {"direct": 98.0, "winograd4": 100.0}}) == "winograd4"
    assert choose_fastest("winograd4", {v3: {"direct": 96.0, "winograd4": 100.0}}) == "direct"
    both = {v3: {"direct": 50.0, "winograd4": 100.0}, v4: {"direct": 150.0, "winograd4": 100.0}}
    assert choose_fastest("winograd4", both) == "direct"
    both[v4]["direct"] = 250.0
    assert choose_fastest("winograd4", both) == "winograd4"


TUNING = Tuning(
    kernels_digest(),
    "x86_64",
    'a "CPU"',
    {
        SHAPE.label: AlgorithmChoice("winograd2", {"x86-64-v3": {"direct": 3.0, "winograd2": 1.5}}),
        SMALL.label: AlgorithmChoice("direct", {"x86-64-v3": {"direct": 3.0, "winograd2": 3.5}}),
    },
)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    assert read_tuning(path) is None
    for tuning in (TUNING, Tuning("00", "x86_64")):
        path.write_text(tuning.to_json())
        assert read_tuning(path) == tuning
    assert len([line for line in TUNING.to_json().splitlines() if "microseconds" in line]) == 2  # one a layer


@pytest.mark.parametrize("layers", [{}, TUNING.layers])
def test_the_result_as_json(layers: dict[str, AlgorithmChoice], tmp_path: Path) -> None:
    path, rule = tmp_path / "tuning.json", dict.fromkeys(layers, "direct")
    rest = {"x86-64-v3": 1.5} if layers else {}
    tuned = TuningResult(path, replace(TUNING, layers=layers), rule, rest, 15)
    found = printed("tune", json.dumps(to_dict(tuned)))
    assert found["file"] == (str(path) if layers else None)
    assert found["layers"].keys() == layers.keys()
    assert found["behind"].keys() == rest.keys()


def test_how_far_the_rule_is_behind_is_of_whole_runs() -> None:
    """Of the two layers' 4.5 µs as tuned and 1.5 of all other steps, the rule takes 1.5 more."""
    rule: dict[str, Algorithm] = {SHAPE.label: "direct", SMALL.label: "direct"}
    tuned = TuningResult(Path("tuning.json"), TUNING, rule, {"x86-64-v3": 1.5}, 15)
    assert tuned.behind == {"x86-64-v3": pytest.approx(0.25)}
    assert "is 25.0% (x86-64-v3) behind it" in format_tuning(tuned)


def test_what_is_stale_is_told_in_one_line() -> None:
    assert TUNING.explain_stale({SHAPE.label, SMALL.label, "1x1 1x1x8-8"}) == ""
    assert SMALL.label in TUNING.explain_stale({SHAPE.label})
    assert f"({min(SHAPE.label, SMALL.label)} and 1 more)" in TUNING.explain_stale(())
    assert TUNING.choose_algorithms("x86_64") == {SHAPE.label: "winograd2", SMALL.label: "direct"}
    assert TUNING.choose_algorithms("arm64") == {}
    old = replace(TUNING, kernels="0" * 16)
    assert old.choose_algorithms("x86_64") == {}
    assert "other kernels" in old.explain_stale({SHAPE.label, SMALL.label})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": 99}', '{"schema": 1, "kernels": "", "cpu": "", "layers": 3}']
)
def test_what_is_no_tuning_is_an_error_that_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "tuning.json").write_text(text)
    with pytest.raises(SpecError, match=r"tuning\.json is not a tuning file.*coldforge tune"):
        read_tuning(tmp_path / "tuning.json")


def test_it_stands_beside_its_spec() -> None:
    spec = ModelSpec(Path("/a/model.toml"), "m", "1", Source("keras", Path("/a/m.keras")))
    assert spec.tuning_path == Path("/a/tuning.json")
    assert replace(spec, path=Path("/a/b.toml")).tuning_path == Path("/a/b.tuning.json")
