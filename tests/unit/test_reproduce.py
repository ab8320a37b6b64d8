"""Two builds compared: what differs, where first, and which recorded input is another."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zipfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import BundleError
from builder.cli.provenance_commands import require_identical
from builder.cli.summaries import format_comparison
from builder.package.bundle import EVERY_BUNDLE
from builder.package.provenance import BUILD_TYPE, STATEMENT, Material, statement_json
from builder.release.compare_bundles import compare_bundle_files, first_difference

MANIFEST = {
    "built_with": {"python": "3.11", "zig": "0"},
    "verification": {"worst": 1e-7},
    "auto": {"accuracy": 0.99},
    "files": {"NOTICE": {"bytes": 0, "sha256": sha256(b"").hexdigest()}},
    "sizes": {"components": [{"name": "model layer", "unzipped": 4, "zipped": 2, "layer": True}], "unzipped": 4},
    "abi": 1,
}


def manifest_text(manifest: Any) -> str:
    return json.dumps(manifest, indent=2) + "\n"


def bundle(folder: Path, *, toml: str = "1", zig: str = "0", header: str = "a\nb\n", **manifest: Any) -> Path:
    for name in EVERY_BUNDLE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    (folder / "model.h").write_text(header)
    (folder / "manifest.json").write_text(manifest_text(MANIFEST | manifest))
    return restate(folder, toml=toml, zig=zig)


def restate(folder: Path, *, toml: str = "1", zig: str = "0") -> Path:
    """Write the statement of the files that are there."""
    text = statement_json(
        folder,
        build_type=BUILD_TYPE,
        external={"model": "model.toml", "target": "x86_64", "package": "zip"},
        internal={"xla_flags": "--a"},
        materials=[Material("model.toml", {"sha256": toml * 64}), Material("ziglang", uri=f"pkg:pypi/ziglang@{zig}")],
        builder="coldforge:host",
        versions={"zig": zig},
        environment={},
    )
    (folder / STATEMENT).write_text(text)
    return folder


def test_the_same_is_identical(tmp_path: Path) -> None:
    done = compare_bundle_files(bundle(tmp_path / "a"), bundle(tmp_path / "b"))
    require_identical(done)
    assert list(format_comparison(done)) == ["identical: 6 files"]


def test_another_input_is_named_with_what_it_changed(tmp_path: Path) -> None:
    done = compare_bundle_files(bundle(tmp_path / "a"), bundle(tmp_path / "b", toml="2", header="a\nc\n"))
    assert done.differing == {"model.h": 'line 2: "b" → "c"'}
    assert done.inputs == (f"model.toml: {'1' * 64} → {'2' * 64}",)
    with pytest.raises(BundleError, match=r"1 of 6 files differ.*Bring back the inputs"):
        require_identical(done)


def test_another_tool_is_named(tmp_path: Path) -> None:
    done = compare_bundle_files(bundle(tmp_path / "a"), bundle(tmp_path / "b", zig="1"))
    assert done.identical
    assert done.inputs == ("version of zig: 0 → 1", "ziglang: pkg:pypi/ziglang@0 → pkg:pypi/ziglang@1")


def test_a_build_that_gives_other_bytes_for_the_same_inputs_is_at_fault(tmp_path: Path) -> None:
    done = compare_bundle_files(bundle(tmp_path / "a"), bundle(tmp_path / "b", abi=2))
    assert done.differing == {"manifest.json": "abi: 1 → 2"}
    with pytest.raises(BundleError, match="the build is at fault"):
        require_identical(done)


@pytest.mark.parametrize(
    ("manifest", "where"),
    [
        ({"verification": {"worst": 2e-7}}, "verification.worst: 1e-07 → 2e-07"),
        ({"auto": {"accuracy": 0.98}}, "auto.accuracy: 0.99 → 0.98"),
        ({"built_with": {"python": "3.12", "zig": "0"}}, 'built_with.python: "3.11" → "3.12"'),
    ],
)
def test_what_a_machine_measures_is_said_apart(tmp_path: Path, manifest: dict[str, Any], where: str) -> None:
    done = compare_bundle_files(bundle(tmp_path / "a"), bundle(tmp_path / "b", **manifest))
    assert done.identical
    assert done.measured == {"manifest.json": where}


FORGED = {"bytes": 0, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("forged", "where"),
    [
        ({"files": {"NOTICE": FORGED}}, "files.NOTICE.sha256"),
        ({"files": {"NOTICE": MANIFEST["files"]["NOTICE"] | {"bytes": False}}}, "how it is written"),
        ({"files": {}}, "files.NOTICE: only in the new one"),
        ({"files": MANIFEST["files"] | {"layer/evil.so": FORGED}}, "files.layer/evil.so: only in the first"),
        ({"sizes": MANIFEST["sizes"] | {"unzipped": 1}}, "sizes.unzipped: 1 → 4"),
        ({"sizes": MANIFEST["sizes"] | {"components": []}}, "sizes.components: []"),
        (
            {"sizes": MANIFEST["sizes"] | {"components": []}, "verification": {"worst": 0}},
            "verification.worst: 0 → 1e-07",
        ),
        ({"more": 1}, "more: only in the first"),
    ],
)
def test_no_forged_size_or_digest_is_identical(tmp_path: Path, forged: dict[str, Any], where: str) -> None:
    done = compare_bundle_files(bundle(tmp_path / "a", **forged), bundle(tmp_path / "b"))
    assert done.differing["manifest.json"].startswith(where)


@pytest.mark.parametrize(
    "text",
    [
        manifest_text(MANIFEST).replace('  "abi"', '  "abi": 2,\n  "abi"'),
        manifest_text(MANIFEST).replace('  "files"', '  "sizes": 1,\n  "files"'),
        manifest_text(MANIFEST) + " ",
        json.dumps(MANIFEST),
    ],
)
def test_a_manifest_that_is_written_in_another_way_is_not_identical(tmp_path: Path, text: str) -> None:
    a, b = bundle(tmp_path / "a"), bundle(tmp_path / "b")
    (a / "manifest.json").write_text(text)
    assert compare_bundle_files(restate(a), b).differing == {"manifest.json": "how it is written"}


@pytest.mark.parametrize("honest", [True, False])
def test_the_digest_of_a_models_manifest_in_a_joined_bundle(tmp_path: Path, honest: bool) -> None:
    """That manifest has what was measured, so its digest may be another, but must be its own."""
    made = []
    for number, worst in enumerate((1e-7, 2e-7)):
        folder = bundle(tmp_path / str(number))
        inner = manifest_text(MANIFEST | {"verification": {"worst": worst}})
        (folder / "one").mkdir()
        (folder / "one" / "manifest.json").write_text(inner)
        entry = {"bytes": len(inner), "sha256": sha256(inner.encode()).hexdigest()}
        files = {"one/manifest.json": entry if honest or number else FORGED}
        (folder / "manifest.json").write_text(manifest_text(MANIFEST | {"files": files}))
        made.append(restate(folder))
    done = compare_bundle_files(*made)
    assert done.identical is honest
    assert done.measured["one/manifest.json"] == "verification.worst: 1e-07 → 2e-07"


def elf(*sections: tuple[int, int, bytes]) -> bytes:
    """An ELF file with sections of (type, flags, data), all of them without a name."""
    offset, headers, data = 64, bytes(64), b""
    for kind, flags, content in sections:
        headers += struct.pack("<IIQQQQIIQQ", 0, kind, flags, 0, offset + len(data), len(content), 0, 0, 1, 0)
        data += content
    names = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 63, 1, 0, 0, 1, 0)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    count = len(sections) + 2
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, offset + len(data), 0, 64, 0, 0, 64, count, count - 1)
    return head + data + headers + names


def test_a_section_is_not_decompressed(tmp_path: Path) -> None:
    """What would be 64 MB is compared in less memory than that."""
    compressed = struct.pack("<IIQQ", 1, 0, 64 << 20, 1) + zlib.compress(bytes(64 << 20), 1)
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(elf((1, 0x800, compressed), (1, 0, b"1")))
    b.write_bytes(elf((1, 0x800, compressed), (1, 0, b"2")))
    tracemalloc.start()
    try:
        assert first_difference(a, b) == "section , byte 0 of 1"
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("depth", [200, 400, 900, 100_000])
@pytest.mark.parametrize("name", ["manifest.json", "layer/model/manifest.json", STATEMENT])
def test_json_that_is_nested_too_deep(tmp_path: Path, depth: int, name: str) -> None:
    a, b = bundle(tmp_path / "a"), bundle(tmp_path / "b")
    deep = "[" * depth + "]" * depth
    if name == STATEMENT:
        (a / name).write_text((a / name).read_text().replace('"--a"', deep))
        with pytest.raises(BundleError, match="nested"):
            compare_bundle_files(a, b)
        return
    (a / name).write_text(deep)
    assert name in compare_bundle_files(restate(a), b).differing


def test_a_file_that_only_one_has(tmp_path: Path) -> None:
    a, b = bundle(tmp_path / "a"), bundle(tmp_path / "b")
    statement = json.loads((a / STATEMENT).read_text())
    statement["subject"].append({"name": "layer.zip", "digest": {"sha256": "0" * 64}})
    (a / STATEMENT).write_text(json.dumps(statement))
    assert compare_bundle_files(a, b).differing == {"layer.zip": "only in the first"}
    assert compare_bundle_files(b, a).differing == {"layer.zip": "only in the new one"}


def test_what_was_put_beside_it_later_is_no_difference(tmp_path: Path) -> None:
    a, b = bundle(tmp_path / "a"), bundle(tmp_path / "b")
    (a / "digits_test").write_bytes(b"")
    assert compare_bundle_files(a, b).identical


@pytest.mark.parametrize("name", ["manifest.json", "layer/lib/libmodel.so", "model.h"])
@pytest.mark.parametrize("data", [b"[" * 9_999, b"\x7fELF\0", b"PK\5\6" + bytes(18), b'{"models": 3}', b"3"])
def test_a_file_that_breaks_its_reader_is_only_another_one(tmp_path: Path, name: str, data: bytes) -> None:
    a, b = bundle(tmp_path / "a"), bundle(tmp_path / "b")
    (b / "layer/lib/libmodel.so").write_bytes(b"\x7fELF library")
    (a / name).write_bytes(data)
    for folder in (a, b):
        restate(folder)
    assert name in compare_bundle_files(a, b).differing


def zipped(path: Path, *members: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(path, "w") as out:
        for name, data, year in members:
            out.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), data)
    return path


def test_where_zips_differ(tmp_path: Path) -> None:
    one = zipped(tmp_path / "a.zip", ("lib/x", b"1", 1980), ("y", b"2", 1980))
    for number, (members, says) in enumerate(
        (
            ((("lib/x", b"3", 1980), ("y", b"2", 1980)), "its lib/x"),
            ((("lib/x", b"1", 1981), ("y", b"2", 1980)), "the time of lib/x (SOURCE_DATE_EPOCH)"),
            ((("lib/x", b"1", 1980), ("z", b"2", 1980)), "y stands where z does in the new one"),
            ((("lib/x", b"1", 1980),), "2 files, 1 in the new one"),
        )
    ):
        assert first_difference(one, zipped(tmp_path / f"{number}.zip", *members)) == says


def test_where_bytes_differ(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(bytes(200_000))
    b.write_bytes(bytes(150_000) + b"\1" + bytes(49_999))
    assert first_difference(a, b) == "byte 150,000 of 200,000"
    b.write_bytes(bytes(100))
    assert first_difference(a, b) == "byte 100 of 200,000 (100 in the new one)"
