"""The generated C, compiled: the program of a model, and the package for C."""

from __future__ import annotations

import ast
import ctypes
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.bindings import generate
from builder.bindings.c import literal
from builder.emit import emit
from builder.emit.program import c_string
from builder.link.toolchain import Toolchain
from builder.lower.program import Weight
from builder.targets import X86_64
from tests.support.abi_library import tensor_description
from tests.support.every_step import EVERY_STEP, SPEC
from tests.unit.test_bindings import parts_of


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return emit(EVERY_STEP, SPEC, X86_64, tmp_path).folder


def test_new_weights_make_a_new_object(tmp_path: Path) -> None:
    """The compiler keeps objects by the text of their sources, and the file that .incbin takes in is none."""
    toolchain = Toolchain(X86_64, tmp_path / "cache")
    for value in (b"old weights", b"new weights"):
        program = replace(EVERY_STEP, weights=(Weight(0, value),))
        emit(program, SPEC, X86_64, tmp_path)
        toolchain.compile(tmp_path / "weights.S", tmp_path / "weights.o")
        assert value in (tmp_path / "weights.o").read_bytes()


def test_every_step_compiles_without_warnings(sources: Path) -> None:
    runtime = Path(__file__).resolve().parents[2] / "builder" / "runtime"
    command = [sys.executable, "-m", "ziglang", "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{runtime}"]
    subprocess.run([*command, "-c", "program.c"], cwd=sources, check=True)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_json_survives_as_a_c_string(tmp_path_factory: pytest.TempPathFactory, labels: list[str]) -> None:
    text = json.dumps({"labels": [*labels, "x" * 2100, "??="]})
    folder = tmp_path_factory.mktemp("c")
    (folder / "s.c").write_text(f"const char *text(void) {{ return {c_string(text)}; }}\n")
    # Strict C99 replaces trigraphs: the text must not hold any.
    command = [sys.executable, "-m", "ziglang", "cc", "-std=c99", "-shared", "-fPIC", "s.c", "-o", "s.so"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    library = ctypes.CDLL(str(folder / "s.so"))
    library.text.restype = ctypes.c_char_p
    assert library.text().decode("ascii") == text


def test_labels_survive_in_c(tmp_path: Path) -> None:
    labels = ['say "hi"', "back\\slash", "??/ trigraph", "naïve 猫", "*/ /*", "%s %n"]
    rows = "\n".join(f"puts({literal(label)});" for label in labels)
    (tmp_path / "a.c").write_text(f"#include <stdio.h>\nint main(void) {{\n{rows}\nreturn 0;\n}}\n")
    command = [sys.executable, "-m", "ziglang", "cc", "-std=c99", "-Wall", "-Werror", "a.c", "-o", "a"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "a"], capture_output=True, check=True).stdout.decode()
    assert said.splitlines() == labels


def test_a_comment_ends_where_it_should(tmp_path: Path) -> None:
    data = tensor_description()
    data["model"]["version"] = '1 */ #error """ \\'
    data["feeds"][0]["name"] = "a*/b c"
    out = tmp_path / "out"
    generate("c", parts_of(tmp_path / "c", data), out)
    command = [sys.executable, "-m", "ziglang", "cc", "-Wall", "-Werror", "-I.", "-c", "a.c", "-o", "a.o"]
    (out / "a.c").write_text('#include "product.h"\n')
    (out / "model.h").write_text((Path(__file__).parents[2] / "builder" / "runtime" / "abi" / "model.h").read_text())
    subprocess.run(command, cwd=out, check=True)
    generate("python", parts_of(tmp_path / "p", data), tmp_path / "python")
    ast.parse((tmp_path / "python" / "product.py").read_text())
