"""libmodel.a: the model as a static library, which defines only the names of the ABI.

Every symbol of its one object becomes local but those of the ABI. This is ``objcopy --keep-global-symbols``, which
zig's objcopy does not have. pyelftools reads the object; fields are written at their offsets in the System V ABI,
chapter 4 (ELF64): https://gabi.xinuos.com
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from builder.base.errors import LinkError
from builder.base.targets import Target
from builder.compiler.audit.elf_facts import read_facts
from builder.compiler.emit import GeneratedSources
from builder.compiler.link.shared_library import compile_objects, format_exports_map, list_public_names
from builder.compiler.link.toolchain import Toolchain

ARCHIVE = "libmodel.a"
TRIAL = "trial.so"
"""The shared library that the archive is linked into for `verify`; it is not delivered."""

WEAK = ("run",)
"""Weak names: a program may have a function of that name, and then uses its own."""


def link_archive(sources: GeneratedSources, kernels: Sequence[Path], target: Target, folder: Path, cache: Path) -> Path:
    """Build ``libmodel.a`` in ``folder``, of the same sources as ``libmodel.so``, and ``trial.so`` from it.

    The archive's one member defines the ABI's functions and hides everything else, so that it clashes with no
    program's names; ``run`` is weak. It needs the C library and its libm, but no compiler's library.
    Raises LinkError with the compiler's or linker's message.
    """
    toolchain = Toolchain(target, cache)
    objects = compile_objects(sources, toolchain, folder)
    whole, trial, exports = folder / "model.o", folder / TRIAL, folder / "exports.map"
    public = list_public_names(sources)
    exports.write_text(format_exports_map(public))

    def combine() -> set[str]:
        """Combine the objects and link the trial; return the names that the compiler's own library has to define."""
        toolchain.combine_objects([*objects, *kernels], whole)
        whole.write_bytes(keep_global(whole.read_bytes(), public, WEAK))
        toolchain.link_shared_library([whole], exports, trial)
        # The linker added that library as a whole, even its memcpy, which the C library has as well.
        imports = {symbol.name for symbol in read_facts(trial).undefined}
        wanted = set(list_global_symbols(whole.read_bytes()).undefined) - imports
        return {name for name in wanted if name.startswith("__")}

    if missing := combine():
        builtins = folder / "builtins.o"
        toolchain.compile_builtins(builtins)
        # Its other names are hidden: the C library's memcpy and expf are faster.
        builtins.write_bytes(keep_global(builtins.read_bytes(), missing))
        objects.append(builtins)
        combine()
    archive = folder / ARCHIVE
    toolchain.create_archive([whole], archive)
    for path in (*objects, whole, exports):
        path.unlink()
    return archive


_NUMBER = struct.Struct("<I")
_LINK, _INFO, _SYMBOL_OF_RELOCATION = 40, 44, 12
"""Offsets in bytes of a section header's sh_link and sh_info, and of a relocation's symbol."""
_ADDRSIG = 0x6FFF4C03
"""The type of LLVM's section of symbols whose address matters; pyelftools has no name for it."""
_BINDINGS = {"STB_LOCAL": 0, "STB_GLOBAL": 1, "STB_WEAK": 2}


@dataclass(frozen=True)
class Symbols:
    """The sorted names of an object's symbols that other objects can see."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


def list_global_symbols(data: bytes) -> Symbols:
    """List the global symbols of the object in ``data``. Raises LinkError unless it is 64-bit and little-endian."""
    symbols = [symbol for symbol in _read_symbols(data)[1].iter_symbols() if symbol["st_info"]["bind"] != "STB_LOCAL"]
    undefined = {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
    defined = {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"}
    return Symbols(tuple(sorted(defined)), tuple(sorted(undefined)))


def keep_global(data: bytes, public: Collection[str], weak: Collection[str] = ()) -> bytes:
    """Make every symbol that the object in ``data`` defines local but ``public``, and make ``weak`` of these weak.

    Raises LinkError for another kind of object, and for a public name that it does not define.
    """
    elf, table = _read_symbols(data)
    entries, locals_, globals_, missing = table.data(), list[int](), list[int](), set(public)
    rows = [entries[at : at + table["sh_entsize"]] for at in range(0, len(entries), table["sh_entsize"])]
    for index, symbol in enumerate(table.iter_symbols()):
        binding = symbol["st_info"]["bind"]
        if symbol["st_shndx"] == "SHN_COMMON":
            raise LinkError(f"{symbol.name} is a common symbol; compile it with -fno-common.")
        if binding != "STB_LOCAL" and symbol["st_shndx"] != "SHN_UNDEF":
            missing.discard(symbol.name)
            exported = "STB_WEAK" if symbol.name in weak else "STB_GLOBAL"
            binding = exported if symbol.name in public else "STB_LOCAL"
            # A local symbol has no visibility; a public one may be exported by the program that it is linked into.
            info = bytes([_BINDINGS[binding] << 4 | rows[index][4] & 0xF, 0])
            rows[index] = rows[index][:4] + info + rows[index][6:]
        (locals_ if binding == "STB_LOCAL" else globals_).append(index)
    if missing:
        raise LinkError(f"the object does not define {', '.join(sorted(missing))}.")

    order = [*locals_, *globals_]  # The format has all local symbols first; sh_info is their number.
    moved = {old: new for new, old in enumerate(order)}
    result = bytearray(data)
    for index, section in enumerate(elf.iter_sections()):
        header, start, size = elf["e_shoff"] + index * elf["e_shentsize"], section["sh_offset"], section["sh_size"]
        match section["sh_type"]:
            case "SHT_SYMTAB":
                result[start : start + size] = b"".join(rows[index] for index in order)
                _NUMBER.pack_into(result, header + _INFO, len(locals_))
            case "SHT_RELA":
                for place in range(start, start + size, section["sh_entsize"]):
                    (old,) = _NUMBER.unpack_from(data, place + _SYMBOL_OF_RELOCATION)
                    _NUMBER.pack_into(result, place + _SYMBOL_OF_RELOCATION, moved[old])
            case "SHT_GROUP":  # sh_info is the symbol that names the group.
                _NUMBER.pack_into(result, header + _INFO, moved[section["sh_info"]])
            case kind if kind == _ADDRSIG:  # Without a link to the symbols, linkers ignore it.
                _NUMBER.pack_into(result, header + _LINK, 0)
            case "SHT_REL" | "SHT_SYMTAB_SHNDX" if size:
                raise LinkError(f"the object has a section of type {section['sh_type']}, which cannot be edited.")
    return bytes(result)


def _read_symbols(data: bytes) -> tuple[Any, Any]:
    """Return the object in ``data`` and its table of symbols. Raises LinkError."""
    try:
        elf = ELFFile(io.BytesIO(data))
    except ELFError:
        elf = None
    if elf is None or elf.elfclass != 64 or not elf.little_endian:
        raise LinkError("this is not a 64-bit little-endian ELF object.")
    if elf["e_type"] != "ET_REL" or elf.num_sections() == 0:
        raise LinkError("this is not a relocatable object, or it has too many sections.")
    tables = list(elf.iter_sections("SHT_SYMTAB"))
    if len(tables) != 1:
        raise LinkError("the object has no symbols.")
    return elf, tables[0]
