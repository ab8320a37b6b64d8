"""Weights in a file of their own: the file, the library that maps it, and the function that finds it."""

from __future__ import annotations

import ctypes
import hashlib
import io
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.errors import VerifyError
from builder.base.targets import X86_64
from builder.compiler.audit import audit_file, require_portable
from builder.compiler.emit.print_program import make_layout
from builder.compiler.emit.write_weights import (
    CHUNK,
    HEADER,
    PAGE,
    compute_weights_size,
    write_weights,
    write_weights_file,
)
from builder.compiler.lower.program import Program, Weight
from builder.compiler.weights_file import FILE, Layout
from builder.verify.library.loaded_library import OpenedModel
from handler import weights as outside
from handler.errors import StartupError
from handler.model import Model
from tests.fuzz import weights_file
from tests.fuzz.targets import CORPUS
from tests.support.instrumented import OBJECTS
from tests.support.outside import ITEMS, build, program, values

CF_OK, CF_ERR_ARGUMENT, CF_ERR_WEIGHTS = 0, 3, 5


class Port(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With weights of seed 0 beside it."""
    return build(tmp_path_factory.mktemp("outside"))[0].path


@pytest.fixture(scope="module")
def layout(library: Path) -> Layout:
    return make_layout(program(), [library.parent / "sources" / "none.o"])


@pytest.fixture(scope="module")
def others(library: Path, layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of seed 1 for the same library."""
    path = tmp_path_factory.mktemp("others") / "new.weights"
    write_weights_file(program(1), layout, path)
    return path


def load(library: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library))
    loaded.cf_last_error.restype = ctypes.c_char_p
    return loaded


def answers(loaded: ctypes.CDLL, model: ctypes.c_void_p) -> tuple[np.ndarray, np.ndarray]:
    x, found = np.zeros(1, np.float32), (np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32))
    feeds = (Port * 1)(Port(x.ctypes.data, x.nbytes))
    fetches = (Port * 2)(*[Port(a.ctypes.data, a.nbytes) for a in found])
    assert loaded.cf_run(model, feeds, ctypes.c_size_t(1), fetches, ctypes.c_size_t(2)) == CF_OK
    return found


def refused(loaded: ctypes.CDLL, path: Path | str) -> tuple[int, str]:
    model = ctypes.c_void_p(1)
    status = loaded.cf_open_file(1, os.fsencode(path), ctypes.byref(model))
    assert model.value is None
    return status, loaded.cf_last_error(None).decode()


def test_the_file_beside_the_library_is_taken(library: Path) -> None:
    loaded, model = load(library), ctypes.c_void_p()
    assert loaded.cf_open(1, ctypes.byref(model)) == CF_OK
    for found in answers(loaded, model):
        np.testing.assert_array_equal(found, values(0))
    loaded.cf_close(model)


def test_two_models_of_one_library_have_weights_of_their_own(library: Path, others: Path) -> None:
    loaded, old, new = load(library), ctypes.c_void_p(), ctypes.c_void_p()
    assert loaded.cf_open(1, ctypes.byref(old)) == CF_OK
    assert loaded.cf_open_file(1, os.fsencode(others), ctypes.byref(new)) == CF_OK
    np.testing.assert_array_equal(answers(loaded, new)[0], values(1))
    np.testing.assert_array_equal(answers(loaded, old)[0], values(0))
    loaded.cf_close(old)
    np.testing.assert_array_equal(answers(loaded, new)[1], values(1))
    loaded.cf_close(new)


def test_weights_may_be_handed_over_in_memory(library: Path, others: Path) -> None:
    data = others.read_bytes()
    memory = (ctypes.c_uint8 * (len(data) + 128))()
    start = -ctypes.addressof(memory) % 64
    ctypes.memmove(ctypes.addressof(memory) + start, data, len(data))
    loaded, model = load(library), ctypes.c_void_p()
    place, size = ctypes.c_void_p(ctypes.addressof(memory) + start), ctypes.c_size_t(len(data))
    assert loaded.cf_open_memory(1, place, size, ctypes.byref(model)) == CF_OK
    np.testing.assert_array_equal(answers(loaded, model)[0], values(1))
    loaded.cf_close(model)
    for wrong in (place.value + 4, place.value + 32, None):
        model.value = 1
        assert loaded.cf_open_memory(1, ctypes.c_void_p(wrong), size, ctypes.byref(model)) == CF_ERR_ARGUMENT
        assert (model.value, b"aligned to 64 bytes" in loaded.cf_last_error(None)) == (None, True)
    assert loaded.cf_open_memory(1, place, ctypes.c_size_t(len(data) - 1), ctypes.byref(model)) == CF_ERR_WEIGHTS


def test_a_pointer_that_is_null_is_refused(library: Path, others: Path) -> None:
    loaded, model = load(library), ctypes.c_void_p(1)
    memory = ctypes.create_string_buffer(64)
    assert loaded.cf_open_memory(1, memory, ctypes.c_size_t(64), None) == CF_ERR_ARGUMENT
    assert loaded.cf_last_error(None) == b"cf_open_memory: model is NULL"
    for path, to in ((None, ctypes.byref(model)), (os.fsencode(others), None), (None, None)):
        assert loaded.cf_open_file(1, path, to) == CF_ERR_ARGUMENT
        assert loaded.cf_last_error(None) == b"cf_open_file: a pointer is NULL"


def test_the_file_is_found_beside_a_library_whose_path_is_as_long_as_may_be(library: Path, tmp_path: Path) -> None:
    """4095 bytes for both, of which the weights' name has two more than the library's."""
    for length, status in ((4095, CF_OK), (4096, CF_ERR_WEIGHTS)):
        folder = tmp_path / str(length)
        whole = length - len("/model.weights")
        while len(str(folder)) < whole - 200:
            folder /= "d" * min(200, whole - len(str(folder)) - 3)
        folder /= "d" * (whole - len(str(folder)) - 1)
        assert len(f"{folder}/model.weights") == length
        folder.mkdir(parents=True)
        copy = Path(shutil.copy(library, folder / library.name))
        name, here = os.open(folder, os.O_RDONLY), library.with_name(FILE)
        os.link(here, FILE, dst_dir_fd=name)
        os.close(name)
        loaded, model = load(copy), ctypes.c_void_p()
        assert loaded.cf_open(1, ctypes.byref(model)) == status
        assert loaded.cf_last_error(None) == (b"" if status == CF_OK else b"the weights file is not there")
        loaded.cf_close(model)


def test_a_wrong_file_is_refused_by_name(library: Path, others: Path, layout: Layout, tmp_path: Path) -> None:
    loaded, wrong = load(library), tmp_path / "wrong"
    assert refused(loaded, wrong) == (CF_ERR_WEIGHTS, "the weights file is not there")
    good = others.read_bytes()
    start = HEADER.unpack_from(good)[2]
    for content, why in (
        (b"", "cannot be mapped"),
        (b"x", "no weights file"),
        (b"X" + good[1:], "no weights file"),
        (good[:8] + b"\2" + good[9:], "another version"),
        (good[:-1], "incomplete"),
        (good[:start], "incomplete"),
        (good[:12] + b"\xff\xff\xff\xff" + good[16:], "incomplete"),
        *((good[:12] + (start - less).to_bytes(4, "little") + good[16:], "incomplete") for less in (1, 4, 32)),
        (good[:40] + bytes([good[40] ^ 1]) + good[41:], "another model's"),
    ):
        wrong.write_bytes(content)
        status, reason = refused(loaded, wrong)
        assert (status, why in reason) == (CF_ERR_WEIGHTS, True), (reason, why)
    assert refused(loaded, tmp_path)[0] == CF_ERR_WEIGHTS  # a folder
    write_weights_file(program(1), replace(layout, program="another"), wrong)
    assert "another model's" in refused(loaded, wrong)[1]


@pytest.mark.skipif(OBJECTS in os.environ, reason="of the builder's own compiler")
def test_the_library_is_audited_and_has_no_weights_in_it(library: Path) -> None:
    require_portable(audit_file(library, X86_64))
    assert values(0).tobytes() not in library.read_bytes()


def test_what_the_weights_are_does_not_change_the_layout(layout: Layout, library: Path) -> None:
    kernels = [library.parent / "sources" / "none.o"]
    assert make_layout(program(7), kernels) == layout
    assert make_layout(program(0, ITEMS + 16), kernels) != layout
    assert Layout.from_dict(layout.to_dict()) == layout
    changed = Layout(layout.size, layout.program, "other kernels")
    assert changed.digest != layout.digest


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=4), st.integers(0, 3))
def test_the_file_holds_the_weights_and_their_hashes(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], gap: int
) -> None:
    found, end = [], 0
    for data in pieces:
        found.append(Weight(end, data))
        end += (len(data) + 63) // 64 * 64 + 64 * gap
    compiled = Program((), (), (), tuple(found), 0, end)
    path = tmp_path_factory.mktemp("file") / FILE
    layout = Layout(compute_weights_size(compiled), "p", "k")
    write_weights_file(compiled, layout, path)
    data = path.read_bytes()
    start, size, piece, hashes = outside._parse_header(data[: outside.FIRST], "there", layout.digest)
    assert (start % PAGE, size, piece) == (0, layout.size, CHUNK)
    plain = io.BytesIO()
    write_weights(compiled, plain)
    assert data[start:] == plain.getvalue().ljust(layout.size, b"\0")  # BytesIO grows by no truncate
    assert hashes == [hashlib.sha256(data[start:]).digest()]


# In the function.


def model(library: Path) -> np.ndarray:
    opened = Model(str(library))
    found = np.frombuffer(opened.run([bytes(4)])[0], np.float32)
    opened.close()
    return found


def test_the_function_finds_the_file(library: Path, others: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(model(library), values(0))
    monkeypatch.setenv("COLDFORGE_WEIGHTS", str(others))
    np.testing.assert_array_equal(model(library), values(1))
    others.with_name("outside.weights").write_bytes(others.read_bytes())
    monkeypatch.setenv("COLDFORGE_WEIGHTS", str(others.parent))
    np.testing.assert_array_equal(model(library), values(1))


def test_the_function_says_where_it_looked(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_WEIGHTS", str(tmp_path))
    with pytest.raises(StartupError, match=r"not there.*outside\.weights"):
        Model(str(library))


@pytest.mark.parametrize("path", sorted((CORPUS / "weights").iterdir()), ids=lambda path: path.name)
def test_what_is_kept_of_the_fuzzers(path: Path) -> None:
    weights_file.look(path.read_bytes())


def test_what_measures_a_library_opens_it_with_the_file_that_it_is_given(library: Path, others: Path) -> None:
    for weights, seed in ((None, 0), (others, 1)):
        with OpenedModel(library, 1, weights) as model:
            call = model.bind_call([np.zeros((1, 1), np.float32)], [4 * ITEMS, 4 * ITEMS])
            call()
            assert call.fetches[0].view(np.float32).tolist() == values(seed).tolist()
    with pytest.raises(VerifyError, match="cannot be opened on this machine"):
        OpenedModel(library, 1, library)
