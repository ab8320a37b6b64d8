"""Verification of a module: its answers on the golden feeds against TensorFlow's, and its answers to bad calls."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from builder.base.errors import VerifyError
from builder.compiler.abi import ABI_VERSION
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph
from builder.release.wasm.engine import WasmInstance, WasmSlot
from builder.verify.compare_answers import judge_answers
from builder.verify.expected_answers import ExpectedAnswers, Rounding, open_expected
from builder.verify.library.loaded_library import POISONS, Bytes, Refused
from builder.verify.library.loaded_library import BufferSlot as Buffered
from builder.verify.probe import ModelUnderTest, check_refusal, find_differences, make_bad_calls, run_case
from builder.verify.probe_client import Examination, list_ports
from builder.verify.verification import Verification


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
