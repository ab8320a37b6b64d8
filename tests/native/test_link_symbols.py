"""libmodel.a's one object: what it shows, and that it still works."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from builder.base.errors import LinkError
from builder.base.project import cache_folder
from builder.base.targets import TARGETS, X86_64, Target
from builder.compiler.link.static_archive import keep_global, list_global_symbols
from builder.compiler.link.toolchain import Toolchain

CACHE = cache_folder() / "zig"

PARTS = {
    "first.c": """
        extern const int table[];
        int helper(int x);
        static int own(int x) { return x + 1; }
        int (*pointer)(int) = own;
        int cf_open(int x) { return helper(x) + table[1] + pointer(x); }
        int run(int x) { return cf_open(x); }
    """,
    "second.c": """
        #include <stdlib.h>
        const int table[] = {1, 20, 300};
        __thread int counter;
        int helper(int x) { return (getenv("HOME_OF_NOBODY") ? 1 : -x) * 2 + counter++; }
    """,
}


def combine_parts(target: Target, folder: Path) -> tuple[Toolchain, Path]:
    toolchain = Toolchain(target, CACHE)
    objects = []
    for name, text in PARTS.items():
        (folder / name).write_text(text)
        objects.append(folder / f"{name}.o")
        toolchain.compile_source(folder / name, objects[-1])
    toolchain.combine_objects(objects, folder / "whole.o")
    return toolchain, folder / "whole.o"


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def combined(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Toolchain, Path]:
    return combine_parts(request.param, tmp_path)


def test_only_public_names_are_seen(combined: tuple[Toolchain, Path]) -> None:
    before = combined[1].read_bytes()
    assert {"helper", "table", "pointer", "counter", "cf_open", "run"} == set(list_global_symbols(before).defined)
    after = list_global_symbols(keep_global(before, ("cf_open", "run"), ("run",)))
    assert after.defined == ("cf_open", "run")
    assert after.undefined == list_global_symbols(before).undefined
    assert "getenv" in after.undefined


def test_a_linker_finds_the_table_in_order(combined: tuple[Toolchain, Path]) -> None:
    """Local symbols first, each relocation still of its symbol, as another reader sees it."""
    before, after = (
        ELFFile(io.BytesIO(data))
        for data in (combined[1].read_bytes(), keep_global(combined[1].read_bytes(), ("cf_open",)))
    )

    def relocations(elf: ELFFile) -> list[tuple[str, int, str]]:
        table = elf.get_section_by_name(".symtab")
        return [
            (section.name, r["r_offset"], table.get_symbol(r["r_info_sym"]).name or r["r_addend"])
            for section in elf.iter_sections()
            if section["sh_type"] == "SHT_RELA"
            for r in section.iter_relocations()
        ]

    assert relocations(after) == relocations(before)
    assert relocations(after)
    table = after.get_section_by_name(".symtab")
    bindings = [symbol["st_info"]["bind"] for symbol in table.iter_symbols()]
    assert bindings == sorted(bindings, key=lambda b: b != "STB_LOCAL")
    assert table["sh_info"] == bindings.count("STB_LOCAL")


def test_a_program_links_it_beside_names_of_its_own(tmp_path: Path) -> None:
    """Another helper and another table, and a run() that takes precedence over the weak one."""
    toolchain, whole = combine_parts(X86_64, tmp_path)
    hidden = tmp_path / "hidden.o"
    hidden.write_bytes(keep_global(whole.read_bytes(), ("cf_open", "run"), ("run",)))
    toolchain.create_archive([hidden], tmp_path / "lib.a")
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nint cf_open(int);\nconst int table[] = {7};\nint helper(int x) { return x; }\n"
        "int run(int x) { return 100 * x; }\n"
        'int main(void) { printf("%d %d %d", cf_open(-3), run(2), helper(table[0])); return 0; }\n'
    )
    from builder.compiler.link.toolchain import run_zig

    run_zig(["cc", "main.c", "lib.a", "-o", "main"], tmp_path, CACHE)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert said == f"{6 + 20 - 2} 200 7"


def test_what_cannot_be_edited_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="not a 64-bit little-endian ELF object"):
        keep_global(b"not at all", ())
    (tmp_path / "a.c").write_text("int a(void) { return 1; }")
    toolchain = Toolchain(X86_64, CACHE)
    toolchain.compile_source(tmp_path / "a.c", tmp_path / "a.o")
    with pytest.raises(LinkError, match="does not define cf_open"):
        keep_global((tmp_path / "a.o").read_bytes(), ("a", "cf_open"))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_compilers_own_library_can_be_taken_in(target: Target, tmp_path: Path) -> None:
    """A division of 128 bits is a call that not every linker's library answers."""
    toolchain = Toolchain(target, CACHE)
    (tmp_path / "a.c").write_text("unsigned __int128 cf_run(unsigned __int128 a, long b) { return a / b; }\n")
    objects = [tmp_path / "a.o"]
    toolchain.compile_source(tmp_path / "a.c", objects[0])
    assert "__udivti3" in list_global_symbols(objects[0].read_bytes()).undefined
    objects.append(tmp_path / "builtins.o")
    toolchain.compile_builtins(objects[1])
    objects[1].write_bytes(keep_global(objects[1].read_bytes(), ("__udivti3",)))
    toolchain.combine_objects(objects, tmp_path / "whole.o")
    symbols = list_global_symbols(keep_global((tmp_path / "whole.o").read_bytes(), ("cf_run",)))
    assert symbols.defined == ("cf_run",)
    assert not {name for name in symbols.undefined if name.endswith("ti3")}
