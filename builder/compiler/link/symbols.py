"""The hiding of a relocatable object's names: every symbol becomes local but those of the public ABI.

This is ``objcopy --keep-global-symbols``, which zig's objcopy does not have. pyelftools reads the object; fields are
written at their offsets in the System V ABI, chapter 4 (ELF64): https://gabi.xinuos.com
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from builder.base.errors import LinkError

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
