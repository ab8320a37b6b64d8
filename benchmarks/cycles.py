"""``python -m benchmarks.cycles [PROGRAM...]``: what llvm-mca says of arm64's kernels; writes docs/cycles-arm64.md.

The kernels are compiled as for a library, and disassembled. Of a function, the loop without another loop in it that
multiplies most is looked at.

Instructions of whole runs are counted by QEMU's trace of what it executes, with models' benchmark programs
(``make selftest TARGET=arm64``).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.models import ROOT
from benchmarks.tables import NONE, table
from builder.link.library import ATTENTION_SOURCE, FUSED_FLAGS, FUSED_SOURCE, INTEGER_SOURCE
from builder.link.toolchain import Toolchain
from builder.project import RUNTIME, cache_folder
from builder.targets import ARM64, Copy
from builder.verify.machine import machine_for

PAGE = ROOT / "docs" / "cycles-arm64.md"
PROCESSORS = {"neoverse-n1": "N1 (Graviton2)", "neoverse-v1": "V1 (Graviton3)", "neoverse-v2": "V2 (Graviton4)"}
VERSIONS = ("-19", "-20", "-21", "-18", "")
"""Of LLVM's programs, the first that is there: models of these processors came with LLVM 17."""

PRODUCTS = {"fmla": 4, "sdot": 16, "smmla": 32}
"""Multiply-adds of one instruction, of four floats or sixteen bytes."""

FEATURES = "+dotprod,+i8mm,+fullfp16"


class Kernel(NamedTuple):
    """A function of a copy of the kernels: ``on``, the processors that have its instructions."""

    what: str
    copy: str
    function: str
    on: tuple[str, ...] = tuple(PROCESSORS)


_NEWER = ("neoverse-v1", "neoverse-v2")

KERNELS = (
    Kernel("convolutions and dense layers, 6 pixels × 16 channels", "cf_fused_n1", "gemm_6x4"),
    Kernel("the same, 4 pixels", "cf_fused_n1", "gemm_4x4"),
    Kernel("depthwise 3×3, stride 1", "cf_fused_n1", "strip_3_1"),
    Kernel("depthwise 5×5, stride 1", "cf_fused_n1", "strip_5_1"),
    Kernel("8 output channels, pixels in the lanes", "cf_fused_n1", "thin_8"),
    Kernel("attention's scores", "cf_attention_n1", "score_full_6"),
    Kernel("attention's sums", "cf_attention_n1", "add_full_6"),
    Kernel("bytes, 6 pixels × 16 channels, `sdot`", "cf_integer_n1", "integer_6_2_0"),
    Kernel("bytes, one row, `sdot`", "cf_integer_n1", "integer_1_2_0"),
    Kernel("bytes, 6 pixels × 16 channels, `smmla`", "cf_integer_i8mm", "integer_6_2_0", _NEWER),
    Kernel("bytes, 4 pixels × 16 channels, `smmla`", "cf_integer_i8mm", "integer_4_2_0", _NEWER),
)


class ToolMissing(Exception):
    """A program that this needs is not here."""


class Loop(NamedTuple):
    instructions: tuple[str, ...]
    multiplies: dict[str, int]  # by instruction

    @property
    def products(self) -> int:
        """Multiply-adds of an iteration."""
        return sum(PRODUCTS[name] * count for name, count in self.multiplies.items())


def tool(name: str) -> str:
    """LLVM's program of that name. Raises ToolMissing."""
    for version in VERSIONS:
        if found := shutil.which(f"{name}{version}"):
            return found
    raise ToolMissing(f"there is no {name}; apt-get install llvm-19")


def busiest_loops(disassembly: str) -> dict[str, Loop]:
    """By function, of what llvm-objdump prints: its innermost loop that multiplies most."""
    found: dict[str, Loop] = {}
    for name, lines in _functions(disassembly):
        for loop in _innermost(lines):
            if loop.products > (found[name].products if name in found else 0):
                found[name] = loop
    return found


def _functions(disassembly: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    name, lines = "", []
    for line in disassembly.splitlines():
        if begin := re.match(r"[0-9a-f]+ <(.+)>:", line):
            yield name, lines
            name, lines = begin[1], []
        elif instruction := re.match(r"\s*([0-9a-f]+):\s+(\S.*)", line):
            lines.append((int(instruction[1], 16), " ".join(instruction[2].split())))
    yield name, lines


_BRANCH = re.compile(r"(?:b|b\.\w+|bl|blr|br|ret|cbn?z|tbn?z)\b")
_BACK = re.compile(r"(?:b\.\w+|cbn?z|tbn?z) .*?0x([0-9a-f]+) <")


def _innermost(lines: Sequence[tuple[int, str]]) -> Iterator[Loop]:
    """Every run of instructions from the target of a branch back to that branch, with no other branch in it."""
    places = {address: number for number, (address, _) in enumerate(lines)}
    for number, (_, text) in enumerate(lines):
        back = _BACK.match(text)
        start = places.get(int(back[1], 16), len(lines)) if back else len(lines)
        if start > number or any(_BRANCH.match(other) for _, other in lines[start:number]):
            continue
        body = tuple(other for _, other in lines[start : number + 1])
        names = [other.split()[0] for other in body]
        yield Loop(body, {name: names.count(name) for name in PRODUCTS if name in names})


def cycles(loop: Loop, processor: str) -> float:
    """Of an iteration, by llvm-mca. Raises ToolMissing."""
    rounds = 1000
    text = "loop:\n" + "".join(f"{re.sub('0x[0-9a-f]+ <.*>', 'loop', line)}\n" for line in loop.instructions)
    command = [tool("llvm-mca"), "-mtriple=aarch64", f"-mcpu={processor}", f"-mattr={FEATURES}"]
    done = subprocess.run(
        [*command, f"-iterations={rounds}"], input=text, capture_output=True, text=True, errors="replace", check=True
    )
    total = re.search(r"^Total Cycles:\s+(\d+)", done.stdout, re.MULTILINE)
    assert total, done.stdout
    return int(total[1]) / rounds


def compiled(folder: Path) -> dict[str, dict[str, Loop]]:
    """The loops of every copy of the kernels for arm64, by the name of its table."""
    toolchain, found = Toolchain(ARM64, cache_folder() / "zig"), {}
    sources: list[tuple[str, Iterable[Copy]]] = [
        (FUSED_SOURCE, ARM64.fused_copies),
        (ATTENTION_SOURCE, ARM64.attention_copies),
        (INTEGER_SOURCE, ARM64.integer_copies),
    ]
    for source, copies in sources:
        for copy in copies:
            made = folder / f"{copy.table}.o"
            flags = (*FUSED_FLAGS, *copy.flags, f"-DCF_TABLE={copy.table}")
            toolchain.compile(RUNTIME / source, made, include=(RUNTIME,), cpu=copy.cpu, flags=flags)
            command = [tool("llvm-objdump"), "-d", "--no-show-raw-insn", f"--mattr={FEATURES}", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[copy.table] = busiest_loops(done.stdout)
    return found


def rows(loops: dict[str, dict[str, Loop]]) -> list[list[str]]:
    heads = [f"{name}: cycles, products in one" for name in PROCESSORS.values()]
    found = [["inner loop of", "instructions", "products", *heads]]
    for kernel in KERNELS:
        loop = loops[kernel.copy][kernel.function]
        cells = []
        for processor in PROCESSORS:
            took = cycles(loop, processor) if processor in kernel.on else 0.0
            cells.append(f"{took:.1f}, {loop.products / took:.1f}" if took else NONE)
        found.append([kernel.what, str(len(loop.instructions)), str(loop.products), *cells])
    return found


def executed(command: Sequence[str]) -> int:
    """Instructions that a program of arm64 executes, by QEMU's trace; ``command``: QEMU, its options, the program."""
    emulator, *rest = command
    sizes: dict[str, int] = {}
    total, place, count = 0, "", 0
    traced = [emulator, "-d", "in_asm,exec,nochain", *rest]
    with subprocess.Popen(traced, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            if line.startswith("Trace "):
                total += sizes[line.split("/")[1]]
            elif line.startswith("IN:"):
                place, count = "", 0
            elif line.startswith("0x"):
                place = place or line[2:].partition(":")[0].rjust(16, "0")
                count += 1
                sizes[place] = count
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return total


def per_run(program: Path, processor: str, runs: int = 4) -> float:
    """Instructions of one run of a model on one thread, by its benchmark program."""
    machine = machine_for(ARM64, cache_folder())
    if not machine.emulator:
        raise ToolMissing(machine.missing or "instructions are counted under QEMU, not on a processor of arm64")
    emulator = [*machine.emulator]
    emulator[emulator.index("-cpu") + 1] = processor
    few, many = (
        executed([*emulator, str(program), "--threads", "1", "--warm-up", "1", "--runs", str(count)])
        for count in (1, 1 + runs)
    )
    return (many - few) / runs


def page(loops: list[list[str]], runs: list[list[str]], versions: Sequence[str]) -> str:
    parts = [
        "# Cycles of arm64's kernels, by a model",
        "<!-- Written by `make cycles-arm64`. -->",
        "**No Graviton was timed.** llvm-mca says how many cycles an iteration of a loop takes on a model of a "
        "processor, from its pipes and latencies, with all data in the first-level cache. Its models are made of "
        "Arm's guides, and are no measurements: [targets.md](targets.md#how-fast-is-it-on-graviton) says how "
        "to measure.",
        "Behind the cycles of an iteration are the products in one cycle. A product is a multiplication and its "
        "addition.",
        table(loops),
    ]
    if len(runs) > 1:
        parts += [
            "Instructions of one run on one thread, in thousands, counted under QEMU; V1 and V2 have the same kernels:",
            table(runs),
        ]
    return "\n\n".join([*parts, f"{', '.join(versions)}."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cycles", description=__doc__)
    parser.add_argument("programs", nargs="*", type=Path, help="benchmark programs of models for arm64")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        loops = rows(compiled(Path(folder)))
    counted = [["model", *PROCESSORS.values()]]
    for program in options.programs:
        name = program.name.removesuffix("_benchmark")
        figures = [f"{per_run(program, cpu) / 1e3:,.0f}" for cpu in ("neoverse-n1", "max,sve=off")]
        counted.append([name, figures[0], figures[1], figures[1]])
    version = subprocess.run([tool("llvm-mca"), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"LLVM version \S+", version)
    options.output.write_text(page(loops, counted, [found[0] if found else "LLVM"]), encoding="utf-8")
    print(table(loops), table(counted), sep="\n\n", file=sys.stderr)


if __name__ == "__main__":
    main()
