"""The processors that libraries are built for, with all facts about each.

Data only, of the standard library's types. docs/targets.md lists what a new target needs besides its entry here.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from typing import Literal

from builder.base.errors import UsageError, VerifyError

GLIBC_FLOOR = "2.34"
"""The newest glibc that a library may require, Amazon Linux 2023's. It ends the triples, and the audit checks it."""


KernelTable = Literal["fused", "attention", "integer", "trees"]
"""A table of our own kernels, compiled for each instruction set: ``cf_<name>_tables``."""


@dataclass(frozen=True)
class KernelCopy:
    """A compiled copy of some kernels: the C name of its table, the compiler's CPU name, and more flags.

    For integer GEMM, attention and trees, ``table`` is the function's own name.
    """

    table: str
    cpu: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Level:
    """A level of a processor; its index in ``Target.levels`` is the value of ``cf_cpu_level()``.

    ``isa``: the instruction set's name in model.json. ``fused``, ``integer``: the copies of the kernels, which levels
    may share.
    """

    isa: str
    fused: KernelCopy
    integer: KernelCopy

    @property
    def attention(self) -> KernelCopy:
        """The copy of attention, compiled as the fused kernels are."""
        return replace(self.fused, table=self.fused.table.replace("fused", "attention"))

    @property
    def trees(self) -> KernelCopy:
        """The copy of ensembles of trees, compiled as the fused kernels are."""
        return replace(self.fused, table=self.fused.table.replace("fused", "trees"))


@dataclass(frozen=True)
class Xla:
    """The triple and CPU of LLVM for XLA's compiler.

    ``leaves_ir``: whether to keep the kernels' LLVM IR, from which another compiler builds the library.
    """

    triple: str
    cpu: str
    leaves_ir: bool = False


@dataclass(frozen=True)
class Elf:
    """The machine in an ELF header: pyelftools' name and the number of e_machine, and the data's layout.

    ``stack_guard``: the library in which glibc keeps the stack protector's guard, or "" if the thread's block has it.
    """

    machine: str
    number: int
    bits: int = 64
    little_endian: bool = True
    stack_guard: str = ""


@dataclass(frozen=True)
class QemuEmulator:
    """QEMU's user mode for one target; the first of ``programs`` and ``cpus`` that exists is used."""

    programs: tuple[str, ...]
    cpus: tuple[str, ...]
    root: str  # the folder of the target's C library
    packages: str  # names of Debian's and Ubuntu's packages


@dataclass(frozen=True)
class PinnedFile:
    """A file in a package that is fetched: its path in the package, and its SHA-256 (hex)."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Target:
    """A processor to build for.

    ``name``: the name in model.toml, on the command line and in every JSON file. ``suffix``: the end of the name of
    every folder for it; Lambda's default has none. ``triple``, ``baseline_cpu``, ``kernel_cpu``: clang's names, for
    code that runs on any processor of the architecture and for code that needs the first level. The fields from
    ``levels`` on are empty for a target without such things: WebAssembly is not one of Lambda's processors.
    """

    name: str
    suffix: str
    triple: str
    baseline_cpu: str
    kernel_cpu: str
    xla: Xla
    flags: tuple[str, ...] = ()  # flags of the C compiler for this architecture alone
    levels: tuple[Level, ...] = ()
    elf: Elf | None = None
    machines: tuple[str, ...] = ()  # its names in platform.machine(), in lower case
    emulator: QemuEmulator | None = None
    architecture: str = ""  # Lambda's and SAM's name
    wheels: tuple[str, ...] = ()  # pip's platform tags of Lambda's packages
    lambda_emulator: PinnedFile | None = None  # AWS's Runtime Interface Emulator, in the SAM CLI's wheel

    @property
    def option(self) -> str:
        """The argument of a `make` command for it: " TARGET=arm64", or "" for Lambda's default."""
        return f" TARGET={self.name}" if self.suffix else ""

    def list_copies(self, table: KernelTable) -> tuple[KernelCopy, ...]:
        """List all copies of the kernels of one table, each once."""
        return tuple(dict.fromkeys(getattr(level, table) for level in self.levels))

    def list_isas(self, *, fused: bool, integer: bool) -> list[str]:
        """Return the instruction sets for which a library has kernels, by ``cf_cpu_level()``.

        ``fused``, ``integer``: whether it has steps of these kinds. Without either there is only XLA's own.
        """
        if integer:
            return [level.isa for level in self.levels]
        isas = {level.fused: level.isa for level in reversed(self.levels)}
        return [isas[copy] for copy in self.list_copies("fused")][: None if fused else 1]


_WIDE = ("-mprefer-vector-width=512",)
"""Without the flag, clang keeps to 256-bit vectors."""

_FUSED_V4 = KernelCopy("cf_fused_v4", "x86_64_v4", _WIDE)

X86_64 = Target(
    name="x86_64",
    suffix="",
    triple=f"x86_64-linux-gnu.{GLIBC_FLOOR}",
    baseline_cpu="x86_64",
    kernel_cpu="x86_64_v3",
    # LLVM's "x86-64-v3" is that level and no more; "haswell" would add AES, PCLMUL and others to it.
    xla=Xla("x86_64-unknown-linux-gnu", "x86-64-v3"),
    levels=(
        Level("x86-64-v3", KernelCopy("cf_fused_v3", "x86_64_v3"), KernelCopy("cf_integer_v3", "x86_64_v3")),
        Level("x86-64-v4", _FUSED_V4, KernelCopy("cf_integer_v4", "x86_64_v4", _WIDE)),
        Level("x86-64-v4+avx512vnni", _FUSED_V4, KernelCopy("cf_integer_vnni", "x86_64_v4+avx512vnni", _WIDE)),
        Level(
            "x86-64-v4+avx512vnni+amx-int8",
            _FUSED_V4,
            KernelCopy(
                "cf_integer_amx",
                "x86_64_v4+avx512vnni+amx_tile+amx_int8",
                (*_WIDE, "-DCF_WITHOUT_TILES=cf_integer_vnni"),
            ),
        ),
    ),
    elf=Elf("EM_X86_64", 62),
    machines=("x86_64", "amd64"),
    architecture="x86_64",
    wheels=("manylinux2014_x86_64", "manylinux_2_28_x86_64"),
    lambda_emulator=PinnedFile(
        "samcli/local/rapid/aws-lambda-rie-x86_64", "6b1e686e62ab2baf5759c412c4864276ef2a88b094fca53ec070637ccba9b9a5"
    ),
)

_FUSED_N1 = KernelCopy("cf_fused_n1", "neoverse_n1")

ARM64 = Target(
    name="arm64",
    suffix="-arm64",
    triple=f"aarch64-linux-gnu.{GLIBC_FLOOR}",
    baseline_cpu="generic",
    kernel_cpu="neoverse_n1",
    # This is Graviton2. A newer CPU would add SVE, which Graviton2 lacks.
    xla=Xla("aarch64-unknown-linux-gnu", "neoverse-n1"),
    # Return addresses are signed where the processor can (Graviton3); on Graviton2 these instructions do nothing.
    flags=("-mbranch-protection=pac-ret",),
    # No later CPU feature makes another kernel for float32 products faster: see docs/notes/kernels.md.
    levels=(
        Level("neoverse-n1", _FUSED_N1, KernelCopy("cf_integer_n1", "neoverse_n1")),
        Level("neoverse-n1+i8mm", _FUSED_N1, KernelCopy("cf_integer_i8mm", "neoverse_n1+i8mm")),
    ),
    elf=Elf("EM_AARCH64", 183, stack_guard="ld-linux-aarch64.so.1"),
    machines=("aarch64", "arm64"),
    emulator=QemuEmulator(
        programs=("qemu-aarch64", "qemu-aarch64-static"),
        # QEMU before 7 has no Neoverse. "max" would offer more features than Graviton2 has.
        cpus=("neoverse-n1", "max,sve=off"),
        root="/usr/aarch64-linux-gnu",
        packages="qemu-user libc6-arm64-cross",
    ),
    architecture="arm64",
    wheels=("manylinux2014_aarch64", "manylinux_2_28_aarch64"),
    lambda_emulator=PinnedFile(
        "samcli/local/rapid/aws-lambda-rie-arm64", "ec2e5d09633d853834c008b1ef264bf834b258a94d551d2b2074966494b39a21"
    ),
)

WASM32 = Target(
    name="wasm32",
    suffix="-wasm32",
    triple="wasm32-wasi",
    baseline_cpu="generic",
    kernel_cpu="generic+simd128",
    # XLA has no back end for WebAssembly. For this CPU its kernels use vectors of 128 bits, as in WebAssembly.
    xla=Xla(X86_64.xla.triple, "x86-64", leaves_ir=True),
)
"""The target of the modules of ``builder.release.wasm``, not of a bundle."""

TARGETS = (X86_64, ARM64)
"""The targets of bundles."""

DEFAULT = TARGETS[0]
"""Lambda's default, and that of a model.toml without a target."""

NAMES = tuple(target.name for target in TARGETS)


def target_named(name: str) -> Target:
    """Return the target of a bundle called ``name``. Raises UsageError for an unknown name."""
    for target in TARGETS:
        if target.name == name:
            return target
    raise UsageError(f"there is no target {name!r}; use {', '.join(NAMES)} or all.")


def host_target() -> Target:
    """Return the target whose libraries run on this machine. Raises VerifyError if there is none."""
    machine = platform.machine()
    for target in TARGETS:
        if machine.lower() in target.machines:
            return target
    raise VerifyError(f"this machine ({machine}) is not a target; libraries are made for {', '.join(NAMES)}.")


def passes_result_first() -> bool:
    """Return whether a C++ function here takes the address of a large result before its arguments.

    On arm64 it has a register of its own, which ctypes cannot set.
    """
    return platform.machine().lower() in X86_64.machines
