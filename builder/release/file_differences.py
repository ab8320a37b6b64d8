"""The first difference between two files of one name, in words that fit their format."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LONGEST = 60  # The longest quoted value, in characters
_STEP = 65_536  # bytes


def first_difference(recorded: Path, fresh: Path) -> str:
    """Return where two files that differ do so first: a key, a line, a section, a member or a byte."""
    a, b = recorded.read_bytes(), fresh.read_bytes()
    try:
        return _by_kind(recorded, fresh, a, b) or _compare_bytes(a, b)
    except Exception:  # Whoever made the bundle may have made a file that breaks its reader in any way.
        return _compare_bytes(a, b)


def _by_kind(recorded: Path, fresh: Path, a: bytes, b: bytes) -> str:
    """Describe the difference in words that fit the format of both files; empty for an unknown format."""
    if recorded.suffix == ".json":
        return next(list_differences(json.loads(a), json.loads(b)), "how it is written")
    if zipfile.is_zipfile(recorded) and zipfile.is_zipfile(fresh):
        return _compare_zips(recorded, fresh)
    if a.startswith(b"\x7fELF") and b.startswith(b"\x7fELF"):
        return _compare_elf_sections(recorded, fresh)
    if b"\0" not in a + b:
        return _compare_lines(a.decode(errors="replace").splitlines(), b.decode(errors="replace").splitlines())
    return ""


def list_differences(a: Any, b: Any, place: str = "") -> Iterator[str]:
    """Yield each place where two JSON values differ, as text."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            where = f"{place}.{key}" if place else key
            if key not in a or key not in b:
                yield f"{where}: {'only in the first' if key in a else 'only in the new one'}"
            else:
                yield from list_differences(a[key], b[key], where)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (old, new) in enumerate(zip(a, b, strict=True)):
            yield from list_differences(old, new, f"{place}[{number}]")
    elif a != b:
        yield f"{place}: {_quote_value(a)} → {_quote_value(b)}"


def _quote_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _compare_zips(recorded: Path, fresh: Path) -> str:
    with zipfile.ZipFile(recorded) as a, zipfile.ZipFile(fresh) as b:
        for old, new in zip(a.infolist(), b.infolist(), strict=False):
            if old.filename != new.filename:
                return f"{old.filename} stands where {new.filename} does in the new one"
            if old.CRC != new.CRC:
                return f"its {old.filename}"
            if old.date_time != new.date_time:
                return f"the time of {old.filename} (SOURCE_DATE_EPOCH)"
        if len(a.infolist()) != len(b.infolist()):
            return f"{len(a.infolist())} files, {len(b.infolist())} in the new one"
    return "how it is compressed (another zlib)"


def _compare_elf_sections(recorded: Path, fresh: Path) -> str:
    """Return the first section of an ELF file that differs; empty where none does."""
    from elftools.elf.elffile import ELFFile

    with recorded.open("rb") as old, fresh.open("rb") as new:
        a, b = ELFFile(old), ELFFile(new)
        for x, y in zip(a.iter_sections(), b.iter_sections(), strict=False):
            if x.name != y.name:
                return f"section {x.name}, which is {y.name} in the new one"
            one_data, other_data = _read_section(x), _read_section(y)
            if one_data != other_data:
                return f"section {x.name}, {_compare_bytes(one_data, other_data)}"
    return ""


def _read_section(section: Any) -> bytes:
    """Return the bytes of a section as they are in the file: a compressed one of 1 MB may be 2 GB otherwise."""
    if section["sh_type"] == "SHT_NOBITS":
        return b""
    section.stream.seek(section["sh_offset"])
    data: bytes = section.stream.read(section["sh_size"])
    return data


def _compare_lines(a: list[str], b: list[str]) -> str:
    for number, (old, new) in enumerate(zip(a, b, strict=False), 1):
        if old != new:
            return f"line {number}: {_quote_value(old)} → {_quote_value(new)}"
    return f"{len(a)} lines, {len(b)} in the new one"


def _compare_bytes(a: bytes, b: bytes) -> str:
    start = next((i for i in range(0, min(len(a), len(b)), _STEP) if a[i : i + _STEP] != b[i : i + _STEP]), len(a))
    pairs = zip(a[start : start + _STEP], b[start : start + _STEP], strict=False)
    at = next((start + i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
    return f"byte {at:,} of {len(a):,}" + (f" ({len(b):,} in the new one)" if len(a) != len(b) else "")
