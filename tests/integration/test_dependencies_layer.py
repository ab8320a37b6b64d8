"""The dependencies layer of each target: all that is loaded is there, nothing else is, and each package says its wheel.

The libraries are read with pyelftools, which knows nothing of ``layers/dependencies/elf.py``.
"""

from __future__ import annotations

import ast
import csv
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import PIL
import pytest
from elftools.elf.elffile import ELFFile

from builder.base.cache import compute_digest
from builder.base.project import cache_folder
from builder.base.targets import ARM64, NAMES, TARGETS, X86_64, Target
from builder.compiler.link.toolchain import Toolchain, run_compiler
from builder.package.dependencies import read_lock
from builder.package.layer import files_of
from builder.package.wheels import wheel_parts
from tests.conftest import ROOT, have_dependencies
from tests.support import qemu

pytestmark = [pytest.mark.integration, pytest.mark.network]

SOURCE = ROOT / "layers" / "dependencies"
RUNTIME = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libz.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
"""What Lambda's own image has, Python's zlib included."""


@pytest.fixture(scope="module", params=TARGETS, ids=NAMES)
def target(request: pytest.FixtureRequest) -> Target:
    chosen: Target = request.param
    return chosen


@pytest.fixture(scope="module")
def layer(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layer's ``python`` folder, made as ``sam build`` makes it, but by a Python in another place."""
    place = tmp_path_factory.mktemp("another place")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    command = [str(place / "venv" / "bin" / "python"), str(SOURCE / "build.py"), str(place / "python")]
    pip = str(Path(importlib.util.find_spec("pip").origin).parents[1])
    subprocess.run([*command, "--target", target.name], env=os.environ | {"PYTHONPATH": pip}, check=True)
    return place / "python"


def libraries(layer: Path) -> dict[str, Path]:
    found = {path.name: path for path in layer.rglob("*") if ".so" in path.suffixes}
    assert len(found) > 8
    return found


def needed(path: Path) -> list[str]:
    with path.open("rb") as file:
        (dynamic,) = (s for s in ELFFile(file).iter_segments() if s.header.p_type == "PT_DYNAMIC")
        return [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]


def test_every_library_is_there_and_is_reached(layer: Path) -> None:
    there = libraries(layer)
    todo = [name for name in there if ".cpython-313-" in name]  # Python loads these
    assert len(todo) == 4
    reached = set(todo)
    while todo:
        missing = [name for name in needed(there[todo.pop()]) if name not in RUNTIME | reached]
        assert not set(missing) - there.keys()
        reached |= set(missing)
        todo += missing
    assert reached == there.keys()


def test_what_the_function_refuses_has_no_code_in_the_layer(layer: Path) -> None:
    (tiff,) = layer.glob("pillow.libs/libtiff*")
    names = {name.partition("-")[0] for name in libraries(layer)}
    assert not names & {"libXau", "liblzma", "libzstd", "libavif", "libfreetype", "libharfbuzz", "liblcms2", "libpng16"}
    for stand_in in (tiff, *layer.glob("pillow.libs/libopenjp2*"), *layer.glob("pillow.libs/libxcb*")):
        assert stand_in.stat().st_size < 4_000
        assert needed(stand_in) == []


def test_every_module_that_is_imported_is_there(layer: Path) -> None:
    """At a module's own level; what a function imports may be for a format that is refused."""
    whole = {path.name.partition(".")[0] for path in Path(PIL.__file__).parent.glob("*.*")}
    modules = {path.stem for path in (layer / "PIL").glob("*.py")}
    modules |= {path.name.partition(".")[0] for path in (layer / "PIL").glob("*.so")}
    for path in (layer / "PIL").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                wanted = [node.module.partition(".")[0]] if node.module else [alias.name for alias in node.names]
                assert whole.intersection(wanted) <= modules, path.name


def test_each_package_says_which_locked_wheel_it_came_from(layer: Path) -> None:
    locked = {package.name: package for package in read_lock(SOURCE / "requirements.txt")}
    folders = list(layer.glob("*.dist-info"))
    assert len(folders) == 5
    for folder in folders:
        wheel = json.loads((folder / "wheel.json").read_text())
        name, version = folder.name.removesuffix(".dist-info").rsplit("-", 1)
        package = locked[name.replace("_", "-")]
        assert package.version == version
        assert wheel["sha256"] in package.hashes
        assert wheel["file"].startswith(f"{name}-{version}-")


def test_every_file_belongs_to_a_part_and_every_part_has_a_file_or_is_in_one(layer: Path) -> None:
    there = {f"/opt/python/{name}" for name, _ in files_of(layer)}
    parts = wheel_parts(layer.parent)
    paths = [file.path for part in parts for file in part.files]
    assert sorted(paths) == sorted(there)
    for part in parts:
        assert bool(part.files) != bool(part.inside), part.name
        assert set(part.inside) <= there
        assert part.version or part.name in ("libffi", "pythoncapi_compat")
    names = {part.name for part in parts}
    assert {"pillow", "libwebp", "libjpeg / libjpeg-turbo", "libffi", "coldforge stand-ins"} <= names
    assert "pycparser" not in names  # it was installed, and taken out


def test_all_that_a_wheel_says_its_extensions_need_is_accounted_for(layer: Path) -> None:
    (path,) = layer.glob("pillow-*.dist-info/sboms/pillow-*.cdx.json")
    bill = json.loads(path.read_text())
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    wanted = {ref for name in ("PIL._imaging", "PIL._imagingmath", "PIL._webp") for ref in _of(needs, name)}
    parts = {part.purl.partition("@")[0] for part in wheel_parts(layer.parent)}
    others = {"libtiff", "openjpeg", "libxcb"}  # stand-ins are in their places
    others |= {"zlib"}  # Lambda's own
    others |= {"libimagequant"}  # Pillow's wheels are built without
    assert wanted == {f"pkg:generic/{name}" for name in others} | {"pkg:generic/libjpeg", "pkg:generic/libwebp"}
    assert wanted - parts == {f"pkg:generic/{name}" for name in others}


def _of(needs: dict[str, list[str]], extension: str) -> list[str]:
    return next((refs for ref, refs in needs.items() if ref.endswith(f"#c-ext/{extension}")), [])


CALLER = """
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **names) {
    for (int i = 1; i < count; i += 3) {
        void *library = dlopen(names[i], RTLD_NOW);
        void *zero = library ? dlsym(library, names[i + 1]) : 0, *text = library ? dlsym(library, names[i + 2]) : 0;
        if (!zero || ((void *(*)(void))zero)()) return printf("%s\\n", dlerror()), 1;
        if (text && puts(((const char *(*)(void))text)()) < 0) return 2;
    }
    return 0;
}
"""


def test_a_stand_in_loads_and_its_functions_fail(layer: Path, target: Target, tmp_path: Path) -> None:
    """In a C program on the target's processor, with every symbol bound at once."""
    source, program = tmp_path / "caller.c", tmp_path / "caller"
    source.write_text(CALLER)
    Toolchain(target, cache_folder() / "zig").compile_program([source], program, [])
    calls = []
    for stem, zero, text in (
        ("libtiff", "TIFFClientOpen", "TIFFGetVersion"),
        ("libopenjp2", "opj_create_decompress", "opj_version"),
        ("libxcb", "xcb_connect", "none"),
    ):
        (library,) = layer.glob(f"pillow.libs/{stem}-*")
        calls += [str(library), zero, text]
    runner = [] if target == X86_64 else list(qemu.arm64(cache_folder()).emulator)
    done = subprocess.run([*runner, str(program), *calls], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "none\nnone\n"), done.stderr


LOADER = """
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **names) {
    for (int i = 1; i < count; i++)
        if (!dlopen(names[i], RTLD_LAZY | RTLD_GLOBAL)) return printf("%s\\n", dlerror()), 1;
    return 0;
}
"""


def test_a_stripped_extension_loads(layer: Path, target: Target, tmp_path: Path) -> None:
    """On the target's processor, where a library has something of each name that Python has."""
    extensions = [path for path in libraries(layer).values() if ".cpython-313-" in path.name]
    with_sections = [path.name for path in extensions if _sections(path)]
    assert with_sections == []
    names = sorted({name for path in extensions for name in _undefined(path) if name.startswith(("Py", "_Py"))})
    assert len(names) > 100
    source, program = tmp_path / "loader.c", tmp_path / "loader"
    source.write_text(LOADER)
    Toolchain(target, cache_folder() / "zig").compile_program([source], program, [])
    (tmp_path / "names.c").write_text("".join(f"long {name}[2];\n" for name in names))
    # Pillow needs zlib as well, of which the emulator has none.
    making = ["-target", target.triple, "-shared", "-fPIC", "-Wl,-soname,libz.so.1", "names.c", "-o", "names.so"]
    run_compiler(making, tmp_path, cache_folder() / "zig")
    runner = [] if target == X86_64 else list(qemu.arm64(cache_folder()).emulator)
    done = subprocess.run(
        [*runner, str(program), str(tmp_path / "names.so"), *map(str, extensions)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def _sections(path: Path) -> int:
    with path.open("rb") as file:
        return ELFFile(file).num_sections()


def _undefined(path: Path) -> set[str]:
    with path.open("rb") as file:
        (dynamic,) = (s for s in ELFFile(file).iter_segments() if s.header.p_type == "PT_DYNAMIC")
        return {symbol.name for symbol in dynamic.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"}


def test_each_record_lists_what_is_there(layer: Path) -> None:
    """Commands that pip installs name the Python that ran it: with them the same wheels gave other bytes elsewhere."""
    records = list(layer.glob("*.dist-info/RECORD"))
    assert len(records) > 3
    for record in records:
        rows = [row[0] for row in csv.reader(record.read_text().splitlines())]
        assert rows
        assert [name for name in rows if ".." in name or not (layer / name).is_file()] == []


def test_the_same_wheels_give_the_same_bytes_from_another_place(layer: Path, target: Target) -> None:
    if target == ARM64:
        pytest.skip("the other target's build shows it")
    assert compute_digest(have_dependencies() / "python") == compute_digest(layer)
