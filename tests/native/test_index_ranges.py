"""Indices out of range, on a small library: they are refused by name, and nothing is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from builder.config.tensor import INTEGERS, TensorSpec, integer_limits
from builder.verify.library.loaded_library import BufferSlot, GuardedBuffer, LoadedLibrary
from builder.verify.probe import ModelUnderTest, check_refusal, make_bad_calls
from tests.support.index_model import DTYPES, MOST, PARTS, build, build_with_state, ranges_of

CF_OK, CF_ERR_RANGE = 0, 7
POISON = 0xA5


class Opened:
    """A library with one opened model."""

    def __init__(self, path: Path) -> None:
        self.library = LoadedLibrary(str(path))
        _, self.model, _ = self.library.open(2)

    def run(self, items: int, dtype: str = "int32", element: int = 0, index: float = 0, offset: int = 0) -> str:
        """The error of a run on zeros with one ``index``; empty where it is answered."""
        arrays = {one: np.zeros(3 * items, one) for one in DTYPES}
        arrays[dtype][element] = index
        feeds = [GuardedBuffer.from_data(array.view(np.uint8), offset) for array in arrays.values()]
        fetch = GuardedBuffer.from_data(np.full(12 * items, POISON, np.uint8), offset)
        slots = [BufferSlot(one, one.size) for one in feeds], [BufferSlot(fetch, fetch.size)]
        status, why = self.library.run(self.model, *slots, (len(feeds), 1))
        assert status in (CF_OK, CF_ERR_RANGE)
        assert (fetch.data.view(np.int32) == arrays["int32"]).all() if status == CF_OK else (fetch.data == POISON).all()
        assert bool(why) == (status == CF_ERR_RANGE)
        flat_status = self.library.run_flat(*slots)
        assert flat_status == status
        return why


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    one = Opened(build(tmp_path_factory.mktemp("ranges")))
    yield one
    one.library.close(one.model)


@pytest.mark.parametrize("items", [1, PARTS])
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_element_has_its_own_range(opened: Opened, dtype: str, items: int) -> None:
    low, high = integer_limits(dtype if dtype in INTEGERS else "int64")
    for element in range(3 * items):
        limits = {one.first: (one.minimum, one.maximum) for one in ranges_of(dtype)}.get(element % 3, (low, high))
        for index in {limits[0] - 1, *limits, limits[1] + 1, 0, low}:
            if low <= index <= high:
                why = opened.run(items, dtype, element, index, offset=1)
                assert bool(why) == (not limits[0] <= index <= limits[1]), (element, index)
                if why:
                    assert all(word in why for word in (dtype, f"element {element} ", str(index), str(limits[1])))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_index_of_floating_point_is_rounded_toward_zero(opened: Opened, dtype: str) -> None:
    for index in (MOST + 0.9, -10.9, -0.9):
        assert not opened.run(1, dtype, 0, index)
    for index in (MOST + 1.0, -11.0, math.nan, math.inf, -math.inf, 1e30, -1e30):
        assert opened.run(1, dtype, 0, index)


def test_the_largest_unsigned_number_is_not_minus_one(opened: Opened) -> None:
    assert opened.run(1, "uint64", 0, 2**64 - 1)


def test_state_stays_as_it_was(tmp_path: Path) -> None:
    path = build_with_state(tmp_path)
    library = LoadedLibrary(str(path))
    _, model, _ = library.open(1)

    def run(last: int) -> int:
        arrays = [np.array([3, 1, last], dtype) for dtype in DTYPES]
        buffers = [GuardedBuffer.from_data(array.view(np.uint8), 0) for array in (*arrays, np.zeros(3, np.int32))]
        slots = [BufferSlot(one, one.size) for one in buffers]
        return library.run(model, slots[:-1], slots[-1:], (len(arrays), 1))[0]

    assert [run(4), run(MOST)] == [CF_OK, CF_ERR_RANGE]
    assert library.get_state(model, 12) == bytes(memoryview(np.int32([3, 1, 4])))
    library.close(model)


def test_verification_finds_a_library_that_takes_any_index(opened: Opened) -> None:
    """The second element of an item has no range, and a verification that was told of one says that it is accepted."""
    described = json.loads(opened.library.get_description())
    specs = [TensorSpec.from_dict(row) for row in described["feeds"]]
    zeros = [np.zeros(spec.size, np.uint8) for spec in specs]

    def found(*more: tuple[int, int]) -> list[str]:
        feeds = [spec.to_dict() | {"beyond": [*spec.indices_beyond(), *more]} for spec in specs]
        model = ModelUnderTest(opened.library, opened.model, feeds, described["fetches"])
        return [wrong for call in make_bad_calls(model) if (wrong := check_refusal(model, zeros, call))]

    assert found() == []
    assert found((1, 100)) == ["is accepted"] * len(DTYPES)
