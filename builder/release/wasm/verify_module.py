"""Verification of a module: its answers to the golden feeds against TensorFlow's.

wasmtime calls its C ABI, also with bad calls; Node.js runs it through predict.mjs, as JavaScript calls it.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import VerifyError
from builder.compiler.abi import ABI_VERSION
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph
from builder.verify.compare_answers import judge_answers
from builder.verify.expected_answers import ExpectedAnswers, Rounding, open_expected
from builder.verify.library.loaded_library import POISONS, Bytes, Refused
from builder.verify.library.loaded_library import BufferSlot as Buffered
from builder.verify.probe import ModelUnderTest, check_refusal, find_differences, make_bad_calls, run_case
from builder.verify.probe_client import Examination, list_ports
from builder.verify.verification import Verification

PREDICT = Path(__file__).with_name("predict.mjs")
RUN_CASES = Path(__file__).with_name("run_cases.mjs")
TIMEOUT = 1800
"""Seconds after which Node.js is stopped."""


class WasmTrap(VerifyError):
    """The module asked the engine to stop it: an access outside its memory, a stack overflow, an impossible cast."""


@dataclass(frozen=True)
class WasmSlot:
    """A cf_feed or cf_fetch: ``size`` bytes at ``address``."""

    address: int
    size: int


class WasmInstance:
    """One instance of the module at a path. Addresses are offsets into its memory.

    Raises VerifyError when the engine refuses it, or it imports anything from its host.
    """

    def __init__(self, path: Path) -> None:
        import wasmtime

        self._wasmtime: Any = wasmtime
        engine = wasmtime.Engine()
        try:
            module = wasmtime.Module.from_file(engine, str(path))
        except wasmtime.WasmtimeError as error:
            raise VerifyError(f"{path.name} cannot be loaded: {error}") from error
        if imports := [f"{i.module}.{i.name}" for i in module.imports]:
            raise VerifyError(f"{path.name} imports {', '.join(imports)}; it must import nothing.")
        self._store: Any = wasmtime.Store(engine)
        self._exports: Any = wasmtime.Instance(self._store, module, []).exports(self._store)

    def call_function(self, name: str, *arguments: int) -> int:
        """Call the exported function ``name``; return 0 for a function without a result. Raises WasmTrap."""
        try:
            return int(self._exports[name](self._store, *arguments) or 0)
        except (self._wasmtime.Trap, self._wasmtime.WasmtimeError) as error:
            raise WasmTrap(f"{name} trapped: {str(error).splitlines()[0]}") from error

    def write(self, address: int, data: bytes) -> None:
        """Write ``data`` to the module's memory."""
        self._exports["memory"].write(self._store, data, address)

    def read(self, address: int, size: int) -> bytes:
        """Read ``size`` bytes of the module's memory."""
        return bytes(self._exports["memory"].read(self._store, address, address + size))

    def read_string(self, address: int) -> str:
        """Return the string that ends with a zero at ``address``."""
        parts = bytearray()
        while b"\0" not in parts:
            end = min(address + len(parts) + 4096, int(self._exports["memory"].data_len(self._store)))
            parts += self.read(address + len(parts), end - address - len(parts))
        return bytes(parts[: parts.index(b"\0")]).decode()

    def allocate_bytes(self, size: int) -> int:
        """Allocate memory in the module, to be freed. Raises VerifyError."""
        address = self.call_function("cf_alloc", size)
        if not address:
            raise VerifyError(f"the module could not allocate {size:,} bytes")
        return address

    def read_description(self) -> str:
        """Return what the module says of itself, as JSON."""
        return self.read_string(self.call_function("cf_describe"))

    def open_model(self) -> int:
        """Open the model and return its address. Raises VerifyError when it cannot be opened."""
        pointer = self.allocate_bytes(4)
        status = self.call_function("cf_open", 0, pointer)
        (model,) = struct.unpack("<I", self.read(pointer, 4))
        self.call_function("cf_free", pointer)
        if status or not model:
            raise VerifyError(
                f"cf_open failed with status {status}: {self.read_string(self.call_function('cf_last_error', 0))}"
            )
        return int(model)

    def write_slots(self, slots: Sequence[WasmSlot]) -> int:
        """Write an array of cf_feed or cf_fetch into the module's memory, to be freed, and return its address."""
        address = self.allocate_bytes(8 * max(1, len(slots)))
        self.write(address, b"".join(struct.pack("<II", s.address, s.size) for s in slots))
        return address


def is_wasmtime_installed() -> bool:
    """Return whether wasmtime is installed here."""
    return importlib.util.find_spec("wasmtime") is not None


def verify_module(path: Path, graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None = None) -> Verification:
    """Run the module at ``path`` in wasmtime on every case of ``graph.golden_path``, as ``builder.verify`` does.

    Every case is run once, and the first three again, in reverse order and from unaligned buffers; the first also
    through the flat ``run()``. The module must refuse wrong sizes, counts and null pointers. Raises VerifyError when
    the module cannot be loaded, traps or fails.
    """
    with open_expected(graph, spec, rounding) as expected:
        try:
            examination = _examine_module(WasmInstance(path), expected)
        except Refused as error:
            raise VerifyError(f"{path.name} cannot be verified: {error}.") from error
        return judge_answers(path.name, expected, examination)


def _examine_module(module: WasmInstance, expected: ExpectedAnswers) -> Examination:
    """Run every case, some of them again, and bad calls. Raises VerifyError when the module fails."""
    version = module.call_function("cf_abi_version")
    failures = [] if version == ABI_VERSION else [f"its ABI version is {version}, not {ABI_VERSION}"]
    model = ModelUnderTest(
        _WasmLibrary(module), module.open_model(), list_ports(expected.feeds), list_ports(expected.fetches)
    )
    answers: dict[str, list[Bytes]] = {}

    def feeds_of(case: str) -> list[Bytes]:
        return [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in expected.feeds_of(case)]

    def check(case: str, how: str, poison: int, offset: int = 0, flat: bool = False) -> None:
        outputs, problems = run_case(model, flat, case, feeds_of(case), poison, offset)
        failures.extend(problems)
        failures.extend(find_differences(model, case, how, answers.setdefault(case, outputs), outputs))

    cases = expected.cases
    for case in cases:
        check(case, "once", POISONS[0])
    for case in reversed(cases[:3]):
        check(case, "again, from unaligned buffers", POISONS[1], offset=1)
    check(cases[0], "through the flat run()", POISONS[0], flat=True)
    for call in make_bad_calls(model):
        if wrong := check_refusal(model, feeds_of(cases[0]), call):
            failures.append(f"a call with {call.text} {wrong}")
    check(cases[0], "after bad calls", POISONS[0])
    module.call_function("cf_close", model.opened)
    module.call_function("cf_close", 0)
    return Examination(answers, module.read_description(), tuple(dict.fromkeys(failures)))


class _WasmLibrary:
    """A module run as libmodel.so is run: buffers are copied into its memory, and back as it left them."""

    def __init__(self, module: WasmInstance) -> None:
        self.module = module

    def run(
        self, model: int, feeds: Sequence[Buffered], fetches: Sequence[Buffered], counts: tuple[int, int]
    ) -> tuple[int, str]:
        module = self.module
        with self._copy_slots(feeds, fetches) as slots:
            arrays = module.write_slots(slots[: len(feeds)]), module.write_slots(slots[len(feeds) :])
            status = module.call_function("cf_run", model, arrays[0], counts[0], arrays[1], counts[1])
            for address in arrays:
                module.call_function("cf_free", address)
        return status, module.read_string(module.call_function("cf_last_error", model))

    def run_flat(self, feeds: Sequence[Buffered], fetches: Sequence[Buffered]) -> int:
        with self._copy_slots(feeds, fetches) as slots:
            return self.module.call_function("run", *(value for slot in slots for value in (slot.address, slot.size)))

    @contextmanager
    def _copy_slots(self, feeds: Sequence[Buffered], fetches: Sequence[Buffered]) -> Iterator[list[WasmSlot]]:
        module, slots = self.module, (*feeds, *fetches)
        copies = [module.allocate_bytes(slot.buffer.block.size + 64) for slot in slots]
        # The copy is as far off a boundary as the buffer is here.
        starts = [at + (slot.buffer.block.ctypes.data - at) % 64 for at, slot in zip(copies, slots, strict=True)]
        for start, slot in zip(starts, slots, strict=True):
            module.write(start, slot.buffer.block.tobytes())
        yield [
            WasmSlot(0 if slot.null else start + slot.buffer.start, slot.size)
            for start, slot in zip(starts, slots, strict=True)
        ]
        for copy, start, slot in zip(copies, starts, slots, strict=True):
            slot.buffer.block[:] = np.frombuffer(module.read(start, slot.buffer.block.size), np.uint8)
            module.call_function("cf_free", copy)


def find_node() -> str | None:
    """Return the path of Node.js, if it is installed here."""
    return shutil.which("node")


def verify_in_node(path: Path, graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None = None) -> Verification:
    """Run the module at ``path`` on every golden case once. Raises VerifyError when Node.js or the module fails."""
    with (
        open_expected(graph, spec, rounding) as expected,
        tempfile.TemporaryDirectory(prefix="coldforge-node-") as temporary,
    ):
        folder = Path(temporary)
        feeds, answers = folder / "feeds.bin", folder / "answers.bin"
        feeds.write_bytes(
            b"".join(np.ascontiguousarray(a).tobytes() for case in expected.cases for a in expected.feeds_of(case))
        )
        arguments = [str(path.resolve()), str(len(expected.cases)), str(feeds), str(answers)]
        try:
            process = subprocess.run(
                [find_node() or "node", str(RUN_CASES), *arguments],
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VerifyError(f"{path.name} does not run in Node.js: {error}") from error
        if process.returncode:
            raise VerifyError(f"{path.name} fails in Node.js: {process.stderr.strip()[-2000:]}")
        data, at = answers.read_bytes(), 0
        outputs: dict[str, list[NDArray[np.uint8]]] = {}
        for case in expected.cases:
            outputs[case] = []
            for port in expected.fetches:
                outputs[case].append(np.frombuffer(data, np.uint8, port.size, at))
                at += port.size
        # The description is parsed and written again on the way, so its text itself is compared elsewhere.
        return judge_answers(path.name, expected, Examination(outputs, json.dumps(json.loads(process.stdout))))
