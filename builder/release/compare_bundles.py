"""Comparison of two bundles: the files that differ, the first difference in each, and the inputs that changed."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builder.base.records import parse_json
from builder.package.provenance import STATEMENT
from builder.release.statement import parse_statement, read_plain, subjects_of

_LONGEST = 60  # The longest quoted value, in characters
_STEP = 65_536  # bytes


@dataclass(frozen=True)
class BundleComparison:
    """The comparison of a bundle with the one that was built again."""

    files: int
    """The number of files that were compared."""
    differing: Mapping[str, str]
    """The place where each file differs first."""
    measured: Mapping[str, str]
    """Files that differ only in what was measured on the machine that built them."""
    inputs: tuple[str, ...]
    """Recorded inputs that are others now."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self) | {"identical": self.identical}

    @property
    def identical(self) -> bool:
        """True if no file differs in more than what was measured."""
        return not self.differing


def compare_bundle_files(recorded: Path, made: Path) -> BundleComparison:
    """Compare two bundles that agree with their statements. Raises BundleError for an invalid statement."""
    before, after = (subjects_of(_read_statement(folder)) for folder in (recorded, made))
    differing: dict[str, str] = {}
    measured: dict[str, str] = {}
    for name in before | after:
        if name not in before or name not in after:
            differing[name] = "only in the first" if name in before else "only in the new one"
        elif before[name] != after[name]:
            old, new = recorded / name, made / name
            if old.name == "manifest.json" and _strip_measurements(old, before) == _strip_measurements(new, after):
                measured[name] = next(_list_differences(_read_json(old), _read_json(new)), "how it is written")
            else:
                differing[name] = first_difference(old, new)
    return BundleComparison(len(before), differing, measured, tuple(_compare_inputs(recorded, made)))


def _strip_measurements(path: Path, subjects: Mapping[str, str]) -> str | bytes:
    """Return the text of a manifest without the parts that depend on the machine that built it.

    These are its Python, how TensorFlow's answers differ there, and the measurements of "auto"; its choice is in the
    weights. A joined bundle's manifest has the digest of each model's manifest: whether that is the one which
    ``subjects``, its statement, names stands in its place. A file that is not a manifest stays as it is.
    """

    def without(manifest: Any) -> Any:
        if not isinstance(manifest, dict):
            return manifest
        remaining = {key: value for key, value in manifest.items() if key not in ("verification", "auto")}
        if isinstance(models := remaining.get("models"), list):
            remaining["models"] = [without(model) for model in models]
        if isinstance(tools := remaining.get("built_with"), dict):
            remaining["built_with"] = {key: value for key, value in tools.items() if key != "python"}
        if isinstance(files := remaining.get("files"), dict):
            remaining["files"] = {name: _entry(name, entry) for name, entry in files.items()}
        return remaining

    def _entry(name: str, entry: Any) -> Any:
        if name not in subjects or not re.fullmatch(r"[^/]+/manifest\.json", name):
            return entry
        return entry == {"bytes": (path.parent / name).stat().st_size, "sha256": subjects[name]}

    manifest = _read_json(path)
    return manifest if isinstance(manifest, bytes) else _format_json(without(manifest))


def _read_json(path: Path) -> Any:
    """Read a file of JSON; return its bytes if it is not JSON, or not written as a bundle's manifest is.

    So a duplicate key, which readers resolve differently, is not left out of the comparison.
    """
    data = path.read_bytes()
    try:
        value = parse_json(data)
        return value if _format_json(value).encode() == data else data
    except ValueError:
        return data


def _format_json(value: Any) -> str:
    """Write JSON as a bundle's manifest has it. Raises ValueError for a number that is not finite."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _compare_inputs(recorded: Path, made: Path) -> Iterator[str]:
    """Yield the recorded inputs, flags and tools that changed."""
    names = [STATEMENT, *(name for name in subjects_of(_read_statement(recorded)) if name.endswith(f"/{STATEMENT}"))]
    for name in names:
        before, after = (_read_recorded_inputs((folder / name).parent) for folder in (recorded, made))
        where = f"{Path(name).parent}: " if "/" in name else ""
        for key in before | after:
            if before.get(key) != after.get(key):
                yield f"{where}{key}: {before.get(key, 'not there')} → {after.get(key, 'not there')}"


def _read_recorded_inputs(folder: Path) -> dict[str, str]:
    """Return every input, flag and tool of the statement in ``folder``, by name; nothing without a statement."""
    if not (folder / STATEMENT).exists():
        return {}
    predicate = _read_statement(folder)["predicate"]
    definition = predicate["buildDefinition"]
    inputs = {key: str(value) for key, value in definition["internalParameters"].items()}
    inputs |= {f"version of {key}": str(v) for key, v in predicate["runDetails"]["builder"]["version"].items()}
    for entry in definition["resolvedDependencies"]:
        if not entry["name"].endswith(f"/{STATEMENT}"):  # The statement of a joined bundle's model is compared itself.
            inputs[entry["name"]] = ", ".join(map(str, entry.get("digest", {}).values())) or str(entry.get("uri", ""))
    return inputs


def _read_statement(folder: Path) -> dict[str, Any]:
    return parse_statement(read_plain(folder, STATEMENT))


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
        return next(_list_differences(json.loads(a), json.loads(b)), "how it is written")
    if zipfile.is_zipfile(recorded) and zipfile.is_zipfile(fresh):
        return _compare_zips(recorded, fresh)
    if a.startswith(b"\x7fELF") and b.startswith(b"\x7fELF"):
        return _compare_elf_sections(recorded, fresh)
    if b"\0" not in a + b:
        return _compare_lines(a.decode(errors="replace").splitlines(), b.decode(errors="replace").splitlines())
    return ""


def _list_differences(a: Any, b: Any, place: str = "") -> Iterator[str]:
    """Yield each place where two JSON values differ, as text."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a | b:
            where = f"{place}.{key}" if place else key
            if key not in a or key not in b:
                yield f"{where}: {'only in the first' if key in a else 'only in the new one'}"
            else:
                yield from _list_differences(a[key], b[key], where)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (old, new) in enumerate(zip(a, b, strict=True)):
            yield from _list_differences(old, new, f"{place}[{number}]")
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
