"""Libraries of the dependencies layer without what only debuggers read; pyelftools says what was in them before."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import _cffi_backend
import pytest
from elftools.elf.elffile import ELFFile
from PIL import _imaging

from tests.conftest import ROOT

LIBRARIES = [Path(_imaging.__file__), Path(_cffi_backend.__file__)]


@pytest.fixture(scope="module")
def elf() -> ModuleType:
    """layers/dependencies/elf.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("elf", ROOT / "layers" / "dependencies" / "elf.py")
    assert spec
    assert spec.loader
    module = sys.modules["elf"] = importlib.util.module_from_spec(spec)  # where its dataclasses look for it
    spec.loader.exec_module(module)
    del sys.modules["elf"]
    return module


def mapped(data: bytes) -> list[tuple[object, ...]]:
    """What the loader reads of each segment, and where it puts it."""
    return [
        (
            s["p_type"],
            s["p_flags"],
            s["p_vaddr"],
            s["p_memsz"],
            s["p_align"],
            s.data()[_HEADER if not s["p_vaddr"] else 0 :],
        )
        for s in ELFFile(io.BytesIO(data)).iter_segments()
    ]


_HEADER = 0x1000  # the file's own header and the table of segments, which change


@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.name.partition(".")[0])
def test_a_stripped_library_is_mapped_as_before(elf: ModuleType, path: Path) -> None:
    data = path.read_bytes()
    less = elf.stripped(data)
    assert mapped(less) == mapped(data)
    assert all(
        (s["p_offset"] - s["p_vaddr"]) % max(s["p_align"], 1) == 0 for s in ELFFile(io.BytesIO(less)).iter_segments()
    )
    assert ELFFile(io.BytesIO(less)).num_sections() == 0
    assert len(less) < len(data)
    assert elf.stripped(less) == less
    assert list(elf.Library(less).symbols()) == list(elf.Library(data).symbols())


def test_a_stripped_library_loads_and_works(elf: ModuleType, tmp_path: Path) -> None:
    source = Path(_cffi_backend.__file__)
    (tmp_path / source.name).write_bytes(elf.stripped(source.read_bytes()))
    code = "import _cffi_backend as b; f = b.FFI(); print(b.__file__, bytes(f.buffer(f.new('char[]', b'ab'))))"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split(maxsplit=1) == [str(tmp_path / source.name), "b'ab\\x00'\n"], done.stderr


@pytest.mark.parametrize(
    "data", [b"", b"#!/bin/sh\n" * 99, b"\x7fELF\x02\x01" + bytes(200)], ids=("empty", "text", "zeros")
)
def test_what_is_no_library_is_refused(elf: ModuleType, data: bytes) -> None:
    with pytest.raises(elf.ElfError):
        elf.stripped(data)
