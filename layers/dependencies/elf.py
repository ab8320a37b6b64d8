"""Read what a shared library needs and offers, and write a smaller one: ``stripped`` of what is only for debuggers, or
a ``stand_in``, which offers the same and does nothing.

ELF for 64-bit little-endian machines, by the generic ABI (https://gabi.xinuos.com) and the GNU extensions for symbol
versions. Standalone, like build.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

X86_64, AARCH64 = 62, 183  # e_machine

_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551  # p_type
_EXECUTE, _WRITE, _READ = 1, 2, 4
_NEEDED, _HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 1, 4, 5, 6, 10, 11, 14
_VERSYM, _VERDEF, _VERDEFNUM, _GNU_HASH = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFEF5
_HEADER, _SEGMENT, _SYMBOL = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ"), struct.Struct("<IBBHQQ")
_VERSION, _VERSION_NAME = struct.Struct("<HHHHIII"), struct.Struct("<II")
_FUNCTION = 0x12  # STB_GLOBAL, STT_FUNC

_MARK = {X86_64: b"\xf3\x0f\x1e\xfa", AARCH64: b"\x5f\x24\x03\xd5"}  # endbr64, bti c
_ZERO = {X86_64: b"\x31\xc0\xc3", AARCH64: b"\x00\x00\x80\xd2\xc0\x03\x5f\xd6"}  # return 0
_SLOT = 16  # bytes for a function


class ElfError(ValueError):
    """The file is no ELF library of the kind that is read here."""


@dataclass(frozen=True)
class Symbol:
    """A name that a library defines (or only needs), with its version where it has one."""

    name: str
    version: str
    defined: bool
    function: bool


class Library:
    """A shared library's dynamic section. Raises ElfError."""

    def __init__(self, data: bytes) -> None:
        try:
            self._read(data)
        except (struct.error, IndexError, KeyError) as error:
            raise ElfError(f"not a shared library of 64 bits: {error}") from error

    def _read(self, data: bytes) -> None:
        ident, _, self.machine, _, _, table, _, _, _, size, count, *_ = _HEADER.unpack_from(data)
        if ident[:6] != b"\x7fELF\x02\x01":
            raise ElfError("not a 64-bit little-endian ELF file")
        self._data = data
        segments = [_SEGMENT.unpack_from(data, table + i * size) for i in range(count)]
        self._loads = [(s[3], s[2], s[5]) for s in segments if s[0] == _LOAD]
        entries: list[tuple[int, int]] = []
        for at, length in ((s[2], s[5]) for s in segments if s[0] == _DYNAMIC):
            entries += struct.iter_unpack("<qQ", data[at : at + length // 16 * 16])
        end = entries.index((0, 0)) if (0, 0) in entries else len(entries)
        entries = entries[:end]
        self._tags = dict(entries)
        self.needed = tuple(self._text(value) for tag, value in entries if tag == _NEEDED)
        self.soname = self._text(self._tags[_SONAME]) if _SONAME in self._tags else ""

    def symbols(self) -> Iterator[Symbol]:
        """Every dynamic symbol that has a name."""
        table, versions = self._offset(self._tags[_SYMTAB]), self._versions()
        versym = self._offset(self._tags[_VERSYM]) if _VERSYM in self._tags else None
        for i in range(1, self._count()):
            name, info, _, section, _, _ = _SYMBOL.unpack_from(self._data, table + i * _SYMBOL.size)
            number = 0 if versym is None else struct.unpack_from("<H", self._data, versym + 2 * i)[0] & 0x7FFF
            text = self._text(name)
            if text and info >> 4:  # not a local one
                yield Symbol(text, versions.get(number, ""), section != 0, info & 15 == 2)

    def _versions(self) -> dict[int, str]:
        """The versions that the library defines, by the number that symbols give them."""
        found: dict[int, str] = {}
        if _VERDEF not in self._tags:
            return found
        at = self._offset(self._tags[_VERDEF])
        for _ in range(self._tags[_VERDEFNUM]):
            _, flags, number, _, _, names, following = _VERSION.unpack_from(self._data, at)
            if not flags & 1:  # 1: the library's own name
                found[number] = self._text(_VERSION_NAME.unpack_from(self._data, at + names)[0])
            at += following
        return found

    def _count(self) -> int:
        """How many dynamic symbols there are: only the hash tables say."""
        if _HASH in self._tags:
            return int(struct.unpack_from("<II", self._data, self._offset(self._tags[_HASH]))[1])
        at = self._offset(self._tags[_GNU_HASH])
        buckets, first, bloom, _ = struct.unpack_from("<IIII", self._data, at)
        at += 16 + 8 * bloom
        last = max(struct.unpack_from(f"<{buckets}I", self._data, at))
        if last < first:
            return int(first)
        chain = at + 4 * buckets
        while not struct.unpack_from("<I", self._data, chain + 4 * (last - first))[0] & 1:
            last += 1
        return int(last + 1)

    def _offset(self, address: int) -> int:
        for start, offset, size in self._loads:
            if start <= address < start + size:
                return address - start + offset
        raise ElfError(f"nothing is loaded at {address:#x}")

    def _text(self, number: int) -> str:
        at = self._offset(self._tags[_STRTAB]) + number
        return self._data[at : self._data.index(b"\0", at)].decode()


def stand_in(library: Library, wanted: Mapping[str, str], texts: Mapping[str, str]) -> bytes:
    """A library with the soname of ``library`` that defines the functions ``wanted``, names to versions.

    Each returns 0, or the address of its text in ``texts``. It needs no other library and has no initialiser.
    """
    strings = _Strings()
    names = sorted(wanted)
    versions = sorted({v for v in wanted.values() if v})
    code = {name: _SLOT * i for i, name in enumerate(names)}
    tail = b"".join(texts[name].encode() + b"\0" for name in names if name in texts)

    soname = strings.add(library.soname)
    symbols = bytearray(_SYMBOL.size)
    symbol_at = [(strings.add(name), code[name]) for name in names]
    definitions = _definitions(library.soname, versions, strings) if versions else b""
    numbers = struct.pack(f"<{len(names) + 1}H", 0, *(versions.index(wanted[n]) + 2 if wanted[n] else 1 for n in names))
    chain = [0, *range(2, len(names) + 1), 0] if names else [0]
    hashes = struct.pack(f"<{3 + len(chain)}I", 1, len(chain), min(1, len(names)), *chain)

    place, offsets = _HEADER.size + 4 * _SEGMENT.size, []
    sizes = (len(symbols) * (len(names) + 1), len(strings.data), len(hashes), len(numbers), len(definitions))
    for size in (*sizes, _SLOT * len(names)):
        offsets.append(place)
        place = (place + size + 15) & ~15
    symtab, strtab, hashtab, versym, verdef, text = offsets
    for name, at in symbol_at:
        symbols += _SYMBOL.pack(name, _FUNCTION, 0, 1, text + at, _SLOT)

    functions, extra = bytearray(), len(names) * _SLOT
    for name in names:
        body = _MARK[library.machine]
        if name in texts:
            body += _address(library.machine, extra - len(functions) - len(body))
            extra += len(texts[name].encode()) + 1
        else:
            body += _ZERO[library.machine]
        functions += body.ljust(_SLOT, b"\0")

    image = bytearray()
    for at, piece in zip(offsets, (symbols, strings.data, hashes, numbers, definitions, functions + tail), strict=True):
        image += bytes(at - _HEADER.size - 4 * _SEGMENT.size - len(image)) + piece
    image += bytes(-len(image) % 16)
    end = _HEADER.size + 4 * _SEGMENT.size + len(image)
    tags = [(_SONAME, soname), (_HASH, hashtab), (_STRTAB, strtab), (_SYMTAB, symtab)]
    tags += [(_STRSZ, len(strings.data)), (_SYMENT, _SYMBOL.size)]
    if versions:
        tags += [(_VERSYM, versym), (_VERDEF, verdef), (_VERDEFNUM, len(versions) + 1)]
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (0, 0)])
    # The loader writes into the dynamic section, so that has a page of its own, of the largest size there is.
    page = 0x10000
    where = end + page
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0"), 3, library.machine, 1, 0, _HEADER.size, 0, 0, _HEADER.size,
        _SEGMENT.size, 4, 0, 0, 0,
    )  # fmt: skip
    header += _SEGMENT.pack(_LOAD, _READ | _EXECUTE, 0, 0, 0, end, end, page)
    header += _SEGMENT.pack(_LOAD, _READ | _WRITE, end, where, where, len(dynamic), len(dynamic), page)
    header += _SEGMENT.pack(_DYNAMIC, _READ | _WRITE, end, where, where, len(dynamic), len(dynamic), 8)
    header += _SEGMENT.pack(_STACK, _READ | _WRITE, 0, 0, 0, 0, 0, 16)
    return header + bytes(image) + dynamic


def stripped(data: bytes) -> bytes:
    """The library ``data`` with nothing but what the loader maps: no sections, and so no symbols for debuggers.

    A segment keeps its address, and its place in the file modulo its alignment. Raises ElfError.
    """
    try:
        header = list(_HEADER.unpack_from(data))
        table, size, count = header[5], header[9], header[10]
        segments = [_SEGMENT.unpack_from(data, table + i * size) for i in range(count)]
    except struct.error as error:
        raise ElfError(f"not a shared library of 64 bits: {error}") from error
    loads = sorted((s for s in segments if s[0] == _LOAD), key=lambda s: s[2])
    if header[0][:6] != b"\x7fELF\x02\x01" or not loads or loads[0][2] or table + size * count > loads[0][5]:
        raise ElfError("not a 64-bit little-endian library whose table of segments is mapped")
    image, moved = bytearray(), []
    for _, _, offset, address, _, length, _, align in loads:
        image += bytes((address - len(image)) % max(align, 1))
        moved.append((offset, offset + length, len(image) - offset))
        image += data[offset : offset + length]
    header[6] = header[11] = header[12] = header[13] = 0  # where the sections were
    image[: _HEADER.size] = _HEADER.pack(*header)
    for i, (kind, flags, offset, address, physical, length, memory, align) in enumerate(segments):
        if length:
            shift = next((by for start, end, by in moved if start <= offset and offset + length <= end), None)
            if shift is None:
                raise ElfError(f"a segment of kind {kind:#x} is not mapped")
            offset += shift
        _SEGMENT.pack_into(image, table + i * size, kind, flags, offset, address, physical, length, memory, align)
    return bytes(image)


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def _definitions(soname: str, versions: list[str], strings: _Strings) -> bytes:
    """The table of versions, the library's own name first. Each entry: its head and its one name."""
    result = b""
    size = _VERSION.size + _VERSION_NAME.size
    for number, name in enumerate([soname, *versions], 1):
        following = size if number <= len(versions) else 0
        result += _VERSION.pack(1, number == 1, number, 1, _hash(name), _VERSION.size, following)
        result += _VERSION_NAME.pack(strings.add(name), 0)
    return result


def _hash(name: str) -> int:
    """The generic ABI's hash of a name."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value


def _address(machine: int, distance: int) -> bytes:
    """Return what lies ``distance`` bytes after this instruction's own first byte."""
    if machine == X86_64:
        return b"\x48\x8d\x05" + struct.pack("<i", distance - 7) + b"\xc3"  # lea rax, [rip + …]; ret
    return struct.pack("<I", 0x10000000 | (distance & 3) << 29 | (distance >> 2) << 5) + b"\xc0\x03\x5f\xd6"  # adr; ret
