"""The audit, on libraries compiled for the purpose: one that is sound, and one for each rule."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.base.errors import AuditError
from builder.base.targets import ARM64, TARGETS, WASM32, X86_64
from builder.compiler.audit.audit_library import (
    AuditReport,
    audit_file,
    find_target,
    find_violations,
    format_audit_json,
    format_audit_text,
    load_policy,
    require_portable,
)
from builder.compiler.audit.elf_facts import Symbol, parse_version, read_facts
from tests.support.zig import ABI, EXPORTS, shared_library

NO_RUN = ABI.replace("int run(void) { return 0; }", "")
USER = (
    "#include <string.h>\n#include <math.h>\n"
    + NO_RUN
    + "double run(void *a, const void *b, unsigned long n, double x) { memcpy(a, b, n); return expf((float)x); }\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def sound(folder: Path) -> Path:
    return shared_library(folder / "libmodel.so", USER, "-Wl,-soname,libmodel.so", "-lm")


def rules(report: AuditReport) -> list[str]:
    return [v.rule for v in report.violations]


def test_a_sound_library_passes(sound: Path) -> None:
    report = audit_file(sound, X86_64)
    require_portable(report)
    facts = report.facts
    assert report.passed
    assert report.violations == ()
    assert (facts.machine, facts.bits, facts.kind) == ("EM_X86_64", 64, "ET_DYN")
    assert set(facts.needed) == {"libc.so.6", "libm.so.6"}
    assert facts.exports == EXPORTS
    assert facts.soname == "libmodel.so"
    assert facts.relro == "full"
    assert facts.nx_stack
    assert facts.stripped
    assert not facts.writable_code
    assert not facts.text_relocations
    assert not facts.constructors
    assert parse_version(facts.glibc) <= (2, 34)
    assert {"memcpy", "expf"} <= {s.name for s in facts.undefined}
    assert facts.size == sound.stat().st_size
    assert dict(facts.sections)[".text"] > 0
    assert any(s.kind == "PT_LOAD" and s.flags == "r-x" for s in facts.segments)


def test_two_renderings_of_one_result(sound: Path) -> None:
    report = audit_file(sound, X86_64)
    parsed = json.loads(format_audit_json(report))
    assert parsed["passed"] is True
    assert parsed["facts"]["needed"] == list(report.facts.needed)
    text = format_audit_text(report)
    assert "libc.so.6" in text
    assert text.endswith("passes")
    assert "does not pass" not in text


def test_the_policy_lists_the_abi_exactly() -> None:
    for target in TARGETS:
        assert load_policy(target).exports == EXPORTS
        assert load_policy(target).glibc_floor == "2.34"


def test_a_target_without_a_policy_is_named(sound: Path) -> None:
    with pytest.raises(AuditError, match=r"'wasm32'.*arm64, x86_64"):
        audit_file(sound, WASM32)


def test_a_newer_glibc_is_flagged_with_the_function_that_asks_for_it(folder: Path) -> None:
    code = NO_RUN + "long __isoc23_strtol(const char *, char **, int);\n"
    code += "long run(const char *s) { return __isoc23_strtol(s, 0, 10); }\n"
    path = shared_library(folder / "new.so", code, triple="x86_64-linux-gnu.2.38")
    report = audit_file(path, X86_64)
    assert rules(report) == ["glibc"]
    assert "GLIBC_2.38" in report.violations[0].found
    assert "__isoc23_strtol" in report.violations[0].found
    assert report.facts.glibc == "2.38"


@pytest.mark.parametrize("version", ["GLIBC_ABI_DT_RELR", "GLIBC_PRIVATE", "GLIBC_2.35", "GLIBC_10.1"])
def test_glibc_features_without_a_number_are_flagged_as_newer(sound: Path, version: str) -> None:
    facts = read_facts(sound)
    asking = replace(facts, versions=(*facts.versions, f"libc.so.6:{version}"))
    assert [v.rule for v in find_violations(asking, load_policy(X86_64))] == ["glibc"]


def test_another_needed_library_is_flagged(folder: Path) -> None:
    other = shared_library(folder / "libother.so", "int other(void) { return 1; }\n", "-Wl,-soname,libother.so.1")
    code = "int other(void);\n" + NO_RUN + "int run(void) { return other(); }\n"
    report = audit_file(shared_library(folder / "needs.so", code, str(other)), X86_64)
    assert "needed" in rules(report)
    assert "libother.so.1" in report.violations[0].found


def test_the_dynamic_loader_in_needed_is_flagged(folder: Path) -> None:
    code = "static _Thread_local int counter;\n" + NO_RUN + "int *run(void) { counter++; return &counter; }\n"
    report = audit_file(shared_library(folder / "tls.so", code, "-ftls-model=global-dynamic"), X86_64)
    found = [v for v in report.violations if v.rule == "needed"]
    assert "ld-linux-x86-64.so.2" in found[0].found
    assert "__tls_get_addr" in found[0].found
    assert "thread-local" in found[0].remedy


def test_extra_and_missing_exports_are_both_flagged(folder: Path) -> None:
    code = ABI.replace("cf_close", "cf_shut")
    report = audit_file(shared_library(folder / "exports.so", code), X86_64)
    assert rules(report) == ["exports", "exports"]
    assert "cf_shut" in report.violations[0].found
    assert "cf_close" in report.violations[1].found


def test_an_executable_stack_is_flagged(folder: Path) -> None:
    path = shared_library(folder / "stack.so", ABI)
    data = bytearray(path.read_bytes())  # the toolchain refuses -z execstack, so set the flag by hand
    _set_stack_flags(data, 7)
    path.write_bytes(data)
    assert rules(audit_file(path, X86_64)) == ["nx_stack"]


def test_code_that_can_be_written_is_flagged(folder: Path) -> None:
    path = shared_library(folder / "writable.so", ABI)
    data = bytearray(path.read_bytes())
    _set_flags(data, 1, 7, only=5)  # PT_LOAD r-x becomes rwx
    path.write_bytes(data)
    assert rules(audit_file(path, X86_64)) == ["no_writable_code"]
    assert not audit_file(shared_library(folder / "sound.so", ABI), X86_64).facts.writable_code


def test_a_segment_beyond_the_end_is_an_audit_error(folder: Path) -> None:
    path = shared_library(folder / "short.so", ABI)
    data = bytearray(path.read_bytes())
    loaded = [header for header in _program_headers(data) if struct.unpack_from("<I", data, header)[0] == 1]
    (start,) = struct.unpack_from("<Q", data, loaded[0] + 8)
    struct.pack_into("<Q", data, loaded[0] + 32, len(data) - start + 1)  # p_filesz
    path.write_bytes(data)
    with pytest.raises(AuditError, match="cut short"):
        audit_file(path, X86_64)


def _program_headers(data: bytearray) -> range:
    """Where each begins."""
    offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    return range(offset, offset + 56 * count, 56)


def _set_stack_flags(data: bytearray, flags: int) -> None:
    _set_flags(data, 0x6474E551, flags)


def _set_flags(data: bytearray, kind: int, flags: int, only: int | None = None) -> None:
    """Give the segments of a kind (p_type) other flags, those that have ``only`` alone."""
    for header in _program_headers(data):
        found, before = struct.unpack_from("<II", data, header)
        if found == kind and only in (None, before):
            struct.pack_into("<I", data, header + 4, flags)


def test_a_library_for_another_machine_is_flagged(folder: Path, sound: Path) -> None:
    path = shared_library(folder / "arm.so", ABI, triple="aarch64-linux-gnu.2.34")
    assert audit_file(path, ARM64).passed
    report = audit_file(path, X86_64)
    assert rules(report) == ["machine"]
    assert "AARCH64" in report.violations[0].found
    assert rules(audit_file(sound, ARM64)) == ["machine"]


def test_the_target_that_a_file_is_for(folder: Path, sound: Path) -> None:
    other, text = folder / "other.so", folder / "text"
    head = bytearray(sound.read_bytes())
    head[18] = 40  # EM_ARM, of 32 bits
    other.write_bytes(head)
    text.write_bytes(b"not " + sound.read_bytes())
    arm = shared_library(folder / "arm64.so", ABI, triple="aarch64-linux-gnu.2.34")
    assert [find_target(path) for path in (sound, arm, other, text)] == [X86_64, ARM64, None, None]


def test_a_search_path_is_flagged(folder: Path) -> None:
    report = audit_file(shared_library(folder / "rpath.so", ABI, "-Wl,-rpath,/somewhere"), X86_64)
    assert rules(report) == ["no_search_path"]
    assert "/somewhere" in report.violations[0].found


def test_partial_relro_is_flagged(folder: Path) -> None:
    path = shared_library(
        folder / "lazy.so", USER, "-lm", "-Wl,-z,relro", "-Wl,-z,lazy", "-Wl,-z,nodelete", hardened=False
    )
    report = audit_file(path, X86_64)
    assert rules(report) == ["full_relro"]
    assert report.facts.relro == "partial"


def test_a_library_that_dlclose_unloads_is_flagged(folder: Path) -> None:
    path = shared_library(folder / "unloads.so", USER, "-lm", "-Wl,-z,relro", "-Wl,-z,now", hardened=False)
    report = audit_file(path, X86_64)
    assert rules(report) == ["stays_loaded"]
    assert "nodelete" in report.violations[0].remedy


def test_the_loader_may_be_needed_for_arm64s_stack_guard_and_nothing_else(folder: Path) -> None:
    """glibc keeps the guard there, and on x86-64 in the thread's own block."""
    code = NO_RUN + "static void fill(char *b) { b[3] = 1; }\nint run(void) { char b[64]; fill(b); return b[3]; }\n"
    flags = ("-fstack-protector-all", "-fno-inline")
    report = audit_file(shared_library(folder / "guarded.so", code, *flags, triple="aarch64-linux-gnu.2.34"), ARM64)
    assert "ld-linux-aarch64.so.1" in report.facts.needed
    require_portable(report)
    more = Symbol("__tls_get_addr", "GLIBC_2.17", "ld-linux-aarch64.so.1")
    asking = replace(report.facts, undefined=(*report.facts.undefined, more))
    assert [v.rule for v in find_violations(asking, load_policy(ARM64))] == ["needed"]


def test_text_relocations_are_flagged(folder: Path) -> None:
    code = NO_RUN + (
        "static int target; int run(void);\n"
        '__asm__(".text\\n.globl run\\n.type run,@function\\nrun: movabsq $target_here, %rax\\nret\\n'
        '.data\\ntarget_here: .quad 0\\n.text\\n");\n'
    )
    path = shared_library(folder / "textrel.so", code, "-Wl,-z,notext")
    report = audit_file(path, X86_64)
    assert rules(report) == ["no_text_relocations"]


def test_symbols_nobody_defines_are_flagged(folder: Path) -> None:
    code = "int absent(void);\n" + NO_RUN + "int run(void) { return absent(); }\n"
    path = shared_library(folder / "undefined.so", code, "-Wl,-z,undefs", "-Wl,--allow-shlib-undefined")
    report = audit_file(path, X86_64)
    assert rules(report) == ["resolved_symbols"]
    assert "absent" in report.violations[0].found


def test_constructors_are_seen(folder: Path) -> None:
    code = ABI + "static volatile int x; __attribute__((constructor)) static void early(void) { x = 1; }\n"
    assert read_facts(shared_library(folder / "early.so", code)).constructors


def test_require_lists_every_violation_with_what_to_do(folder: Path) -> None:
    path = shared_library(folder / "many.so", "int other(void) { return 1; }\n", "-Wl,-rpath,/x")
    with pytest.raises(AuditError) as caught:
        require_portable(audit_file(path, X86_64))
    text = str(caught.value)
    assert "many.so" in text
    assert "other" in text
    assert "cf_run" in text
    assert "-rpath" in text
    assert text.count("Remedy:") == 3


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\0" * 4096], ids=repr)
def test_what_is_no_elf_file_is_an_audit_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "libmodel.so"
    path.write_bytes(content)
    with pytest.raises(AuditError, match=r"libmodel\.so is not a sound ELF"):
        audit_file(path, X86_64)


def test_a_missing_file_is_an_audit_error(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="cannot be read"):
        audit_file(tmp_path / "libmodel.so", X86_64)


def test_an_object_file_is_an_audit_error(folder: Path, tmp_path: Path) -> None:
    path = shared_library(folder / "object.o", ABI, "-c")
    shutil.copy(path, tmp_path / "libmodel.so")
    with pytest.raises(AuditError):
        audit_file(tmp_path / "libmodel.so", X86_64)


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=st.data())
def test_a_truncated_file_is_always_an_audit_error(sound: Path, tmp_path: Path, data: st.DataObject) -> None:
    whole = sound.read_bytes()
    path = tmp_path / "libmodel.so"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(AuditError):
        audit_file(path, X86_64)


@FUZZ
@given(data=st.data())
def test_damaged_bytes_never_give_a_traceback(sound: Path, tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray(sound.read_bytes())
    # Most structure is in the headers at both ends.
    near_an_end = st.one_of(
        st.integers(0, 1023), st.integers(len(damaged) - 1500, len(damaged) - 1), st.integers(0, len(damaged) - 1)
    )
    for position in data.draw(st.lists(near_an_end, min_size=1, max_size=8)):
        damaged[position] = data.draw(st.integers(0, 255))
    path = tmp_path / "libmodel.so"
    path.write_bytes(damaged)
    try:
        report = audit_file(path, X86_64)
    except AuditError:
        return
    format_audit_text(report)
    json.loads(format_audit_json(report))
