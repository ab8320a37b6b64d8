"""What the dependencies layer is made of: each file in one part, each part with what its wheel says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.base.cache import file_digest
from builder.base.errors import EnvironmentSetupError
from builder.base.lambda_python import PythonInterpreter
from builder.package.components import OURS, function_part, read_own_licence
from builder.package.function_files import add_function
from builder.package.layer import files_of
from builder.package.wheels import wheel_parts
from tests.conftest import ROOT
from tests.support.wheels import install

BILL = {
    "components": [
        {
            "bom-ref": "pkg:generic/libwebp",
            "name": "libwebp",
            "version": "1.6.0",
            "licenses": [{"license": {"id": "BSD-3-Clause"}}],
        },
        {
            "bom-ref": "pkg:generic/libjpeg",
            "name": "libjpeg-turbo",
            "version": "3.2.0",
            "licenses": [{"license": {"id": "IJG"}}, {"license": {"name": "BSD-3-Clause"}}],
        },
    ]
}


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    root = tmp_path / "python"
    libraries = {f"pillow.libs/lib{name}-1a.so.1": name.encode() for name in ("webp", "webpmux", "sharpyuv", "jpeg")}
    install(
        root,
        "pillow",
        "13.0.0",
        {"PIL/Image.py": b"1", "PIL/_imaging.so": b"2", "pillow.libs/libtiff-1.so": b"tiff", **libraries},
        bill=BILL,
        stand_ins=("pillow.libs/libtiff-1.so",),
        stripped={"PIL/_imaging.so": b"smaller"},
    )
    install(root, "typing_extensions", "4", {"typing_extensions.py": b"3"}, licence="License: MIT")
    for path in ("PIL/__pycache__/Image.cpython-313.pyc", "__pycache__/typing_extensions.cpython-313.pyc"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(b"code")
    (root / "pillow.libs/libtiff-1.so").write_bytes(b"stand-in")
    return tmp_path


def test_every_file_is_in_one_part(layer: Path) -> None:
    files = [(file.path, file.sha256) for part in wheel_parts(layer) for file in part.files]
    assert sorted(files) == [(f"/opt/python/{name}", file_digest(path)) for name, path in files_of(layer / "python")]


def test_parts_have_what_their_wheels_say_of_them(layer: Path) -> None:
    parts = {part.name: part for part in wheel_parts(layer)}
    assert list(parts) == ["pillow", "libjpeg-turbo", "libwebp", "coldforge stand-ins", "typing-extensions"]
    assert [file.path.rpartition("/")[2] for file in parts["libwebp"].files] == [
        f"lib{name}-1a.so.1" for name in ("sharpyuv", "webp", "webpmux")
    ]
    assert parts["libjpeg-turbo"].licence == "IJG AND BSD-3-Clause"
    assert (parts["libwebp"].version, parts["libwebp"].purl) == ("1.6.0", "pkg:generic/libwebp@1.6.0")
    assert parts["pillow"].texts == ("You may do with pillow what you like.\n",)
    assert parts["typing-extensions"].licence == "MIT"
    wheel = parts["typing-extensions"].wheel
    assert wheel
    assert wheel.file == "typing_extensions-4-py3-none-any.whl"
    assert [file.path for file in parts["coldforge stand-ins"].files] == ["/opt/python/pillow.libs/libtiff-1.so"]


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("PIL/Image.py", "changed", r"PIL/Image\.py is not what the wheel of pillow-13\.0\.0 holds"),
        ("PIL/_imaging.so", "changed", r"PIL/_imaging\.so is not what the wheel"),
        ("pillow.libs/libwebp-1a.so.1", "changed", r"libwebp-1a\.so\.1 is not what the wheel"),
        ("PIL/Extra.py", "", r"PIL/Extra\.py belongs to no package"),
        ("PIL/__pycache__/Extra.cpython-313.pyc", "", r"Extra\.cpython-313\.pyc belongs to no package"),
        ("pillow-13.0.0.dist-info/wheel.json", "{", r"wheel\.json cannot be read"),
    ],
)
def test_what_nobody_accounts_for_is_refused(layer: Path, path: str, content: str, says: str) -> None:
    (layer / "python" / path).write_text(content)
    with pytest.raises(EnvironmentSetupError, match=says):
        wheel_parts(layer)


def test_a_library_that_no_bill_names_is_refused(tmp_path: Path) -> None:
    install(tmp_path / "python", "pillow", "14", {"pillow.libs/libnew-1.so": b""}, bill=BILL)
    with pytest.raises(EnvironmentSetupError, match=r"no bill of materials in the wheel of pillow-14 names libnew-1"):
        wheel_parts(tmp_path)


def test_a_package_without_a_known_licence_is_refused(tmp_path: Path) -> None:
    install(tmp_path / "python", "odd", "1", {"odd.py": b""}, licence="License: ask me")
    with pytest.raises(EnvironmentSetupError, match="odd-1: METADATA has no licence"):
        wheel_parts(tmp_path)


def test_the_functions_files_are_those_that_are_deployed(tmp_path: Path) -> None:
    add_function(ROOT / "handler", tmp_path, PythonInterpreter(Path("nowhere"), "3.11"))
    taken = {f"/var/task/{name}": file_digest(path) for name, path in files_of(tmp_path)}
    assert {file.path: file.sha256 for file in function_part(ROOT / "handler").files} == taken


def test_the_repositorys_licence_is_that_of_its_parts() -> None:
    assert (ROOT / "LICENSE").read_text() == read_own_licence()
    assert f'license = "{OURS}"' in (ROOT / "pyproject.toml").read_text()
