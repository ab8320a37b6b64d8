"""The Python package's Predictor on small real libraries: rows of any number and form, threads, forks, bad pictures."""

from __future__ import annotations

import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.weight_store import merge_weights
from builder.release.bindings.binding_files import BindingSources
from builder.release.bindings.build_bindings import generate_binding
from handler.budget import RequestLimits
from handler.description import parse_description, split_runs
from handler.image import read_pixels
from tests.native.test_batches import BATCHES, SPEC, W, program
from tests.support import abi_library, needs
from tests.support.instrumented import link

DATA = Path(__file__).parents[1] / "data"


def package(folder: Path, library: Path) -> Path:
    """The folder with the Python package of ``library``, which has model.json and model.h beside it."""
    (folder / "NOTICE").write_text("Nobody's.\n")
    parts = BindingSources(library.with_name("model.json"), library.with_name("model.h"), library, folder / "NOTICE")
    generate_binding("python", parts, folder / "python")
    return folder / "python"


def imported(folder: Path, name: str) -> Any:
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(f"{name}.predictor")
    finally:
        sys.path.remove(str(folder))


def small(folder: Path, description: dict[str, Any]) -> Any:
    """The module of the package for one of ``abi_library``'s models, in a package of its own."""
    library = abi_library.build(folder / "library", description)
    library.with_name("model.json").write_text(json.dumps(description))
    return imported(package(folder, library), description["model"]["name"])


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Of a model for 1, 4 and 16 rows: y [rows, 4] is x, and w [rows, 4] is the same numbers in each row."""
    folder = tmp_path_factory.mktemp("several")
    first, *rest = merge_weights([program(batch) for batch in BATCHES])
    sources = emit_sources(first, SPEC, X86_64, folder, others=dict(zip(SPEC.variants[1:], rest, strict=True)))
    return imported(package(folder, link(sources, [], folder)), "several")


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return small(tmp_path_factory.mktemp("echo"), abi_library.echo_description())


@pytest.fixture(scope="module")
def brightness(tmp_path_factory: pytest.TempPathFactory) -> Any:
    description = abi_library.picture_description(batch=3, width=12, height=8, mode="rgb", fit="cover")
    return small(tmp_path_factory.mktemp("brightness"), description)


def rows_of(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)


class Recorded:
    """The places of every run, in the order of the calls."""

    def __init__(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.feeds: list[list[tuple[int, int]]] = []
        self.fetches: list[list[tuple[int, int]]] = []
        original = module.Model.run_at

        def run_at(model: Any, feeds: Any, fetches: Any) -> None:
            self.feeds.append(feeds)
            self.fetches.append(fetches)
            original(model, feeds, fetches)

        monkeypatch.setattr(module.Model, "run_at", run_at)


# Rows


@given(st.integers(0, 70))
@settings(max_examples=40)
def test_any_number_of_rows(several: Any, count: int) -> None:
    x = rows_of(count)
    found = several.Predictor()({"x": x})
    assert list(found) == ["y", "w"]
    np.testing.assert_array_equal(found["y"], x)
    np.testing.assert_array_equal(found["w"], np.tile(W[12:], (count, 1)))
    assert found["y"].dtype == np.float32


@pytest.mark.parametrize("count", [1, 3, 11, 21, 37])
def test_rows_run_in_the_batches_that_the_function_would_take(
    several: Any, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    recorded = Recorded(several, monkeypatch)
    several.Predictor()({"x": rows_of(count)})
    sizes = [feed[0][1] // 16 for feed in recorded.feeds]
    assert sizes == [min(b for b in BATCHES if b >= length) for length in split_runs(count, BATCHES)]


def test_nothing_is_copied_that_fills_a_batch(several: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, x = Recorded(several, monkeypatch), rows_of(21)
    found = several.Predictor()({"x": x})
    begins = np.array([0, 16, 20]) * 16
    assert [feed[0][0] - x.ctypes.data for feed in recorded.feeds] == begins.tolist()
    assert [fetch[0][0] - found["y"].ctypes.data for fetch in recorded.fetches] == begins.tolist()


def test_rows_may_be_flat_in_any_order_and_of_bytes(echo: Any) -> None:
    batch = {f"in_{dtype}": np.arange(10).reshape(5, 2).astype(dtype) for dtype in abi_library.DTYPES}
    found = echo.Predictor()(batch)
    for dtype in abi_library.DTYPES:
        assert found[f"out_{dtype}"].dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found[f"out_{dtype}"], batch[f"in_{dtype}"])
    turned = {name: np.asfortranarray(values)[::-1] for name, values in batch.items()}
    np.testing.assert_array_equal(echo.Predictor()(turned)["out_int64"], batch["in_int64"][::-1])
    cells = {name: np.array([row.tobytes() for row in values], object) for name, values in batch.items()}
    apart = {name: np.array([None, *values], object)[1:] for name, values in batch.items()}
    for given_ in (cells, apart):
        np.testing.assert_array_equal(echo.Predictor()(given_)["out_float64"], batch["in_float64"])


def changed(name: str, values: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda batch: {**batch, name: values}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda batch: {}, "no column in_bool; it has none"),
        (lambda batch: [1], "a batch is a dict of arrays, or of Arrow or pandas, not list"),
        (changed("in_int8", np.zeros((3, 2), np.uint8)), "column in_int8 has uint8, and the model takes int8"),
        (changed("in_float32", np.zeros((3, 2))), "column in_float32 has float64, and the model takes float32"),
        (changed("in_float32", np.zeros((3, 2), ">f4")), "has >f4, and the model takes float32"),
        (changed("in_int8", np.zeros((3, 3), np.int8)), r"in_int8 \[3\].*; the model takes \[2\]"),
        (changed("in_int8", np.zeros((2, 2), np.int8)), "different numbers of rows"),
        (changed("in_int8", np.int8(1)), "one number, and not one for each row"),
        (changed("in_int8", np.array([b"ab", b"c", b"de"], object)), "rows of several lengths"),
        (changed("in_int64", np.array([b"ab", b"cc", b"de"], object)), "rows of 2 bytes, which are no whole numbers"),
        (changed("in_int8", np.array([None, 1, "x"], object)), "neither arrays nor bytes"),
    ],
)
def test_what_does_not_fit_is_refused(echo: Any, change: Callable[[Any], Any], complaint: str) -> None:
    batch = {f"in_{dtype}": np.zeros((3, 2), dtype) for dtype in abi_library.DTYPES}
    with pytest.raises(echo.ModelError, match=complaint):
        echo.Predictor()(change(batch))


def test_models_that_do_not_take_any_number_of_rows(tmp_path: Path) -> None:
    for description in (abi_library.tensor_description(), abi_library.counter_description()):
        name = description["model"]["name"]
        module = small(tmp_path / name, description)
        with pytest.raises(module.ModelError, match="does not take any number of rows: call it with Model"):
            module.Predictor()({})


def test_a_size_is_chosen_by_the_rows(tmp_path: Path) -> None:
    module = small(tmp_path, abi_library.sized_description())
    for side in (8, 64, 512):
        x = np.random.default_rng(side).integers(0, 256, (2, side, side, 3), np.uint8)
        np.testing.assert_array_equal(module.Predictor()({"x": x})["y"], x)
    with pytest.raises(module.ModelError, match=r"x \[9, 9, 3\]; the model takes \[8, 8, 3\] or \[64, 64, 3\]"):
        module.Predictor()({"x": np.zeros((2, 9, 9, 3), np.uint8)})


# Arrow


def arrow_columns() -> Iterator[tuple[str, Callable[[Any, Any], Any]]]:
    yield "list", lambda pa, x: pa.array(x.tolist(), pa.list_(pa.float32()))
    yield "large list", lambda pa, x: pa.array(x.tolist(), pa.large_list(pa.float32()))
    yield "fixed size list", lambda pa, x: pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 4)
    yield "nested", lambda pa, x: pa.array(x.reshape(-1, 2, 2).tolist(), pa.list_(pa.list_(pa.float32())))
    yield "tensor", lambda pa, x: pa.FixedShapeTensorArray.from_numpy_ndarray(x)
    yield "binary", lambda pa, x: pa.array([row.tobytes() for row in x], pa.binary())
    yield "large binary", lambda pa, x: pa.array([row.tobytes() for row in x], pa.large_binary())
    yield "fixed size binary", lambda pa, x: pa.array([row.tobytes() for row in x], pa.binary(16))


@pytest.mark.parametrize("column", [pytest.param(make, id=name) for name, make in arrow_columns() if name != "nested"])
def test_arrow_is_taken_as_it_lies(
    several: Any, monkeypatch: pytest.MonkeyPatch, column: Callable[[Any, Any], Any]
) -> None:
    pa, x = needs.needs_module("pyarrow"), rows_of(30)
    recorded = Recorded(several, monkeypatch)
    whole = pa.record_batch({"x": column(pa, x), "key": pa.array(range(30))})
    part = whole.slice(5, 20)
    found = several.Predictor(keep=["key"])(part)
    assert isinstance(found, pa.RecordBatch)
    assert found.schema.names == ["key", "y", "w"]
    assert found["key"].to_pylist() == list(range(5, 25))
    assert found["y"].type == pa.list_(pa.float32())
    np.testing.assert_array_equal(np.array(found["y"].to_pylist(), np.float32), x[5:25])
    first = recorded.feeds[0][0][0]
    buffers = [buffer for buffer in whole["x"].buffers() if buffer]
    assert any(buffer.address <= first < buffer.address + buffer.size for buffer in buffers)


def test_a_table_of_several_chunks(several: Any) -> None:
    pa, x = needs.needs_module("pyarrow"), rows_of(9)
    pieces = [pa.table({"x": pa.array(part.tolist(), pa.list_(pa.float32()))}) for part in (x[:2], x[:0], x[2:])]
    found = several.Predictor()(pa.concat_tables(pieces))
    assert isinstance(found, pa.Table)
    np.testing.assert_array_equal(np.array(found["y"].to_pylist(), np.float32), x)
    assert several.Predictor()(pieces[0].slice(0, 0)).num_rows == 0


@pytest.mark.parametrize(
    ("column", "complaint"),
    [
        (lambda pa: pa.array([[1.0] * 4, None], pa.list_(pa.float32())), "rows without a value"),
        (lambda pa: pa.array([[1.0] * 4, [1.0, None, 1.0, 1.0]], pa.list_(pa.float32())), "rows without a value"),
        (lambda pa: pa.array([[1.0] * 4, [1.0] * 3], pa.list_(pa.float32())), "rows of several lengths"),
        (lambda pa: pa.array([[1.0] * 4] * 2), "column x has float64, and the model takes float32"),
        (
            lambda pa: pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3, 4), np.float32).swapaxes(1, 2)),
            "dimensions are not in their order",
        ),
        (lambda pa: pa.array(["one", "two"]), "column x has string, and the model takes float32"),
        (lambda pa: pa.array([b"12345678" * 2, b"1"]), "rows of several lengths"),
        (lambda pa: pa.array([[[1.0, 2.0]] * 2] * 2, pa.list_(pa.list_(pa.float32()))), r"x \[2, 2\]; the model takes"),
    ],
)
def test_what_arrow_gives_that_does_not_fit(several: Any, column: Callable[[Any], Any], complaint: str) -> None:
    pa = needs.needs_module("pyarrow")
    with pytest.raises(several.ModelError, match=complaint):
        several.Predictor()(pa.table({"x": column(pa)}))


def test_every_type_goes_through_arrow(echo: Any) -> None:
    pa = needs.needs_module("pyarrow")
    given_ = {f"in_{dtype}": np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype) for dtype in abi_library.DTYPES}
    table = pa.table({name: pa.array(list(values)) for name, values in given_.items()})
    found = echo.Predictor()(table)
    for dtype in abi_library.DTYPES:
        assert str(found.schema.field(f"out_{dtype}").type.value_type).startswith(
            {"float32": "float", "float64": "double"}.get(dtype, dtype)
        )
        np.testing.assert_array_equal(np.array(found[f"out_{dtype}"].to_pylist(), dtype), given_[f"in_{dtype}"])


# Pictures


def encoded(kind: str) -> bytes:
    file = io.BytesIO()
    Image.open(DATA / "coffee.jpg").save(file, kind)
    return file.getvalue()


def test_files_of_images_are_decoded_as_in_the_function(brightness: Any) -> None:
    files = [(DATA / name).read_bytes() for name in ("face.jpg", "cat_exif_rotated.jpg", "astronaut.jpg")]
    files += [encoded("PNG"), encoded("WEBP")]
    found = brightness.Predictor(pictures="file", labels=True)({"file": np.array(files, object)})
    image = parse_description(
        json.dumps(abi_library.picture_description(batch=3, width=12, height=8, mode="rgb", fit="cover"))
    ).image
    assert image is not None
    theirs = np.stack([np.frombuffer(read_pixels(data, "", image, RequestLimits()), np.uint8) for data in files])
    np.testing.assert_array_equal(found["pixels"].reshape(5, -1), theirs)
    np.testing.assert_allclose(found["level"][:, 0], theirs.mean(1), rtol=1e-6)
    assert found["tone_label"].tolist() == ["light" if row.mean() > 127.5 else "dark" for row in theirs]
    np.testing.assert_array_equal(found["tone_probability"], found["light"].max(1))


def test_files_that_are_no_images(brightness: Any) -> None:
    face = (DATA / "face.jpg").read_bytes()
    files = np.array([face, b"nonsense", face[: len(face) // 2], face, None], object)
    with pytest.raises(
        brightness.ModelError, match=r"row 1 of column file: the picture is not an image in an accepted format"
    ):
        brightness.Predictor(pictures="file")({"file": files})
    found = brightness.Predictor(pictures="file", errors="error", labels=True, keep=["key"])(
        {"file": files, "key": np.arange(5)}
    )
    assert found["error"].tolist() == ["", "not_an_image", "truncated_image", "", "not_an_image"]
    assert found["key"].tolist() == list(range(5))
    assert np.isnan(found["light"]).any(1).tolist() == [False, True, True, False, True]
    assert [bool(label) for label in found["tone_label"]] == [True, False, False, True, False]
    assert found["pixels"][1].max() == 0
    np.testing.assert_array_equal(found["pixels"][0], found["pixels"][3])
    bad = brightness.Predictor(pictures="file", errors="error")({"file": files[1:2]})
    assert bad["error"].tolist() == ["not_an_image"]


def test_images_that_are_asked_for_wrongly(brightness: Any, several: Any) -> None:
    with pytest.raises(several.ModelError, match="several takes no pictures"):
        several.Predictor(pictures="x")({"x": rows_of(1)})
    for column in (np.array(["a path"], object), np.array([b"bytes"])):
        with pytest.raises(brightness.ModelError, match="column file is"):
            brightness.Predictor(pictures="file")({"file": column})


def test_what_the_library_reports_is_raised(brightness: Any) -> None:
    with pytest.raises(brightness.ModelError, match="the kernel fell over"):
        brightness.Predictor()({"image": np.full((3, 8, 12, 3), abi_library.POISON, np.uint8)})


# Processes and threads


def test_a_process_opens_the_library_once(several: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    original = several.Model.__init__
    monkeypatch.setattr(several.Model, "__init__", lambda self, *args: (opened.append(args), original(self, *args))[1])
    monkeypatch.setattr(several, "_PROCESS", several._Process())
    predict = several.Predictor()
    assert not opened
    for each in (predict, pickle.loads(pickle.dumps(predict)), several.Predictor()):
        each({"x": rows_of(2)})
    assert len(opened) == 1
    several.Predictor(threads=2)({"x": rows_of(2)})
    assert len(opened) == 2


def test_an_unpickled_one_runs_in_another_process(several: Any, tmp_path: Path) -> None:
    predict = several.Predictor(keep=["key"])
    predict({"x": rows_of(1), "key": np.zeros(1)})
    batch = {"x": rows_of(7), "key": np.arange(7)}
    (tmp_path / "job").write_bytes(pickle.dumps((predict, batch)))
    code = (
        f"import pickle; p, b = pickle.load(open({str(tmp_path / 'job')!r}, 'rb')); print((p(b)['y'] == b['x']).all())"
    )
    folder = Path(several.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr


def test_a_fork_opens_the_library_anew(several: Any) -> None:
    """While a thread of the parent holds every lock that a call takes."""
    predict, x = several.Predictor(), rows_of(5)
    predict({"x": x})
    ((model, _),) = several._PROCESS._models.values()
    with several._PROCESS._lock, model._lock:
        child = os.fork()
        if not child:
            right = bool((predict({"x": x})["y"] == x).all()) and several._PROCESS._models
            del model
            os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(predict({"x": x})["y"], x)


def test_threads_may_share_one(several: Any) -> None:
    predict, right = several.Predictor(), []

    def call(seed: int) -> None:
        x = rows_of(seed)
        right.extend((predict({"x": x})["y"] == x).all() for _ in range(20))

    threads = [threading.Thread(target=call, args=(20 + number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 80


def test_each_answers_one_batch_after_the_other(several: Any) -> None:
    asked: list[int] = []

    def batches() -> Iterator[dict[str, Any]]:
        for number in (1, 2):
            asked.append(number)
            yield {"x": rows_of(number)}

    answers = several.Predictor().each(batches())
    assert not asked
    assert len(next(answers)["y"]) == 1
    assert asked == [1]
