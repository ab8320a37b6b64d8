"""Output pixels computed as one: when, and with which weights."""

from __future__ import annotations

import numpy as np
import pytest

from builder.compiler.lower.geometry import MAX_SUM, Geometry
from builder.compiler.lower.pixel_packing import choose_joined_pixels, join_pixels, join_weights


@pytest.mark.parametrize(
    ("geometry", "pixels"),
    [
        (Geometry(1, 16, (86, 264), 8, (5, 39)), 2),  # of 624 products of 16 lanes 320 are left
        (Geometry(1, 32, (86, 88), 1, (7, 3)), 8),
        (Geometry(1, 32, (86, 81), 1, (7, 3)), 9),  # 81 pixels are nine times nine, not eights
        (Geometry(1, 16, (28, 28), 8, (3, 3)), 1),  # a third more work where registers are narrow
        (Geometry(1, 16, (28, 28), 16, (5, 39)), 1),
        (Geometry(1, 16, (28, 28), 1), 1),  # every window is its own
        (Geometry(1, 16, (28, 29), 4, (3, 3)), 1),  # no number of pixels divides 29
        (Geometry(1, 16, (28, 28), 4, (3, 3), dilation=(1, 2)), 1),
        (Geometry(1, 16, (28, 28), 4, (3, 3), groups=2), 1),
        (Geometry(1, MAX_SUM // 39, (1, 8), 8, (1, 39)), 1),  # int32 does not hold more
        (Geometry(1, 1, (8, 8), 8, (26, 39)), 1),  # 1,040 taps
    ],
)
def test_how_many(geometry: Geometry, pixels: int) -> None:
    assert choose_joined_pixels(geometry) == pixels


def test_the_layer_that_computes_them() -> None:
    assert join_pixels(Geometry(2, 4, (5, 6), 3, (3, 4), (2, 3)), 2) == Geometry(2, 4, (5, 3), 6, (3, 7), (2, 6))


def test_weights_by_hand() -> None:
    """Three pixels that are two columns apart."""
    joined = join_weights(np.array([[[[1, 2]], [[3, 4]], [[5, 6]]]], np.float32), 3, 2)
    assert joined.shape == (1, 7, 1, 6)
    np.testing.assert_array_equal(
        joined[0, :, 0],
        [
            [1, 2, 0, 0, 0, 0],
            [3, 4, 0, 0, 0, 0],
            [5, 6, 1, 2, 0, 0],
            [0, 0, 3, 4, 0, 0],
            [0, 0, 5, 6, 1, 2],
            [0, 0, 0, 0, 3, 4],
            [0, 0, 0, 0, 5, 6],
        ],
    )
