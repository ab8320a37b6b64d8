"""Generated packages, against files that a person has read. After a wanted change: UPDATE_GOLDEN=1 pytest ..."""

from __future__ import annotations

import ast
import json
import keyword
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from builder.base.errors import UsageError
from builder.base.escape import javascript_string, python_string
from builder.base.project import Project
from builder.cli import main
from builder.release.bindings.binding_files import MANIFEST, BindingSources
from builder.release.bindings.binding_templates import wrap_items
from builder.release.bindings.build_bindings import generate_binding
from builder.release.bindings.describe import RESERVED, make_identifiers, package_name, parse_description, to_camel_case
from builder.release.bindings.language_packages import LANGUAGES, to_pep440_version
from tests.support import dynamic_model, needs
from tests.support.abi_library import echo_description, picture_description, tensor_description

GOLDEN = Path(__file__).parent / "golden" / "bindings"

READ = {
    "c": ("brightness.h", "predict.c", "Makefile", "README.md"),
    "rust": ("src/lib.rs", "examples/predict.rs", "README.md"),
    "go": ("model.go", "native/native.go", "wasm/wasm.go", "cmd/predict/main.go", "README.md"),
    "node": ("predict.d.mts", "package.json", "README.md"),
    "python": (
        "pyproject.toml",
        *(f"brightness/{name}.py" for name in ("__init__", "__main__", "columns", "pictures", "predictor")),
        "README.md",
    ),
}
"""The files of each package that differ from model to model."""


def parts_of(folder: Path, description: dict[str, Any], *, archive: bool = False) -> BindingSources:
    """Parts with a description; what is only copied holds its own name."""
    (folder / "wasm").mkdir(parents=True)
    names = ("model.h", "libmodel.so", "libmodel.a", "NOTICE", *(f"wasm/{n}" for n in WASM))
    for name in names:
        (folder / name).write_text(name)
    for place in (folder, folder / "wasm"):
        (place / "model.json").write_text(json.dumps(description))
    static = folder / "libmodel.a" if archive else None
    return BindingSources(
        folder / "model.json", folder / "model.h", folder / "libmodel.so", folder / "NOTICE", static, folder / "wasm"
    )


WASM = ("model.wasm", "model-baseline.wasm", "predict.mjs")


@pytest.mark.parametrize("language", LANGUAGES)
def test_generated_files_are_as_read(language: str, tmp_path: Path) -> None:
    generate_binding(language, parts_of(tmp_path / "parts", picture_description(mode="rgb")), tmp_path / "out")
    for name in READ[language]:
        generated, golden = (tmp_path / "out" / name).read_text(), GOLDEN / language / name
        if os.environ.get("UPDATE_GOLDEN"):
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(generated)
        assert generated == golden.read_text(), name


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "description",
    [echo_description(), tensor_description(), picture_description(batch=3), dynamic_model.description()],
)
def test_no_template_is_left_unfilled(language: str, description: dict[str, Any], tmp_path: Path) -> None:
    generate_binding(language, parts_of(tmp_path / "parts", description), tmp_path / "out")
    texts = {p: p.read_text() for p in (tmp_path / "out").rglob("*") if p.is_file() and p.suffix != ".json"}
    # What is left of a Makefile's, Rust's, cgo's and the loader's own dollars.
    own = re.compile(r"\$[(@$]|\$name:literal|\$name,|\$\{SRCDIR\}|\$ORIGIN|^\$ ", re.MULTILINE)
    assert not [p for p, text in texts.items() if "$" in own.sub("", text)]


def test_the_manifest_names_every_file(tmp_path: Path) -> None:
    generate_binding("rust", parts_of(tmp_path / "parts", tensor_description(), archive=True), tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    there = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert set(manifest["files"]) == there - {MANIFEST}
    assert manifest["language"] == "rust"
    assert manifest["model"] == {"name": "product", "version": "7"}


def test_a_second_time_leaves_what_a_person_added(tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate_binding("c", parts_of(tmp_path / "a", tensor_description(), archive=True), out)
    (out / "mine.c").write_text("int mine;")
    (out / "predict.c").write_text("changed")
    generate_binding("c", parts_of(tmp_path / "b", tensor_description()), out)
    assert (out / "mine.c").read_text() == "int mine;"
    assert "main(" in (out / "predict.c").read_text()
    assert not (out / "libmodel.a").exists()  # of the earlier bundle


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="files that are not bindings"):
        generate_binding("c", parts_of(tmp_path / "a", tensor_description()), out)
    assert [p.name for p in out.iterdir()] == ["thesis.txt"]
    generate_binding("c", parts_of(tmp_path / "b", tensor_description()), tmp_path / "other")
    with pytest.raises(UsageError, match="the c bindings of product"):
        generate_binding("rust", parts_of(tmp_path / "c", tensor_description()), tmp_path / "other")


def test_what_cannot_be_made_is_said(tmp_path: Path) -> None:
    parts = parts_of(tmp_path / "parts", tensor_description(), archive=True)
    with pytest.raises(UsageError, match=r"'perl': c, rust, go, node, python"):
        generate_binding("perl", parts, tmp_path / "out")
    for language in ("node", "python"):
        with pytest.raises(UsageError, match="--static is for C, Rust and Go"):
            generate_binding(language, parts, tmp_path / "out")
    with pytest.raises(UsageError, match="run `coldforge wasm` first"):
        generate_binding("node", replace(parts, archive=None, wasm=None), tmp_path / "out")
    with pytest.raises(UsageError, match="ABI 2, not 1"):
        parse_description(json.dumps(tensor_description() | {"abi": 2}))
    with pytest.raises(UsageError, match="has no feeds or no fetches"):
        parse_description(json.dumps(tensor_description() | {"feeds": []}))
    with pytest.raises(UsageError, match=r"model\.json cannot be used"):
        parse_description("{}")


def test_the_command_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(Path(__file__).parents[2] / "examples")
    monkeypatch.setattr(Project, "in_current_folder", classmethod(lambda cls: cls(tmp_path)))
    assert main(["bindings", "digits", "--lang", "c"]) == 2
    assert "run `make bundle MODEL=digits` first" in capsys.readouterr().err
    assert main(["bindings", "digits", "--lang", "c", "--target", "arm64"]) == 2
    assert "run `make bundle MODEL=digits TARGET=arm64` first" in capsys.readouterr().err
    assert main(["bindings", "digits", "--lang", "python", "--static"]) == 2
    assert "--static is for c, rust, go" in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()


def test_a_classification_has_a_label_for_every_number() -> None:
    data = picture_description(batch=3)
    data["outputs"][0] |= {"labels": [], "top_k": 1}
    head, level, pixels = parse_description(json.dumps(data)).heads
    assert (head.labels, head.labelled, head.top, head.items, head.length) == (("0", "1"), False, 1, 3, 2)
    assert (level.labels, level.kind) == ((), "regression")
    assert (pixels.items, pixels.length) == (3, 64)


def test_classes_of_as_many_rows_as_the_data_gives(tmp_path: Path) -> None:
    """The packages give their numbers; JavaScript, whose lists have any length, the classes of each row."""
    data = dynamic_model.description()
    data["outputs"] = [{"name": "kinds", "fetch": "rows", "kind": "classification", "labels": ["a"], "top_k": 1}]
    found = parse_description(json.dumps(data))
    assert found.classifications == ()
    assert found.heads[0].labels == ("a", "1")
    generate_binding("node", parts_of(tmp_path / "parts", data), tmp_path / "node")
    assert '  "kinds": Class<KindsLabel>[][];' in (tmp_path / "node" / "predict.d.mts").read_text()
    generate_binding("rust", parts_of(tmp_path / "more", data), tmp_path / "rust")
    assert '"kinds", shown.join(" ")' in (tmp_path / "rust" / "examples" / "predict.rs").read_text()


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("digits", "digits"),
        ("age-gender_2", "age_gender_2"),
        ("3d", "x3d"),
        ("struct", "struct_model"),  # a word of C, a module of Python
        ("ctypes", "ctypes_model"),
        ("model", "model_model"),  # the header of the ABI
        ("_", "x"),
    ],
)
def test_package_names(name: str, package: str) -> None:
    assert package_name(name) == package


@given(st.lists(st.text(min_size=1, max_size=12), max_size=8))
def test_identifiers_are_usable_and_differ(names: list[str]) -> None:
    found = make_identifiers(names)
    assert len({to_camel_case(word) for word in found}) == len(names)
    for word in found:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", word, re.ASCII)
        assert word not in RESERVED
        assert not keyword.iskeyword(word)


def test_identifiers_follow_the_names() -> None:
    names = ["serving_default_x:0", "StatefulCall:1", "x", "X", "x_", "for", "größe", "0"]
    assert make_identifiers(names) == [
        "serving_default_x_0", "stateful_call_1", "x", "x_v2", "x_v3", "for_", "gr_e", "x0"
    ]  # fmt: skip


# One line of text, as model.toml takes it.
LABELS = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20)


@given(LABELS)
def test_labels_survive_as_literals(label: str) -> None:
    assert ast.literal_eval(python_string(label)) == label
    assert json.loads(javascript_string(label)) == label


@given(st.lists(st.text("abc", min_size=1, max_size=50), max_size=30))
def test_wrapped_lines_are_short_and_hold_everything(items: list[str]) -> None:
    text = wrap_items(items, 4 * " ", width=60)
    assert all(len(line) <= 60 for line in text.splitlines())
    assert [item for item in re.split(r",\s*", text.strip()) if item] == items


@pytest.mark.parametrize(
    ("version", "release"),
    [("1", "1"), ("2.0.13", "2.0.13"), ("2024-05-01", "0+2024.5.1"), ("v1", "0+v1"), ("1.0-RC_1+", "0+1.0.rc.1")],
)
def test_a_wheel_has_a_version_of_pythons_kind(version: str, release: str) -> None:
    assert to_pep440_version(version) == release
    assert str(Version(release)) == release


@pytest.mark.parametrize("description", [echo_description(), picture_description(batch=2), dynamic_model.description()])
def test_generated_python_is_typed_and_clean(description: dict[str, Any], tmp_path: Path) -> None:
    needs.needs_module("mypy")
    generate_binding("python", parts_of(tmp_path / "parts", description), tmp_path / "out")
    (package,) = (tmp_path / "out").glob("*/")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-version=3.11", package.name]
    done = subprocess.run(mypy, cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
