"""The facts of an ELF shared object, read with pyelftools and not yet judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elftools.elf.constants import P_FLAGS
from elftools.elf.elffile import ELFFile

from builder.base.errors import AuditError

Relro = Literal["none", "partial", "full"]

_DF_TEXTREL = 0x4
_DF_BIND_NOW = 0x8
_DF_1_NOW = 0x1
_DF_1_NODELETE = 0x8
_UNVERSIONED = ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")
# A corrupt file may claim four thousand million version records that all point at each other.
_MAX_VERSION_RECORDS = 10_000


@dataclass(frozen=True)
class Symbol:
    """A symbol that the library imports; ``version`` and ``library`` are empty when it has none."""

    name: str
    version: str = ""
    library: str = ""
    weak: bool = False


@dataclass(frozen=True)
class Segment:
    """A program header: ``flags`` as in ``r-x``, and its sizes in bytes on disk and in memory."""

    kind: str
    flags: str
    file_size: int
    memory_size: int


@dataclass(frozen=True)
class ElfFacts:
    """The facts that the policy judges and the report shows; sizes are in bytes."""

    size: int
    kind: str  # "ET_DYN" for a shared object
    machine: str  # pyelftools' name, as in ``Elf.machine``
    bits: int
    little_endian: bool
    soname: str
    needed: tuple[str, ...]
    exports: tuple[str, ...]
    undefined: tuple[Symbol, ...]
    versions: tuple[str, ...]  # as in "libc.so.6:GLIBC_2.14": each one that the loader requires
    glibc: str  # the highest GLIBC version required, "" for none
    relro: Relro
    stays_loaded: bool  # dlclose leaves it in memory
    nx_stack: bool
    writable_code: bool  # a segment is both writable and executable
    text_relocations: bool
    search_path: tuple[str, ...]  # RPATH and RUNPATH
    constructors: bool  # something runs at dlopen
    stripped: bool
    sections: tuple[tuple[str, int], ...]
    segments: tuple[Segment, ...]


def read_facts(path: Path) -> ElfFacts:
    """Read the facts of ``path``. Raises AuditError when it is not a whole, well-formed ELF shared object."""
    try:
        size = path.stat().st_size
        stream = path.open("rb")
    except OSError as error:
        raise AuditError(f"{path.name} cannot be read ({error.strerror}): build it again.") from error
    with stream:
        try:
            return _read_elf(ELFFile(stream), size)
        except Exception as error:
            # pyelftools raises many errors for a damaged file: ELFError, its construct library's errors,
            # UnicodeDecodeError, KeyError, MemoryError, ...
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            raise AuditError(f"{path.name} is not a sound ELF shared object ({why}): build it again.") from error


def _read_elf(elf: Any, size: int) -> ElfFacts:
    headers = list(elf.iter_segments())
    segments = tuple(_read_segment(h) for h in headers)
    sections = tuple((str(s.name), int(s["sh_size"])) for s in elf.iter_sections())
    if any(h["p_type"] == "PT_LOAD" and h["p_offset"] + h["p_filesz"] > size for h in headers):
        raise AuditError("it is cut short: a segment ends beyond the end of the file")
    tags = _read_dynamic_tags(headers)
    names = [name for name, _ in sections]
    if ".dynsym" not in names:
        raise AuditError("no .dynsym section, so its exports cannot be listed")
    versions = _read_version_needs(elf)
    exports, undefined = _read_symbols(elf, versions)
    now = (
        "DT_BIND_NOW" in tags
        or any(int(v) & _DF_BIND_NOW for v in tags.get("DT_FLAGS", ()))
        or any(int(v) & _DF_1_NOW for v in tags.get("DT_FLAGS_1", ()))
    )
    has_relro = any(s.kind == "PT_GNU_RELRO" for s in segments)
    stacks = [s for s in segments if s.kind == "PT_GNU_STACK"]
    return ElfFacts(
        size=size,
        kind=str(elf["e_type"]),
        machine=str(elf["e_machine"]),
        bits=elf.elfclass,
        little_endian=elf.little_endian,
        soname=next(iter(tags.get("DT_SONAME", ())), ""),
        needed=tuple(tags.get("DT_NEEDED", ())),
        exports=exports,
        undefined=undefined,
        versions=tuple(sorted({f"{library}:{version}" for library, version in versions.values()})),
        glibc=_find_highest_glibc(version for _, version in versions.values()),
        relro=("full" if now else "partial") if has_relro else "none",
        stays_loaded=any(int(v) & _DF_1_NODELETE for v in tags.get("DT_FLAGS_1", ())),
        # Without the header the loader assumes the worst and makes the stack executable.
        nx_stack=bool(stacks) and all("x" not in s.flags for s in stacks),
        writable_code=any(s.kind == "PT_LOAD" and {"w", "x"} <= set(s.flags) for s in segments),
        text_relocations="DT_TEXTREL" in tags or any(int(v) & _DF_TEXTREL for v in tags.get("DT_FLAGS", ())),
        search_path=(*tags.get("DT_RPATH", ()), *tags.get("DT_RUNPATH", ())),
        constructors="DT_INIT" in tags
        or any(int(v) for t in ("DT_INIT_ARRAYSZ", "DT_PREINIT_ARRAYSZ") for v in tags.get(t, ())),
        stripped=not any(name == ".symtab" or name.startswith(".debug") for name in names),
        sections=tuple((name, length) for name, length in sections if name),
        segments=segments,
    )


def _read_segment(header: Any) -> Segment:
    bits = int(header["p_flags"])
    flags = "".join(
        letter if bits & bit else "-" for letter, bit in (("r", P_FLAGS.PF_R), ("w", P_FLAGS.PF_W), ("x", P_FLAGS.PF_X))
    )
    return Segment(str(header["p_type"]), flags, int(header["p_filesz"]), int(header["p_memsz"]))


def _read_dynamic_tags(headers: list[Any]) -> dict[str, list[str]]:
    """Read the values of every dynamic tag: names for DT_NEEDED and its like, decimal numbers for the others."""
    dynamic = next((h for h in headers if h["p_type"] == "PT_DYNAMIC"), None)
    if dynamic is None:
        raise AuditError("no dynamic segment: not a shared object")
    tags: dict[str, list[str]] = {}
    for tag in dynamic.iter_tags():
        kind = str(tag.entry.d_tag)
        named = kind in ("DT_NEEDED", "DT_SONAME", "DT_RPATH", "DT_RUNPATH")
        value = getattr(tag, kind.removeprefix("DT_").lower()) if named else tag.entry.d_val
        tags.setdefault(kind, []).append(str(value))
    return tags


def _read_version_needs(elf: Any) -> dict[int, tuple[str, str]]:
    """Map each version index, as in ``.gnu.version``, to its (library, version)."""
    section = elf.get_section_by_name(".gnu.version_r")
    needs: dict[int, tuple[str, str]] = {}
    if section is None:
        return needs
    records = 0
    for need, auxiliaries in section.iter_versions():
        for auxiliary in auxiliaries:
            needs[int(auxiliary["vna_other"])] = (str(need.name), str(auxiliary.name))
            records += 1
            if records > _MAX_VERSION_RECORDS:
                raise AuditError("its version records do not end")
    return needs


def _read_symbols(elf: Any, versions: dict[int, tuple[str, str]]) -> tuple[tuple[str, ...], tuple[Symbol, ...]]:
    """Return the names that the library exports and the symbols that it imports, both sorted."""
    indices = elf.get_section_by_name(".gnu.version")
    exports: set[str] = set()
    undefined: set[Symbol] = set()
    for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        binding = symbol["st_info"]["bind"]
        if not symbol.name or binding == "STB_LOCAL":
            continue
        if symbol["st_shndx"] != "SHN_UNDEF":
            exports.add(symbol.name)
            continue
        index = indices.get_symbol(number)["ndx"] if indices is not None else "VER_NDX_GLOBAL"
        library, version = ("", "") if index in _UNVERSIONED else versions.get(int(index), ("", ""))
        undefined.add(Symbol(symbol.name, version, library, weak=binding == "STB_WEAK"))
    return tuple(sorted(exports)), tuple(sorted(undefined, key=lambda s: (s.name, s.version)))


def _find_highest_glibc(versions: Iterator[str]) -> str:
    numbers = [m[1] for m in (re.fullmatch(r"GLIBC_([0-9]+(?:\.[0-9]+)*)", v) for v in versions) if m]
    return max(numbers, key=parse_version, default="")


def parse_version(version: str) -> tuple[int, ...]:
    """Return ``"2.34"`` as ``(2, 34)``, for comparisons."""
    return tuple(int(part) for part in version.split("."))
