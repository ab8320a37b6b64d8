"""The size check against Lambda's limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder.base.errors import SizeLimitError
from builder.cli.summaries import format_sizes
from builder.config import ModelSpec, Source
from builder.package.lambda_limits import (
    CONTAINER_IMAGE,
    LAMBDA_UNZIPPED,
    Component,
    SizeTable,
    make_size_table,
    require_sizes,
)

MB = 1_000_000
SPEC = ModelSpec(
    path=Path("model.toml"),
    name="emotion",
    version="1",
    source=Source("keras", Path("model.keras")),
    max_unzipped=LAMBDA_UNZIPPED,
    max_zipped=52_428_800,
)
MODEL = Component("model layer", 45 * MB, 41 * MB)
DEPENDENCIES = Component("dependencies layer", 33 * MB, 10 * MB)
FUNCTION = Component("function", 40_000, 12_000, layer=False)


def test_what_fits_passes_and_adds_up() -> None:
    table = make_size_table([MODEL, DEPENDENCIES, FUNCTION], SPEC)
    require_sizes(table)
    assert table.unzipped == 78_040_000
    assert table.zipped == 51_012_000
    assert table.largest_zip == 41 * MB
    assert table.layers == 2
    assert SizeTable.from_dict(table.to_dict()) == table


def test_the_limit_is_the_last_byte_that_fits() -> None:
    exact = replace(MODEL, unzipped=LAMBDA_UNZIPPED)
    require_sizes(make_size_table([exact], SPEC))
    with pytest.raises(SizeLimitError, match=r"1 over Lambda's limit of 262,144,000"):
        require_sizes(make_size_table([exact, Component("function", 1, 1, layer=False)], SPEC))


def test_no_spec_raises_lambdas_own_limit() -> None:
    generous = replace(SPEC, max_unzipped=10**12)
    with pytest.raises(SizeLimitError, match="container image"):
        require_sizes(make_size_table([replace(MODEL, unzipped=300 * MB)], generous))


def test_a_spec_may_ask_for_less() -> None:
    strict = replace(SPEC, max_unzipped=50 * MB)
    with pytest.raises(SizeLimitError, match=r"limit in model\.toml of 50,000,000") as caught:
        require_sizes(make_size_table([MODEL, DEPENDENCIES, FUNCTION], strict))
    assert "Raise unzipped under [limits]" in str(caught.value)


def test_a_zip_that_lambda_takes_through_s3_alone_stops_nothing() -> None:
    usual = replace(SPEC, max_zipped=ModelSpec.max_zipped)
    largest = replace(MODEL, unzipped=LAMBDA_UNZIPPED, zipped=LAMBDA_UNZIPPED)
    table = make_size_table([largest], usual)
    require_sizes(table)
    assert "over 50 MB: deploy it through S3" in format_sizes(table)
    with pytest.raises(SizeLimitError, match="1 over Lambda's limit"):
        require_sizes(make_size_table([replace(largest, unzipped=LAMBDA_UNZIPPED + 1)], usual))


def test_a_zip_over_the_limit_of_the_spec_names_the_way_through_s3() -> None:
    big = replace(MODEL, zipped=60 * MB)
    with pytest.raises(SizeLimitError) as caught:
        require_sizes(make_size_table([big, DEPENDENCIES], SPEC))
    assert "Zipped, model layer: 60,000,000" in str(caught.value)
    assert "set zipped = 60000000 or more" in str(caught.value)
    require_sizes(make_size_table([big, DEPENDENCIES], replace(SPEC, max_zipped=60 * MB)))


def test_zips_are_judged_one_by_one() -> None:
    require_sizes(make_size_table([replace(MODEL, zipped=50 * MB), replace(DEPENDENCIES, zipped=50 * MB)], SPEC))


def test_all_problems_come_at_once_with_every_component() -> None:
    layers = [Component(f"layer {i}", 50 * MB, 60 * MB) for i in range(6)]
    with pytest.raises(SizeLimitError) as caught:
        require_sizes(make_size_table([*layers, FUNCTION], SPEC))
    text = str(caught.value)
    assert "37,896,000 over" in text
    assert "Zipped, layer 5" in text
    assert "Layers: 6, and a function takes 5" in text
    assert "function " in text


def test_an_image_may_hold_what_no_layer_can() -> None:
    large = [replace(MODEL, unzipped=300 * MB, zipped=280 * MB), DEPENDENCIES]
    with pytest.raises(SizeLimitError, match="PACKAGE=image"):
        require_sizes(make_size_table(large, SPEC))
    image = replace(SPEC, packaging="image")
    require_sizes(make_size_table(large, image))
    with pytest.raises(SizeLimitError, match=r"over a container image's limit of 10,737,418,240"):
        require_sizes(make_size_table([replace(MODEL, unzipped=CONTAINER_IMAGE + 1)], image))
    with pytest.raises(SizeLimitError, match=r"limit in model\.toml of 50,000,000"):
        require_sizes(make_size_table(large, replace(image, max_unzipped=50 * MB)))
