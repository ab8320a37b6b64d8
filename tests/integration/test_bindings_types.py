"""Packages of small known models in every language: all dtypes, several feeds, batches, and failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.project import cache_folder
from builder.release.bindings.binding_files import BindingSources
from builder.release.bindings.build_bindings import generate_binding
from tests.support import abi_library, dynamic_model, needs

pytestmark = pytest.mark.integration

Command = list[str]


def c(folder: Path) -> Command:
    needs.c_compiler()
    command = ["make", "CFLAGS=-O1 -Wall -Wextra -Wpedantic -Werror -fsanitize=address,undefined"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return [str(folder / "predict")]


def rust(folder: Path) -> Command:
    environment = os.environ | {"CARGO_TARGET_DIR": str(folder / "target"), "RUSTFLAGS": "-D warnings"}
    command = [needs.cargo(), "build", "--offline", "--example", "predict"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [str(folder / "target" / "debug" / "examples" / "predict")]


def go(folder: Path) -> Command:
    cache = cache_folder() / "go"
    environment = os.environ | {"GOCACHE": str(cache), "GOPATH": str(cache / "path"), "GOPROXY": "off", "GOFLAGS": ""}
    command = [needs.go(), "build", "-o", "run-predict", "./cmd/predict"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    gofmt = Path(command[0]).resolve().parent / "gofmt"
    assert subprocess.run([gofmt, "-l", "."], cwd=folder, capture_output=True, check=True).stdout == b""
    return [str(folder / "run-predict")]


def python(folder: Path) -> Command:
    (package,) = folder.glob("*/")
    return ["env", f"PYTHONPATH={folder}", sys.executable, "-m", package.name]


BUILDERS: dict[str, Callable[[Path], Command]] = {"c": c, "rust": rust, "go": go, "python": python}


def make(language: str, description: dict[str, Any], folder: Path, **options: int) -> Command:
    """The command that runs the example of a package for ``description``."""
    library = abi_library.build(folder / "library", description, **options)
    (folder / "model.json").write_text(json.dumps(description))
    (folder / "NOTICE").write_text("Nobody's.\n")
    parts = BindingSources(folder / "model.json", library.with_name("model.h"), library, folder / "NOTICE")
    generate_binding(language, parts, folder / language)
    return BUILDERS[language](folder / language)


def answer(command: Command, files: list[Path]) -> list[str]:
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def refusal(command: Command, files: list[Path]) -> tuple[int, str]:
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # of a process that ends in an error
    done = subprocess.run([*command, *map(str, files)], env=environment, capture_output=True, text=True, check=False)
    assert not done.stdout
    return done.returncode, done.stderr


@pytest.mark.parametrize("language", BUILDERS)
def test_every_type_comes_back_as_it_went(language: str, tmp_path: Path) -> None:
    command = make(language, abi_library.echo_description(), tmp_path)
    files, expected = [], []
    for dtype in abi_library.DTYPES:
        if dtype == "bool":
            values = np.array([True, False, True, True])
        elif dtype.startswith("float"):
            values = np.array([-1.5, 2.25, 1e-3, 1024], dtype)
        else:
            info = np.iinfo(dtype)
            values = np.array([info.min, info.max, 1, 77], dtype)
        files.append(tmp_path / dtype)
        files[-1].write_bytes(values.tobytes())
        shown = [f"{v:.6f}" if dtype.startswith("float") else str(int(v)) for v in values]
        expected.append(f"out_{dtype}: {' '.join(shown)}")
    assert answer(command, files) == expected


@pytest.mark.parametrize("language", BUILDERS)
def test_feeds_of_several_kinds(language: str, tmp_path: Path) -> None:
    command = make(language, abi_library.tensor_description(), tmp_path)
    a, n, short = tmp_path / "a", tmp_path / "n", tmp_path / "short"
    a.write_bytes(np.arange(6, dtype=np.float32).tobytes())
    n.write_bytes(np.array([10, -1]).tobytes())
    short.write_bytes(bytes(15))
    assert answer(command, [a, n]) == [
        "product: 0.000000 10.000000 20.000000 -3.000000 -4.000000 -5.000000", "total: 18.000000"
    ]  # fmt: skip
    assert refusal(command, [a]) == (2, f"usage: {USAGE.get(language, 'predict')} A N\n")
    code, said = refusal(command, [a, short])
    assert (code, said) == (1, f"predict: {short}: 15 bytes; feed n takes 16\n")
    code, said = refusal(command, [a, tmp_path / "none"])
    assert code == 1
    assert f"{tmp_path}/none" in said


USAGE = {"rust": "predict [--library FILE]", "python": "python -m product"}


@pytest.mark.parametrize("language", BUILDERS)
def test_what_the_data_decides(language: str, tmp_path: Path) -> None:
    """None of it, some, all; and more than is taken, in the library's own words."""
    library = dynamic_model.build(tmp_path)
    (tmp_path / "NOTICE").write_text("Nobody's.\n")
    parts = BindingSources(tmp_path / "model.json", tmp_path / "model.h", library, tmp_path / "NOTICE")
    generate_binding(language, parts, tmp_path / language)
    command = BUILDERS[language](tmp_path / language)

    def files(rows: tuple[int, int], flags: tuple[int, int]) -> list[Path]:
        given = {"x": dynamic_model.X, "m": np.array([1, 0, 1, 1], bool), "n": np.int32(rows), "k": np.int32(flags)}
        for name, values in given.items():
            (tmp_path / name).write_bytes(np.asarray(values).tobytes())
        return [tmp_path / name for name in given]

    for rows, flags, found in (
        ((0, 2), (0, 0), ["rows:", "flags:"]),
        ((1, 2), (2, 1), ["rows: 1 2", "flags: 1 0"]),
        ((3, 2), (2, 2), ["rows: 1 2 3 4 5 6", "flags: 1 0 1 1"]),
    ):
        assert [line.rstrip() for line in answer(command, files(rows, flags))] == found
    code, said = refusal(command, files((4, 2), (0, 0)))
    assert code == 1
    assert said.endswith("fetch rows has the shape [4, 2] here; at most [3, 2] is taken\n")


@pytest.mark.parametrize("language", BUILDERS)
def test_a_batch_of_images(language: str, tmp_path: Path) -> None:
    command = make(language, abi_library.picture_description(batch=3, width=4, height=2), tmp_path)
    pixels = np.repeat(np.array([0, 255, 51], np.uint8), 8)
    (tmp_path / "raw").write_bytes(pixels.tobytes())
    assert answer(command, [tmp_path / "raw"]) == [
        "tone: dark 1.000000, light 0.000000",
        "tone: light 1.000000, dark 0.000000",
        "tone: dark 0.800000, light 0.200000",
        "level: 0.000000 255.000000 51.000000",
        "pixels: 0 0 0 0 0 0 0 0 ...",
    ]


@pytest.mark.parametrize("language", BUILDERS)
def test_equal_and_undefined_probabilities(language: str, tmp_path: Path) -> None:
    """Equal ones in the model's order, NaN last, and no more than top_k."""
    description = abi_library.echo_description(batch=1)
    for kind in ("feeds", "fetches"):
        description[kind] = [p for p in description[kind] if p["dtype"] == "float32"]
        description[kind][0] |= {"shape": [1, 6], "bytes": 24}
    labels = ["nan", "low", "first of two", 'second "of" two', "high", "naïve 猫 \\"]
    output = {"name": "class", "fetch": "out_float32", "kind": "classification", "labels": labels, "top_k": 6}
    command = make(language, description | {"outputs": [output, output | {"name": "best", "top_k": 2}]}, tmp_path)
    (tmp_path / "raw").write_bytes(np.array([np.nan, 0.125, 0.25, 0.25, 0.5, 0], np.float32).tobytes())
    first, second = answer(command, [tmp_path / "raw"])
    rest = 'class: high 0.500000, first of two 0.250000, second "of" two 0.250000, low 0.125000, naïve 猫 \\ 0.000000'
    assert first.lower().startswith(f"{rest}, nan ")
    assert second == "best: high 0.500000, first of two 0.250000"


@pytest.mark.parametrize("language", BUILDERS)
def test_failures_are_the_librarys_own_words(language: str, tmp_path: Path) -> None:
    description = abi_library.picture_description(width=2, height=2)
    command = make(language, description, tmp_path)
    picture = tmp_path / "photo.pgm"
    picture.write_bytes(b"P5\n2 2\n255\n" + bytes([abi_library.POISON, abi_library.POISON, 2, 3]))
    code, said = refusal(command, [picture])
    assert (code, said) == (1, f"predict: {'cf_run: ' if language == 'c' else ''}the kernel fell over\n")
    command = make(language, description, tmp_path / "old", open_status=1)
    code, said = refusal(command, [picture])
    assert (code, said) == (1, f"predict: {'cf_open: ' if language == 'c' else ''}this processor has no AVX2\n")
    command = make(language, description, tmp_path / "abi", abi=2)
    code, said = refusal(command, [picture])
    assert code == 1
    assert "ABI" in said
