"""Make a relocatable object keep its names to itself: every symbol local but those of the public ABI.

What `objcopy --keep-global-symbols` does; zig's objcopy can't. The layout is that of the System V ABI, chapter 4
(ELF64, little-endian): https://gabi.xinuos.com
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import astuple, dataclass, replace
from enum import IntEnum

from builder.errors import LinkError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_RELOCATABLE = 1
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2
_UNDEFINED, _COMMON = 0, 0xFFF2


class _Type(IntEnum):
    """Types of the sections that hold numbers of symbols."""

    SYMTAB = 2
    RELA = 4
    REL = 9
    GROUP = 17
    SYMTAB_SHNDX = 18
    ADDRSIG = 0x6FFF4C03


@dataclass(frozen=True)
class Symbols:
    """Names of an object's symbols that other objects can see, sorted."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


@dataclass(frozen=True)
class _Section:
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def global_symbols(data: bytes) -> Symbols:
    """Those of the object in ``data``. Raises LinkError if it is none for a 64-bit little-endian machine."""
    sections = _sections(data)
    table, strings = _symbol_table(data, sections)
    seen = [
        (_name(strings, name), shndx)
        for name, info, _, shndx, _, _ in _SYMBOL.iter_unpack(table)
        if info >> 4 != _LOCAL
    ]
    return Symbols(
        tuple(sorted({name for name, shndx in seen if shndx != _UNDEFINED})),
        tuple(sorted({name for name, shndx in seen if shndx == _UNDEFINED})),
    )


def keep_global(data: bytes, public: Collection[str], weak: Collection[str] = ()) -> bytes:
    """The object in ``data`` with all that it defines local but ``public``, of which ``weak`` yield to another's.

    Raises LinkError for an object of another kind, and for a public name that it does not define.
    """
    sections = _sections(data)
    table, strings = _symbol_table(data, sections)
    locals_, globals_, found = list[int](), list[int](), set[str]()
    symbols = list(_SYMBOL.iter_unpack(table))
    for index, (name, info, _, shndx, value, size) in enumerate(symbols):
        binding, text = info >> 4, _name(strings, name)
        if shndx == _COMMON:
            raise LinkError(f"{text} is a common symbol; compile it with -fno-common.")
        if binding != _LOCAL and shndx != _UNDEFINED:
            public_here = text in public
            found |= {text} & set(public)
            binding = (_WEAK if text in weak else _GLOBAL) if public_here else _LOCAL
            # A local symbol has no visibility; a public one may be exported by whoever links it.
            symbols[index] = (name, binding << 4 | info & 0xF, 0, shndx, value, size)
        (locals_ if binding == _LOCAL else globals_).append(index)
    if missing := set(public) - found:
        raise LinkError(f"the object does not define {', '.join(sorted(missing))}.")

    order = [*locals_, *globals_]  # the format has all local ones first, and sh_info says how many
    moved = {old: new for new, old in enumerate(order)}
    result = bytearray(data)
    at = _HEADER.unpack_from(data)[6]
    for number, section in enumerate(sections):
        start = at + number * _SECTION.size
        match section.type:
            case _Type.SYMTAB:
                packed = b"".join(_SYMBOL.pack(*symbols[index]) for index in order)
                result[section.offset : section.offset + section.size] = packed
                _set(result, start, replace(section, info=len(locals_)))
            case _Type.RELA:
                for place in range(section.offset, section.offset + section.size, _RELOCATION.size):
                    offset, info, addend = _RELOCATION.unpack_from(data, place)
                    info = moved[info >> 32] << 32 | info & 0xFFFFFFFF
                    _RELOCATION.pack_into(result, place, offset, info, addend)
            case _Type.GROUP:  # sh_info is the symbol that names it
                _set(result, start, replace(section, info=moved[section.info]))
            case _Type.ADDRSIG:  # without a link to the symbols it is out of date, and linkers pass it over
                _set(result, start, replace(section, link=0))
            case _Type.REL | _Type.SYMTAB_SHNDX if section.size:
                raise LinkError(f"the object has a section of type {section.type:#x}, which can't be edited.")
    return bytes(result)


def _set(result: bytearray, start: int, section: _Section) -> None:
    _SECTION.pack_into(result, start, *astuple(section))


def _sections(data: bytes) -> list[_Section]:
    if len(data) < _HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        raise LinkError("this is not a 64-bit little-endian ELF object.")
    _, kind, _, _, _, _, at, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    if kind != _RELOCATABLE or size != _SECTION.size or count == 0:
        raise LinkError("this is not a relocatable object, or it has too many sections.")
    return [_Section(*_SECTION.unpack_from(data, at + number * size)) for number in range(count)]


def _symbol_table(data: bytes, sections: list[_Section]) -> tuple[bytes, bytes]:
    tables = [s for s in sections if s.type == _Type.SYMTAB]
    if len(tables) != 1:
        raise LinkError("the object has no symbols.")
    names = sections[tables[0].link]
    table = data[tables[0].offset : tables[0].offset + tables[0].size]
    return table, data[names.offset : names.offset + names.size]


def _name(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()
