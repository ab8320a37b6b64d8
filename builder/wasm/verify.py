"""Verify a module: its answers on the golden feeds against TensorFlow's, and its manners."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from builder.importers.graph import FrozenGraph
from builder.library.abi import ABI_VERSION, CF_ERR_ARGUMENT, CF_ERR_RANGE
from builder.library.buffers import GUARD, GUARD_BYTE, POISONS
from builder.spec import ModelSpec
from builder.verify.compare import judge
from builder.verify.examination import Examination
from builder.verify.expected import Expected, open_expected
from builder.verify.rounding import Rounding
from builder.verify.verification import Verification
from builder.wasm.engine import Module, Slot, Trapped


def can_verify() -> bool:
    """Whether wasmtime is installed here."""
    return importlib.util.find_spec("wasmtime") is not None


def verify_module(path: Path, graph: FrozenGraph, spec: ModelSpec, rounding: Rounding | None = None) -> Verification:
    """Run the module at ``path`` in wasmtime on every case of ``graph.golden_path``, as ``builder.verify`` does.

    Every case is run once, and the first three again, in reverse order and from unaligned buffers; the first also
    through the flat ``run()``; wrong sizes, counts and null pointers must be refused.
    Raises VerifyError when the module cannot be loaded, traps or fails.
    """
    with open_expected(graph, spec, rounding) as expected:
        return judge(path.name, expected, _Examiner(Module(path), expected).run())


class _Examiner:
    def __init__(self, module: Module, expected: Expected) -> None:
        self.module, self.expected = module, expected
        self.failures: list[str] = []
        version = module.call("cf_abi_version")
        if version != ABI_VERSION:
            self.failures.append(f"its ABI version is {version}, not {ABI_VERSION}")
        self.description = module.describe()

    def run(self) -> Examination:
        """Every case, some of them again, and bad calls. Raises Trapped when the module fails."""
        module, cases = self.module, self.expected.cases
        model = module.open()
        answers = {case: self.answer(model, case, POISONS[0]) for case in cases}
        for case in reversed(cases[:3]):
            self.same(case, "again, from unaligned buffers", answers, self.answer(model, case, POISONS[1], offset=1))
        self.same(cases[0], "through the flat run()", answers, self.answer(0, cases[0], POISONS[0]))
        self.failures += self.bad_calls(model)
        self.same(cases[0], "after bad calls", answers, self.answer(model, cases[0], POISONS[0]))
        module.call("cf_close", model)
        module.call("cf_close", 0)
        found = {case: [np.frombuffer(data, np.uint8) for data in fetches] for case, fetches in answers.items()}
        return Examination(found, self.description, tuple(dict.fromkeys(self.failures)))

    def same(self, case: str, how: str, answers: dict[str, list[bytes]], again: list[bytes]) -> None:
        for port, first, second in zip(self.expected.fetches, answers[case], again, strict=True):
            if first != second:
                self.failures.append(f"case {case}: the fetch {port.name} changes when the same feeds are run {how}")

    def answer(self, model: int, case: str, poison: int, offset: int = 0) -> list[bytes]:
        """One inference from buffers ``offset`` bytes off alignment; ``model`` 0 calls the flat run()."""
        module = self.module
        feeds = [np.ascontiguousarray(a).tobytes() for a in self.expected.feeds_of(case)]
        inputs = [self._guarded(data, offset) for data in feeds]
        outputs = [self._guarded(bytes([poison]) * port.size, offset) for port in self.expected.fetches]
        if model:
            arrays = module.slots(inputs), module.slots(outputs)
            status = module.call("cf_run", model, arrays[0], len(inputs), arrays[1], len(outputs))
            for address in arrays:
                module.call("cf_free", address)
        else:
            status = module.call("run", *(value for s in (*inputs, *outputs) for value in (s.address, s.size)))
        if status:
            why = module.text(module.call("cf_last_error", model)) if model else ""
            raise Trapped(f"{'cf_run' if model else 'run'} failed on case {case} with status {status}: {why}")
        for port, slot, before in zip(self.expected.feeds, inputs, feeds, strict=True):
            if module.read(slot.address, slot.size) != before:
                self.failures.append(f"case {case}: it writes to the feed {port.name}")
        answers = [module.read(slot.address, slot.size) for slot in outputs]
        for slot in (*inputs, *outputs):
            for side in (slot.address - GUARD, slot.address + slot.size):
                if module.read(side, GUARD) != bytes([GUARD_BYTE]) * GUARD:
                    self.failures.append(f"case {case}: it writes outside a buffer it was given")
            module.call("cf_free", slot.address - GUARD - offset)
        return answers

    def bad_calls(self, model: int) -> Iterator[str]:
        """A sentence for each call that should be refused with a text, and is not."""
        module, expected = self.module, self.expected
        ports = [*expected.feeds, *expected.fetches]
        slots = [self._guarded(bytes(port.size), 0) for port in ports]
        split = len(expected.feeds)

        def refused(
            what: str, changed: list[Slot], counts: tuple[int, int], wanted: int = CF_ERR_ARGUMENT
        ) -> Iterator[str]:
            arrays = module.slots(changed[:split]), module.slots(changed[split:])
            status = module.call("cf_run", model, arrays[0], counts[0], arrays[1], counts[1])
            if status != wanted or not module.text(module.call("cf_last_error", model)):
                yield f"a call with {what} is answered with status {status}"
            for address in arrays:
                module.call("cf_free", address)

        right = (split, len(expected.fetches))
        for i, (port, slot) in enumerate(zip(ports, slots, strict=True)):
            bad = {f"{size:,} bytes": Slot(slot.address, size) for size in (slot.size - 1, slot.size + 1) if size >= 0}
            if slot.size:
                bad["a null pointer"] = Slot(0, slot.size)
            for what, wrong in bad.items():
                yield from refused(f"{what} for {port.name}", [*slots[:i], wrong, *slots[i + 1 :]], right)
        yield from refused("a feed too few", slots, (right[0] - 1, right[1]))
        yield from refused("a fetch too few", slots, (right[0], right[1] - 1))
        for port, slot in zip(expected.feeds, slots, strict=False):
            for element, index in port.indices_beyond():
                values = np.zeros(port.elements, port.dtype)
                values[element] = index
                module.write(slot.address, values.tobytes())
                yield from refused(f"{index} as element {element} of {port.name}", slots, right, CF_ERR_RANGE)
            module.write(slot.address, bytes(port.size))
        for slot in slots:
            module.call("cf_free", slot.address - GUARD)

    def _guarded(self, data: bytes, offset: int) -> Slot:
        guard = bytes([GUARD_BYTE]) * GUARD
        start = self.module.allocate(len(data) + 2 * GUARD + offset) + offset
        self.module.write(start, guard + data + guard)
        return Slot(start + GUARD, len(data))
