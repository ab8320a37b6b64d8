"""A processor that has AVX-512, whatever this one has: Bochs, without a BIOS, a disk or an operating system.

QEMU's own emulation knows no AVX-512. Bochs does; it starts here in a firmware of a few hundred bytes, which switches
to 64-bit mode and jumps into a statically linked Linux program that lies in memory from the start. The program's
output comes out of the parallel port.
"""

from __future__ import annotations

import os
import pty
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.compiler.link.toolchain import run_compiler, run_zig
from tests.support.needs import needs

SOURCES = Path(__file__).parent
TRIPLE = "x86_64-linux-musl"

CPU = "corei7_skylake_x"
"""With x86-64-v4's AVX-512: F, CD, BW, DQ and VL."""

# As in layout.h.
IMAGE, STACK_TOP, MEMORY = 1 << 20, 8 << 20, 1 << 30

DATA = 32 << 20
"""Where a program's data are."""

_CONFIGURATION = """\
display_library: term
romimage: file={firmware}
cpu: model={cpu}, count=1, ips=50000000, reset_on_triple_fault=0
memory: guest={megabytes}, host={megabytes}
clock: sync=none
optramimage1: file={image}, address=0x{at:x}
parport1: enabled=1, file={output}
magic_break: enabled=1
com1: enabled=0
floppya: type=none
ata0: enabled=0
ata1: enabled=0
log: {log}
panic: action=fatal
error: action=ignore
info: action=report
debug: action=ignore
"""

_FREESTANDING = (
    "-O2", "-mno-red-zone", "-mgeneral-regs-only", "-ffreestanding", "-fno-pic", "-fno-stack-protector",
    "-fno-sanitize=undefined", "-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a program put out, what became of its data, and whether it left anything in AVX-512's registers."""

    said: str
    data: bytes
    wide: bool


@dataclass(frozen=True)
class Machine:
    """Bochs as ``cpu``, with the firmware it starts in."""

    program: str
    firmware: Path
    cpu: str = CPU

    def run(
        self, program: Path, folder: Path, arguments: Sequence[str] = (), data: bytes = b"", timeout: float = 300
    ) -> Outcome:
        """Run a static ``program``, with ``data`` in its memory at ``DATA``, which is then its first argument.

        Raises AssertionError, with the end of Bochs' log, when the program does not end with 0.
        """
        given = [program.name, *([hex(DATA)] if data else []), *arguments]
        output, log, said = folder / "output", folder / "bochs.log", folder / "screen"
        _write_image(folder / "image", program.read_bytes(), given, data)
        (folder / "bochsrc").write_text(
            _CONFIGURATION.format(
                firmware=self.firmware, cpu=self.cpu, megabytes=MEMORY >> 20, image=folder / "image", at=IMAGE,
                output=output, log=log,
            )
        )  # fmt: skip
        after = folder / "data"
        for old in (output, log, after):
            old.unlink(missing_ok=True)
        dump = f'writemem "{after}" 0x{DATA:x} {len(data)}\n' if data else ""
        (folder / "commands").write_text(f"continue\n{dump}quit\n")
        command = [self.program, "-q", "-rc", str(folder / "commands"), "-f", str(folder / "bochsrc")]
        _on_a_terminal(command, said, timeout)
        found = output.read_bytes() if output.exists() else b""
        told = log.read_text(errors="replace") if log.exists() else said.read_text(errors="replace")
        assert len(found) >= 2, f"{program.name} did not come to its end:\n{told[-2500:]}"
        assert found[-1] == 0, f"{program.name} ended with {found[-1]}:\n{found[:-2].decode(errors='replace')}"
        changed = after.read_bytes() if data else b""
        assert len(changed) == len(data)
        return Outcome(found[:-2].decode(), changed, bool(found[-2]))


def machine(folder: Path, cache: Path) -> Machine:
    """Bochs, with a firmware made in ``folder``. Skips the test where there is no Bochs."""
    program = needs("bochs-bin", "bochs", "bochs-term")
    objects = [folder / "firmware-start.o", folder / "firmware-calls.o"]
    for source, made in zip(("firmware.S", "firmware.c"), objects, strict=True):
        flags = ["-target", TRIPLE, *(_FREESTANDING if source.endswith(".c") else ())]
        run_compiler([*flags, "-c", source, "-o", str(made)], SOURCES, cache)
    firmware = folder / "firmware"
    script = str(SOURCES / "firmware.ld")
    run_zig(["ld.lld", "-T", script, "--oformat", "binary", *map(str, objects), "-o", str(firmware)], SOURCES, cache)
    return Machine(program, firmware)


def link_program(sources: Sequence[Path], output: Path, include: Sequence[Path], cache: Path) -> None:
    """Compile and link a static program of C and assembly files, objects and archives, in the first one's folder."""
    flags = ["-target", TRIPLE, "-mcpu=x86_64", "-O2", "-s", "-static", "-Wall", "-Wextra", "-Werror"]
    paths = [str(path.resolve()) for path in sources]
    run_compiler(
        [*flags, *(f"-I{folder.resolve()}" for folder in include), *paths, "-o", str(output)], sources[0].parent, cache
    )


def _on_a_terminal(command: Sequence[str], screen: Path, timeout: float) -> None:
    """Debian's Bochs has no display but a terminal or a network port, and its debugger reads from one."""
    ours, theirs = pty.openpty()
    with screen.open("wb") as log:
        reader = subprocess.Popen(["cat"], stdin=ours, stdout=log, stderr=subprocess.DEVNULL)
        try:
            environment = os.environ | {"TERM": "xterm"}
            subprocess.run(
                command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, timeout=timeout, check=False
            )
        finally:
            os.close(theirs)
            reader.wait(10)
            os.close(ours)


def _write_image(path: Path, elf: bytes, arguments: Sequence[str], data: bytes) -> None:
    """The memory from ``IMAGE`` on: what the firmware reads, the stack as Linux would have made it, a static ELF
    program, its data."""
    entry, headers = struct.unpack_from("<QQ", elf, 24)
    (count,) = struct.unpack_from("<H", elf, 56)
    with path.open("wb") as file:

        def write(address: int, content: bytes) -> None:
            file.seek(address - IMAGE)
            file.write(content)

        for i in range(count):
            kind, _, offset, address, _, in_file, in_memory = struct.unpack_from("<IIQQQQQ", elf, headers + 56 * i)
            if kind == 1:  # PT_LOAD
                assert STACK_TOP <= address <= address + in_memory <= DATA
                write(address, elf[offset : offset + in_file])
                if offset == 0:
                    headers_at = address + headers
        write(DATA, data)
        end = (DATA + len(data) + 4095) & ~4095
        file.truncate(end - IMAGE)
        strings = b"".join(a.encode() + b"\0" for a in arguments)
        at = STACK_TOP - len(strings)
        write(at, strings)
        words = [len(arguments)]
        for argument in arguments:
            words.append(at)
            at += len(argument.encode()) + 1
        # AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_RANDOM
        auxiliary = [(3, headers_at), (4, 56), (5, count), (6, 4096), (25, STACK_TOP - 64), (0, 0)]
        words += [0, 0, *(v for pair in auxiliary for v in pair)]
        stack = (STACK_TOP - len(strings) - 64 - 8 * len(words)) & ~15
        write(stack, struct.pack(f"<{len(words)}Q", *words))
        write(IMAGE, struct.pack("<4Q", entry, stack, end, MEMORY - IMAGE))
