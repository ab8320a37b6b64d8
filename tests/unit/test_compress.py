"""Rounding and packing of weights: against NumPy's float16 and ml_dtypes' bfloat16, and what is refused and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from builder.cli.summaries import format_weights
from builder.compiler.lower.compress import (
    LEAST_WEIGHTS,
    Compressor,
    WeightRules,
    compress_weights,
    digest_constant,
    encode_numbers,
    quantise_weights,
    round_to_bfloat16,
    round_to_float16,
)
from builder.compiler.lower.decisions import LayerWeights, LoweringReport, WeightSizes
from builder.compiler.lower.packing import pack_layer, pack_scale
from builder.config.schema import WeightType

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
usual = st.floats(-(2.0**120), 2.0**120, width=32)
kernels = arrays(np.float32, st.tuples(*[st.integers(1, 3)] * 2, *[st.integers(1, 20)] * 2), elements=usual)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return np.random.default_rng(0).normal(0, scale, shape).astype(np.float32)


@settings(max_examples=300, deadline=None)
@given(values=arrays(np.float32, 50, elements=finite))
def test_rounding_is_numpys_and_ml_dtypes(values: Any) -> None:
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(round_to_float16(values), values.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(round_to_bfloat16(values), values.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("bits", [0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7F8000, 0x00008000, 0x80000001])
def test_bfloat16_at_its_ties_and_ends(bits: int) -> None:
    value = np.array([bits], np.uint32).view(np.float32)
    assert round_to_bfloat16(value) == value.astype(ml_dtypes.bfloat16).astype(np.float32)


@settings(max_examples=200, deadline=None)
@given(weights=kernels)
def test_what_is_stored_is_read_back(weights: Any) -> None:
    """The bytes of every type are its own numbers, and stand for ``restored``."""
    small = np.clip(weights, -60000, 60000)
    for kind, dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16), ("int8", np.int8)):
        stored = quantise_weights(small, kind)  # type: ignore[arg-type]
        read = np.frombuffer(encode_numbers(stored.numbers, stored.type), dtype).astype(np.float32).reshape(small.shape)
        np.testing.assert_array_equal(read, stored.numbers)
        scale = 1 if stored.scale is None else stored.scale
        np.testing.assert_array_equal(read * scale, stored.restored)


@settings(max_examples=200, deadline=None)
@given(weights=kernels)
def test_int8_is_within_half_a_step_of_each_channel(weights: Any) -> None:
    stored = quantise_weights(weights, "int8")
    assert stored.scale is not None
    largest = np.abs(weights).max(axis=(0, 1, 2)).astype(np.float64)
    assert (np.abs(stored.numbers) <= 127).all()
    # float32 rounds the scale, the quotient and the product.
    allowed = largest / 254 * (1 + 1e-5) + 1e-37
    assert (np.abs(stored.restored.astype(np.float64) - weights) <= allowed).all()
    symmetric = quantise_weights(-weights, "int8")
    np.testing.assert_array_equal(symmetric.numbers, -stored.numbers)


def test_a_channel_of_zeros_stays_zero() -> None:
    weights = normal(3, 3, 4, 8)
    weights[..., 3] = 0
    stored = quantise_weights(weights, "int8")
    assert not stored.restored[..., 3].any()
    assert np.isfinite(stored.restored).all()


def test_packed_bytes_and_their_scales_lie_alike() -> None:
    """Channel by channel of two groups: what the kernel reads at a panel's place times the scale of that place."""
    weights = normal(1, 1, 5, 2 * 20)
    stored = quantise_weights(weights, "int8")
    assert stored.scale is not None
    panels = np.frombuffer(pack_layer(stored.numbers, "direct", groups=2, kind="int8"), np.int8).reshape(2, 2, 5, 16)
    scales = np.frombuffer(pack_scale(stored.scale, groups=2), np.float32).reshape(2, 2, 16)
    restored = panels * scales[:, :, None]
    for channel in range(40):
        group, inside = divmod(channel, 20)
        column = restored[group, inside // 16, :, inside % 16]
        np.testing.assert_array_equal(column, stored.restored[0, 0, :, channel])
    assert not scales[:, 1, 4:].any()


@pytest.mark.parametrize(("kind", "size"), [("float32", 4), ("float16", 2), ("bfloat16", 2), ("int8", 1)])
def test_the_sizes_of_a_packed_layer(kind: Any, size: int) -> None:
    weights = normal(3, 3, 16, 40)
    numbers = quantise_weights(weights, kind).numbers
    assert len(pack_layer(numbers, "direct", kind=kind)) == size * 9 * 16 * 48
    assert len(pack_layer(numbers, "winograd4", kind=kind)) == size * 9 * 16 * 48


def test_a_depthwise_layer_takes_floats_only() -> None:
    with pytest.raises(ValueError, match="int8"):
        pack_layer(normal(3, 3, 1, 20), "depthwise", groups=20, kind="int8")


@pytest.mark.parametrize(
    ("weights", "kind", "because"),
    [
        (normal(1, 1, 10, 10), "int8", f"fewer than {LEAST_WEIGHTS:,}"),
        (normal(1, 1, 64, 64) * np.float32(1e5), "float16", "beyond float16"),
        (np.full((1, 1, 64, 64), 3.4e38, np.float32), "bfloat16", "beyond bfloat16"),
        (normal(1, 1, 64, 64, scale=1e-6), "float16", "so small"),
        (np.full((1, 1, 64, 64), np.nan, np.float32), "int8", "finite"),
    ],
)
def test_what_is_refused_stays_as_it_is(weights: Any, kind: Any, because: str) -> None:
    stored = compress_weights(weights, kind)
    assert stored.type == "float32"
    assert because in stored.kept
    np.testing.assert_array_equal(stored.restored, weights)


def test_fewer_weights_are_int8_where_bytes_are_summed() -> None:
    """Not those of a first layer, which reads three channels, nor of another type."""
    cases: dict[tuple[bool, WeightType, int], WeightType] = {
        (True, "int8", 16): "int8",
        (True, "int8", 15): "float32",
        (True, "float16", 16): "float32",
        (False, "int8", 16): "float32",
    }
    for (summed, kind, channels), stored in cases.items():
        weights = normal(1, 1, channels, 40)
        found = Compressor(WeightRules(kind, summed=summed)).compress_layer("one", weights, weights, lambda x: x)
        assert found.type == stored
    few = normal(1, 1, 16, 31)
    assert (
        Compressor(WeightRules("int8", summed=True)).compress_layer("one", few, few, lambda x: x).kept
        == "fewer than 512 weights"
    )


def test_trained_weights_are_not_refused() -> None:
    for kind in ("float16", "bfloat16", "int8"):
        stored = compress_weights(normal(3, 3, 32, 32, scale=0.02), kind)  # type: ignore[arg-type]
        assert (stored.type, stored.kept) == (kind, "")


def test_the_last_rule_that_fits_decides() -> None:
    rules = WeightRules("int8", (("net/*", "float16"), ("*/logits/MatMul", "float32")))
    assert [rules.choose_type(n) for n in ("stem", "net/a/Conv2D", "net/logits/MatMul")] == [
        "int8",
        "float16",
        "float32",
    ]


def test_the_graph_is_given_what_the_library_has() -> None:
    """A folded scale is taken off again; a channel that it makes zero keeps the graph's own numbers."""
    compressor, constant = Compressor(WeightRules("int8")), normal(64, 32)
    scale = np.linspace(-2, 2, 32)
    scale[5] = 0
    folded = (constant * scale).astype(np.float32)[None, None]
    stored = compressor.compress_layer("dense", folded, constant, lambda c: c[None, None], scale)
    exchanged = compressor.restored[digest_constant(constant)]
    np.testing.assert_allclose(exchanged * scale, stored.restored[0, 0], rtol=1e-6)
    np.testing.assert_array_equal(exchanged[:, 5], constant[:, 5])
    assert np.abs(exchanged - constant).max() > 0


def test_weights_that_others_read_too_stay_as_they_are() -> None:
    compressor, constant = Compressor(WeightRules("float16")), normal(64, 32)
    place = lambda c: c[None, None]  # noqa: E731
    assert compressor.compress_layer("a", constant[None, None], constant, place, alone=False).type == "float32"
    assert not compressor.restored
    assert compressor.compress_layer("b", constant[None, None], constant, place).type == "float16"
    assert (
        compressor.compress_layer("c", constant[None, None], constant, place).type == "float16"
    )  # the same, as folded
    other = compressor.compress_layer("d", 3 * constant[None, None], constant, place, 3.0)
    assert (other.type, other.kept) == ("float32", "another layer has the same weights, scaled otherwise")
    assert compressor.names == ["a", "b", "c", "d"]


def test_what_was_saved_adds_up() -> None:
    layers = (
        LayerWeights("dot", "a/MatMul", "int8", 1000, 1064, 4000),
        LayerWeights("conv", "b/Conv2D", "float16", 500, 1000, 2000),
        LayerWeights("dot.1", "c/MatMul", "float32", 100, 400, 400, "fewer than 1,024 weights"),
    )
    sizes = WeightSizes.from_layers(1064 + 1000 + 400 + 36, layers)
    assert sizes.as_float32 == 4000 + 2000 + 400 + 36
    assert sizes.types == {"int8": 1064, "float16": 1000, "float32": 400}
    assert sizes.compressed_share == pytest.approx(6000 / 6436)
    lowering = LoweringReport("optimised", 3, (), weights=layers, weights_size=sizes.bytes)
    assert lowering.compressed
    line = format_weights(lowering)
    assert line == "weights: 2,500 bytes, 6,436 as float32; 93.2 % of them int8 and float16; 1 layer keeps float32"
    found = lowering.to_dict()["weights"]
    assert (found["bytes"], found["as_float32"], found["compressed_share"]) == (2500, 6436, 0.9323)
    assert [layer.get("kept") for layer in found["layers"]] == [None, None, "fewer than 1,024 weights"]


def test_a_lowering_is_read_back(tmp_path: Path) -> None:
    layers = (
        LayerWeights("dot", "a/MatMul", "int8", 1000, 1064, 4000),
        LayerWeights("d", "e", "float32", 1, 4, 4, "why"),
    )
    lowering = LoweringReport("optimised", 2, (), weights=layers, weights_size=1100)
    lowering.save(tmp_path / "lowering.json")
    assert LoweringReport.load(tmp_path / "lowering.json") == lowering
