"""A user's own inputs: what is read, how it becomes runs, and what is refused, however it was written."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.base.errors import UsageError
from builder.config import AudioSpec, ImageSpec, ModelSpec, OutputSpec, Source, TextSpec
from builder.config.tensor import TensorSpec
from builder.importers.samples import user_samples
from builder.importers.samples.golden_inputs import make_random_values
from builder.importers.samples.user_samples import Inputs, read_arrays, read_samples
from tests.conftest import ROOT
from tests.support import sounds, vocabulary
from tests.support.hand_model import model_spec

CLASSES = OutputSpec("kind", "y", "classification", labels=("a", "b", "c"))


def spec(batch: int = 1, **options: Any) -> ModelSpec:
    return replace(model_spec((CLASSES,)), batch=batch, **options)


def read(folder: Path, arrays: dict[str, Any], of: ModelSpec, *feeds: TensorSpec, most: int | None = None) -> Inputs:
    np.savez(folder / "some.npz", **arrays)
    return read_samples(folder / "some.npz", of, feeds, most)


def test_items_of_several_inputs_become_runs(tmp_path: Path) -> None:
    x, n = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(3, dtype=np.int32)
    found = read(
        tmp_path, {"x": x, "n": n, "labels": [0, 2, 1]}, spec(),
        TensorSpec("x", "float32", (1, 4)), TensorSpec("n", "int32", (1,)),
    )  # fmt: skip
    assert (found.source, found.items, found.output) == ("3 inputs of some.npz", 3, "kind")
    assert found.labels is not None
    assert found.labels.tolist() == [0, 2, 1]
    assert [run["x"].shape for run in found.runs] == [(1, 4)] * 3
    np.testing.assert_array_equal(np.concatenate([run["n"] for run in found.runs]), n)


def test_the_last_batch_is_filled_up(tmp_path: Path) -> None:
    found = read(tmp_path, {"x": np.arange(5, dtype=np.float32)}, spec(4), TensorSpec("x", "float32", (4,)))
    assert [run["x"].tolist() for run in found.runs] == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert found.items == 5


def test_whole_inputs_are_runs_as_they_are(tmp_path: Path) -> None:
    feeds = TensorSpec("a", "float32", (3, 2)), TensorSpec("s", "float64", ())
    found = read(tmp_path, {"a": np.ones((2, 3, 2), np.float32), "s": np.array([1.0, 2.0])}, spec(), *feeds)
    assert [(run["a"].shape, float(run["s"])) for run in found.runs] == [((3, 2), 1.0), ((3, 2), 2.0)]
    assert found.items == 2


def test_some_of_many_are_taken_evenly(tmp_path: Path) -> None:
    feed = TensorSpec("x", "float32", (1,))
    found = read(tmp_path, {"x": np.arange(101, dtype=np.float32)}, spec(), feed, most=5)
    assert [float(run["x"][0]) for run in found.runs] == [0, 25, 50, 75, 100]
    assert len(read(tmp_path, {"x": np.arange(3, dtype=np.float32)}, spec(), feed, most=5).runs) == 3


@pytest.mark.parametrize(
    ("array", "dtype", "fits"),
    [
        (np.array([0.5], "float64"), "float32", True),
        (np.array([7], "int64"), "int32", True),
        (np.array([7], "uint8"), "float32", True),
        (np.array([300], "int64"), "uint8", False),
        (np.array([-1], "int64"), "uint64", False),
        (np.array([2**63], "uint64"), "int64", False),
        (np.array([1.0], "float32"), "int32", False),
        (np.array([1], "int32"), "bool", False),
        (np.array([True]), "int32", False),
        (np.array([True]), "bool", True),
    ],
)
def test_numbers_of_another_type(tmp_path: Path, array: np.ndarray, dtype: str, fits: bool) -> None:
    feed = TensorSpec("x", dtype, (1,))
    if fits:
        assert read(tmp_path, {"x": array}, spec(), feed).runs[0]["x"].dtype == dtype
        return
    with pytest.raises(UsageError, match=rf"x is {array.dtype}\[1\]; the model takes x: {dtype}\[1\], any number"):
        read(tmp_path, {"x": array}, spec(), feed)


X, N = TensorSpec("x", "float32", (2, 4)), TensorSpec("n", "int64", (2,))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "x, n is missing; the model takes x: float32"),
        ({"x": np.ones((1, 4)), "n": [1], "z": [1]}, "z is no input; the model takes x: float32"),
        ({"x": np.ones((2, 5)), "n": [1, 2]}, r"x is float32\[2, 5\]"),
        ({"x": np.ones((0, 4)), "n": np.ones(0, int)}, r"x is float64\[0, 4\]"),
        ({"x": 1.0, "n": 1}, r"x is float64\[\]"),
        ({"x": np.ones((6, 4)), "n": [1, 2]}, "not equally many .x: 6, n: 2"),
        ({"x": np.ones((6, 4)), "n": [1, 2, 3, 4, 5]}, "not equally many"),
        ({"x": np.ones((2, 4)), "n": [1, 2], "labels": [1, 2, 3]}, r"labels is int64\[3\]; it must have an integer"),
        ({"x": np.ones((2, 4)), "n": [1, 2], "labels": [0.5, 1.0]}, r"labels is float64\[2\]"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path, arrays, spec(2), X, N)


IMAGE = ImageSpec(None, width=4, height=3)
PICTURE = TensorSpec("x", "uint8", (1, 3, 4, 3))


def test_images_have_a_name_of_their_own_and_other_inputs_are_random(tmp_path: Path) -> None:
    images, other = np.arange(72, dtype=np.uint8).reshape(2, 3, 4, 3), TensorSpec("k", "float32", (1, 2))
    found = read(tmp_path, {"images": images}, spec(image=IMAGE), PICTURE, other)
    assert found.source == "2 images of some.npz"
    np.testing.assert_array_equal(found.runs[1]["x"], images[1:])
    np.testing.assert_array_equal(found.runs[1]["k"], make_random_values(other, 0))
    with pytest.raises(UsageError, match="images is no input"):
        read(tmp_path, {"images": images}, spec(), PICTURE)
    with pytest.raises(UsageError, match="x is uint8"):
        read(tmp_path, {"images": np.uint8(3)}, spec(image=IMAGE), PICTURE)


def test_folders_of_images(tmp_path: Path) -> None:
    data = (ROOT / "tests" / "data" / "face.jpg").read_bytes()
    for name in ("b/1.jpg", "b/2.jpg", "a/1.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = read_samples(tmp_path, spec(image=IMAGE), [PICTURE])
    assert found.labels is not None
    assert (found.items, found.labels.tolist(), found.output) == (3, [0, 1, 1], "kind")
    assert len(read_samples(tmp_path, spec(image=IMAGE), [PICTURE], most=2).runs) == 2
    with pytest.raises(UsageError, match="takes no images, sound or text"):
        read_samples(tmp_path, spec(), [PICTURE])


def npy(shape: str, dtype: str = "'<f4'", data: bytes = b"") -> bytes:
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    "member",
    [
        npy("(1000000000000,)"),
        npy("(2305843009213693952, 8)", data=b"1234"),
        npy("(-1,)", data=b"1234"),
        npy("(1,)", "'|O'", b"\x80\x04K\x01."),
        npy("(1,)", "'<U1'", b"abcd"),
        npy("(1,)", "[('a', '<f4')]", b"abcd"),
        npy("(4,)", data=b"1234"),
        npy("[]" * 3000),
        npy("__import__('os')"),
        npy("(True,)"),
        npy("(4"),
        npy("(4, '"),
        b"\x93NUMPY\x09\x00aaaa",
        b"not an array",
        b"",
    ],
)
def test_a_hostile_file_of_arrays(tmp_path: Path, member: bytes) -> None:
    path = tmp_path / "hostile.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", member)
    with pytest.raises(UsageError, match=r"hostile\.npz cannot be read as an \.npz file of arrays: "):
        read_arrays(path)


def test_no_more_than_a_bound_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.npz"
    np.savez_compressed(path, x=np.zeros(100_000, np.float32))
    monkeypatch.setattr(user_samples, "LARGEST", 100_000)
    with pytest.raises(UsageError, match="has 400,128 bytes of arrays"):
        read_arrays(path)
    monkeypatch.setattr(user_samples, "MOST", 0)
    with pytest.raises(UsageError, match="has 1 arrays"):
        read_arrays(path)


def test_no_file_and_no_archive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_arrays(tmp_path / "none.npz")
    (tmp_path / "pickle.npz").write_bytes(b"\x80\x04cos\nsystem\n.")
    with pytest.raises(UsageError, match="cannot be read"):
        read_arrays(tmp_path / "pickle.npz")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=6))
def test_any_damage_is_refused_or_read(tmp_path: Path, places: list[tuple[int, int]]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.arange(4, dtype=np.float32))
    data = bytearray(buffer.getvalue())
    for place, value in places:
        data[place % len(data)] = value
    (tmp_path / "damaged.npz").write_bytes(data)
    try:
        found = read_arrays(tmp_path / "damaged.npz")
    except UsageError:
        return
    assert all(array.dtype.kind in "biuf" for array in found.values())


SOUND = TensorSpec("sound", "float32", (2, 8))
EAR = AudioSpec("sound", 8_000, 8, 4)


def test_a_folder_of_recordings_is_windows_of_the_folders_labels(tmp_path: Path) -> None:
    values = {"a": np.linspace(-1, 1, 18), "c": np.linspace(0.5, 0, 5)}
    for label, recorded in values.items():
        (tmp_path / label).mkdir()
        (tmp_path / label / "it.wav").write_bytes(sounds.wav("f64", recorded[:, None], 8_000))
    found = read_samples(tmp_path, spec(2, audio=EAR), [SOUND])
    assert (found.items, found.output, len(found.runs)) == (5, "kind", 3)
    assert found.labels is not None
    assert found.labels.tolist() == [0, 0, 0, 0, 2]
    windows = np.concatenate([run["sound"] for run in found.runs])[:5]
    padded = [np.pad(values["a"], (0, 8))[at : at + 8] for at in (0, 4, 8, 12)] + [np.pad(values["c"], (0, 3))]
    np.testing.assert_array_equal(windows, np.array(padded, np.float32))


@pytest.mark.parametrize("kind", sounds.KINDS)
def test_every_kind_of_wav_is_decoded(tmp_path: Path, kind: str) -> None:
    values = np.random.default_rng(0).uniform(-0.9, 0.9, (8, 3))
    (tmp_path / "it.wav").write_bytes(sounds.wav(kind, values, 8_000))
    (run,) = read_samples(tmp_path, spec(1, audio=EAR), [TensorSpec("sound", "float32", (1, 8))]).runs
    rounding = 0.0 if kind.startswith("f") else 2.0 ** -sounds.KINDS[kind][1]
    assert np.abs(run["sound"] - values.mean(axis=1)).max() <= rounding + 2.0**-24


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"text", "is not a recording"),
        (sounds.wav("s16", np.zeros((9, 1)), 44_100), "9 samples at 44,100 Hz; .* at the model's own rate, 8,000 Hz"),
        (sounds.flac("mono16.flac")[0], "is a FLAC file of 1,200 samples"),
    ],
)
def test_recordings_that_do_not_fit(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "it.wav").write_bytes(data)
    with pytest.raises(UsageError, match=says):
        read_samples(tmp_path, spec(1, audio=EAR), [SOUND])


class TestTexts:
    """Texts of the user's own become the ids that the function makes of them."""

    @staticmethod
    def spec(folder: Path, *outputs: OutputSpec) -> tuple[ModelSpec, list[TensorSpec]]:
        text = TextSpec(None, vocabulary.write(folder))
        source = Source("keras", folder / "model.keras")
        spec = ModelSpec(folder / "model.toml", "m", "1", source, batch=2, text=text, outputs=outputs)
        return spec, [TensorSpec(name, "int32", (2, 6)) for name in ("input_ids", "attention_mask")]

    def test_lines_of_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "texts.txt"
        path.write_text("good film\n\nbad\nvery very very very very\n", encoding="utf-8")
        found = read_samples(path, *self.spec(tmp_path))
        assert (found.items, len(found.runs)) == (3, 2)
        first, last = found.runs
        assert first["input_ids"].tolist() == [
            [*vocabulary.ids("good", "film"), 0, 0],
            [*vocabulary.ids("bad"), 0, 0, 0],
        ]
        assert first["attention_mask"].tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0]]
        assert last["input_ids"][0].tolist() == vocabulary.ids(*["very"] * 4)

    def test_pairs_have_a_tab_between_them(self, tmp_path: Path) -> None:
        path = tmp_path / "pairs.txt"
        path.write_text("good\tbad\nvery very very\tfilm\n", encoding="utf-8")
        spec, feeds = self.spec(tmp_path)
        spec = replace(spec, text=replace(spec.text or TextSpec(), pairs=True, types="attention_mask", mask=""))
        (run,) = read_samples(path, spec, feeds).runs
        ids = vocabulary.ids
        assert run["input_ids"].tolist() == [
            [*ids("good"), *ids("bad")[1:], 0],
            [*ids("very", "very"), *ids("film")[1:]],
        ]
        assert run["attention_mask"].tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]]
        path.write_text("good film\n", encoding="utf-8")
        with pytest.raises(UsageError, match="'good film' is no pair: write a tab between its two texts"):
            read_samples(path, spec, feeds)

    def test_a_folder_for_each_label(self, tmp_path: Path) -> None:
        for label, text in (("no", "bad"), ("yes", "good film")):
            (tmp_path / "texts" / label).mkdir(parents=True)
            (tmp_path / "texts" / label / "1.txt").write_text(text, encoding="utf-8")
        output = OutputSpec("liked", None, "classification", ("no", "yes"))
        found = read_samples(tmp_path / "texts", *self.spec(tmp_path, output))
        assert found.labels is not None
        assert found.labels.tolist() == [0, 1]
        assert found.runs[0]["input_ids"][1].tolist() == [*vocabulary.ids("good", "film"), 0, 0]

    def test_what_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"\xff")
        (tmp_path / "b.txt").write_text(" \n")
        for name, why in (("a.txt", "is not UTF-8 text"), ("b.txt", "has no text"), ("c.txt", "cannot be read")):
            with pytest.raises(UsageError, match=why):
                read_samples(tmp_path / name, *self.spec(tmp_path))
