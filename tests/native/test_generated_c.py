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

from builder.base.escape import c_literal, c_string, go_string, rust_string
from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.emit.header import format_flat_run, format_header
from builder.compiler.emit.print_program import format_program_source
from builder.compiler.link.toolchain import Toolchain
from builder.compiler.lower.program import BoundPort, BoundState, Weight
from builder.config import OutputSpec, Variant
from builder.config.tensor import TensorSpec
from builder.release.bindings.build_bindings import generate_binding
from tests.support import needs
from tests.support.abi_library import tensor_description
from tests.support.every_step import EVERY_STEP, KERNEL, SPEC, arena
from tests.support.hostile import NAMES
from tests.unit.test_bindings import parts_of

RUNTIME = Path(__file__).resolve().parents[2] / "builder" / "runtime"
STRICT = (sys.executable, "-m", "ziglang", "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return emit_sources(EVERY_STEP, SPEC, X86_64, tmp_path).folder


def test_new_weights_make_a_new_object(tmp_path: Path) -> None:
    """The compiler keeps objects by the text of their sources, and the file that .incbin takes in is none."""
    toolchain = Toolchain(X86_64, tmp_path / "cache")
    for value in (b"old weights", b"new weights"):
        program = replace(EVERY_STEP, weights=(Weight(0, value),))
        emit_sources(program, SPEC, X86_64, tmp_path)
        toolchain.compile_source(tmp_path / "weights.S", tmp_path / "weights.o")
        assert value in (tmp_path / "weights.o").read_bytes()


def test_every_step_compiles_without_warnings(sources: Path) -> None:
    subprocess.run([*STRICT, "-c", "program.c"], cwd=sources, check=True)


def test_names_of_a_model_are_no_code(tmp_path: Path) -> None:
    """Every name in every place of the generated C. An attack that got out of its comment would be a constructor."""
    scalar = TensorSpec("x", "float32", (1,))
    program = replace(
        EVERY_STEP,
        steps=(*EVERY_STEP.steps, *(replace(KERNEL, name=name) for name in NAMES)),
        fetches=tuple(BoundPort(replace(scalar, name=f"{i}{name}"), arena(64, 4)) for i, name in enumerate(NAMES)),
        states=tuple(
            BoundState(replace(scalar, name=name), 4 * i, arena(0, 4), arena(64, 4), arena(0, 4))
            for i, name in enumerate(NAMES)
        ),
    )
    spec = replace(SPEC, outputs=(OutputSpec("a", f"0{NAMES[0]}", "classification", labels=NAMES),))
    folder = emit_sources(program, spec, X86_64, tmp_path).folder
    others = {Variant(1, 0, i, str(i), of=name): EVERY_STEP for i, name in enumerate(NAMES, 1)}
    (folder / "model.h").write_text(format_header(program, others))
    source = format_program_source(program, "", format_flat_run(program), others=others, signatures=NAMES)
    (folder / "all.c").write_text(f'#include "model.h"\n{source}')
    for file in ("program.c", "all.c"):
        subprocess.run([*STRICT, "-c", file, "-o", "it.o"], cwd=folder, check=True)
        assert b".init_array" not in (folder / "it.o").read_bytes()


def test_labels_and_names_survive_in_other_languages(tmp_path: Path) -> None:
    """What rustc and Go's compiler make of the literals."""
    texts = [name for name in NAMES if "\ud800" not in name]
    expected = [list(text.encode()) for text in texts]
    (tmp_path / "a.rs").write_text(
        "fn main() {" + "".join(f'println!("{{:?}}", {rust_string(t)}.as_bytes());' for t in texts) + "}"
    )
    subprocess.run([needs.needs("rustc", "rustc"), "a.rs"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "a"], capture_output=True, check=True, text=True).stdout
    assert list(map(json.loads, said.splitlines())) == expected
    rows = "".join(f"fmt.Println([]byte({go_string(t)}))\n" for t in texts)
    (tmp_path / "a.go").write_text(f'package main\nimport "fmt"\nfunc main() {{\n{rows}}}\n')
    done = subprocess.run([needs.go(), "run", "a.go"], cwd=tmp_path, capture_output=True, check=True, text=True)
    assert [list(map(int, line[1:-1].split())) for line in done.stdout.splitlines()] == expected


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
    labels = ['say "hi"', "back\\slash", "??/ trigraph", "naïve 猫", "*/ /*", "%s %n", "???/", "\x1b[2J \u202e"]
    rows = "\n".join(f"puts({c_literal(label)});" for label in labels)
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
    generate_binding("c", parts_of(tmp_path / "c", data), out)
    command = [sys.executable, "-m", "ziglang", "cc", "-Wall", "-Werror", "-I.", "-c", "a.c", "-o", "a.o"]
    (out / "a.c").write_text('#include "product.h"\n')
    (out / "model.h").write_text((Path(__file__).parents[2] / "builder" / "runtime" / "abi" / "model.h").read_text())
    subprocess.run(command, cwd=out, check=True)
    generate_binding("python", parts_of(tmp_path / "p", data), tmp_path / "python")
    ast.parse((tmp_path / "python" / "product" / "__init__.py").read_text())
