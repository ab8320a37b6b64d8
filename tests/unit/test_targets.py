"""What is known of each target is in one module, and what cannot read that module agrees with it."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from builder.base.errors import UsageError, VerifyError
from builder.base.targets import (
    ARM64,
    DEFAULT,
    NAMES,
    TARGETS,
    WASM32,
    X86_64,
    Target,
    host_target,
    target_named,
)
from builder.compiler.link.shared_library import format_kernel_table

ROOT = Path(__file__).resolve().parents[2]
BUILDER = ROOT / "builder"
PROCESSORS = re.compile(r"x86[-_]?64|arm64|aarch64|amd64", re.IGNORECASE)
TRIPLES = re.compile(r"\w+-(?:unknown-)?(?:linux-gnu|wasi)\b")
KERNEL_CODE = {"platform/threads.c", "platform/bfloat16.c", "fused/vector.h"}
"""Runtime files that hold an instruction or a header of one architecture; they do without it on another."""


def test_a_name_is_a_target_or_is_refused_with_those_there_are() -> None:
    assert [target_named(name) for name in NAMES] == list(TARGETS)
    with pytest.raises(UsageError, match="no target 'm68k'; use x86_64, arm64 or all"):
        target_named("m68k")
    with pytest.raises(UsageError, match="no target 'wasm32'"):
        target_named(WASM32.name)


@pytest.mark.parametrize(("machine", "target"), [("x86_64", X86_64), ("AMD64", X86_64), ("aarch64", ARM64)])
def test_a_machine_is_a_target_or_is_refused(machine: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert host_target() is target
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(VerifyError, match=r"this machine \(riscv64\) is not a target; .* x86_64, arm64"):
        host_target()


def test_the_instruction_sets_of_a_library_are_those_it_has_copies_of_the_kernels_for() -> None:
    assert X86_64.list_isas(fused=False, integer=False) == ["x86-64-v3"]
    assert X86_64.list_isas(fused=True, integer=False) == ["x86-64-v3", "x86-64-v4"]
    with_bytes = ["x86-64-v3", "x86-64-v4", "x86-64-v4+avx512vnni", "x86-64-v4+avx512vnni+amx-int8"]
    assert X86_64.list_isas(fused=True, integer=True) == with_bytes
    assert ARM64.list_isas(fused=False, integer=False) == ARM64.list_isas(fused=True, integer=False) == ["neoverse-n1"]
    assert ARM64.list_isas(fused=True, integer=True) == ["neoverse-n1", "neoverse-n1+i8mm"]
    assert [copy.table for copy in X86_64.list_copies("fused")] == ["cf_fused_v3", "cf_fused_v4"]
    integers = ["cf_integer_v3", "cf_integer_v4", "cf_integer_vnni", "cf_integer_amx"]
    assert [copy.table for copy in X86_64.list_copies("integer")] == integers
    assert [copy.table for copy in ARM64.list_copies("fused")] == ["cf_fused_n1"]
    assert [copy.table for copy in ARM64.list_copies("integer")] == ["cf_integer_n1", "cf_integer_i8mm"]


def test_the_makefiles_rely_on_one_name_for_a_target() -> None:
    """A folder ends in "-<name>", and the template's Architecture is the name."""
    for target in TARGETS:
        assert target.architecture == target.name
        assert target.suffix == ("" if target is DEFAULT else f"-{target.name}")
        assert target.option == ("" if target is DEFAULT else f" TARGET={target.name}")


SYSTEM_CALLS = [BUILDER / "base" / "sandbox" / "seccomp.py"]
"""The numbers of system calls on the machine that builds, whatever it builds for."""


def test_no_other_module_names_a_processor() -> None:
    files = [p for p in BUILDER.rglob("*") if p.is_file() and p.suffix not in (".pyc", ".jpg")]
    own = [BUILDER / "base" / "targets.py", BUILDER / "measure" / "prices.json", *SYSTEM_CALLS]
    others = [p for p in files if p not in own and BUILDER / "runtime" not in p.parents]
    assert len(others) > 100
    for path in others:
        text = path.read_text(encoding="utf-8")
        assert not PROCESSORS.findall(text), path
        assert not TRIPLES.findall(text), path


def test_the_runtimes_files_of_one_processor_are_named_for_it() -> None:
    runtime = BUILDER / "runtime"
    own = {path for name in NAMES for path in runtime.rglob(f"*_{name}.c")}
    assert {p.relative_to(runtime).as_posix() for p in own} >= {f"platform/cpu_{name}.c" for name in NAMES}
    for path in set(runtime.rglob("*.*")) - own:
        macros = re.findall(r"__(?:x86_64|aarch64)__", path.read_text(encoding="utf-8"))
        assert not macros or path.relative_to(runtime).as_posix() in KERNEL_CODE, path


def test_the_dependencies_layer_is_made_of_each_targets_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = ROOT / "layers" / "dependencies"
    monkeypatch.syspath_prepend(layer)  # as for a script that is run
    machines = runpy.run_path(str(layer / "build.py"))["MACHINES"]
    found = {name: (f"manylinux2014_{machine}", f"manylinux_2_28_{machine}") for name, machine in machines.items()}
    assert found == {target.name: target.wheels for target in TARGETS}


def test_the_template_takes_each_targets_architecture() -> None:
    (line,) = re.findall(
        r"  Architecture:\n(?:    .*\n)*?    AllowedValues: (.*)\n", (ROOT / "template.yaml").read_text()
    )
    assert line == f"[{', '.join(target.architecture for target in TARGETS)}]"


def test_make_tells_of_each_target() -> None:
    assert f"TARGET={'|'.join(NAMES)}|all " in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_make_builds_the_function_of_the_target_that_is_asked_for(target: Target) -> None:
    """``-n`` prints what would be run."""
    command = ["make", "-n", "sam-build", f"TARGET={target.name}", "PACKAGE=image", f"PYTHON={sys.executable}"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(rf'builder\.cli deploy .*--target "{target.name}" --package image .*--build-only', printed)


def test_the_tables_of_kernels_have_an_entry_for_each_level() -> None:
    fused, integer = format_kernel_table(X86_64, "fused"), format_kernel_table(X86_64, "integer")
    assert "cf_fused_tables[] = {&cf_fused_v3, &cf_fused_v4, &cf_fused_v4, &cf_fused_v4};\n" in fused
    assert "extern const cf_fused cf_fused_v3, cf_fused_v4;\n" in fused
    assert "cf_integer_tables[] = {cf_integer_v3, cf_integer_v4, cf_integer_vnni, cf_integer_amx};\n" in integer
    assert integer.count("void cf_integer_vnni(") == 1
    assert "cf_fused_tables[] = {&cf_fused_n1, &cf_fused_n1};\n" in format_kernel_table(ARM64, "fused")
    assert "cf_integer_tables[] = {cf_integer_n1, cf_integer_i8mm};\n" in format_kernel_table(ARM64, "integer")
