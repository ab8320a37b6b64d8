"""Run libmodel.so on the golden feeds, in a process of its own: a crash here is a finding, not a dead build.

``builder.verify.compare`` starts it with one argument, a request file (JSON), and reads three files it
writes: the step it is at, the answers (npz) and the findings (JSON). It imports nothing of coldforge.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

CF_OK, CF_ERR_ARGUMENT = 0, 3
STATUS = {1: "CF_ERR_CPU", 2: "CF_ERR_MEMORY", 3: "CF_ERR_ARGUMENT", 4: "CF_ERR_KERNEL"}
GUARD = 64  # bytes around every buffer that the library must leave alone
GUARD_BYTE = 0xC3
POISONS = (0xA5, 0x5A)  # what fetches hold before a run; two values, so that unwritten bytes show


class Refused(Exception):
    """The library cannot be used at all; the message says why."""


class Slot(ctypes.Structure):
    """cf_feed and cf_fetch, which have the same layout."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes inside a guarded block, ``offset`` bytes off a 64-byte boundary."""

    block: Bytes
    start: int
    size: int

    @classmethod
    def of(cls, data: Bytes, offset: int) -> Buffer:
        block = np.full(data.size + 2 * GUARD + 128, GUARD_BYTE, np.uint8)
        start = GUARD + (-(block.ctypes.data + GUARD)) % 64 + offset
        block[start : start + data.size] = data
        return cls(block, start, data.size)

    @property
    def data(self) -> Bytes:
        return self.block[self.start : self.start + self.size]

    @property
    def intact(self) -> bool:
        """Nothing outside the data was written."""
        outside = (self.block[: self.start], self.block[self.start + self.size :])
        return all(bool((part == GUARD_BYTE).all()) for part in outside)

    def slot(self) -> Slot:
        return Slot(self.block.ctypes.data + self.start, self.size)


class Library:
    """The ABI's functions with their types, and the names and sizes of the model's tensors."""

    def __init__(self, request: dict[str, Any]) -> None:
        try:
            self.so = ctypes.CDLL(request["library"])
        except OSError as error:
            raise Refused(f"it cannot be loaded: {error}") from error
        self.feeds: list[dict[str, Any]] = request["feeds"]
        self.fetches: list[dict[str, Any]] = request["fetches"]
        slots, size, model = ctypes.POINTER(Slot), ctypes.c_size_t, ctypes.c_void_p
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "cf_abi_version": (ctypes.c_uint32, []),
            "cf_describe": (ctypes.c_char_p, []),
            "cf_open": (ctypes.c_int, [ctypes.c_uint32, ctypes.POINTER(model)]),
            "cf_run": (ctypes.c_int, [model, slots, size, slots, size]),
            "cf_close": (None, [model]),
            "cf_last_error": (ctypes.c_char_p, [model]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(self.so, name, None)
            if function is None:
                raise Refused(f"it does not export {name}")
            function.restype, function.argtypes = result, arguments

    def open(self) -> ctypes.c_void_p:
        model = ctypes.c_void_p()
        status = self.so.cf_open(0, ctypes.byref(model))
        if status != CF_OK or not model.value:
            raise Refused(f"cf_open failed with {status_name(status)}: {self.error(None)}")
        return model

    def error(self, model: ctypes.c_void_p | None) -> str:
        text = self.so.cf_last_error(model)
        return text.decode("utf-8", "replace") if text else ""

    def run(self, model: ctypes.c_void_p, feeds: list[Slot], fetches: list[Slot], counts: tuple[int, int]) -> int:
        # One entry more than is counted, so that a library that reads too far finds a null pointer.
        inputs, outputs = (Slot * (len(feeds) + 1))(*feeds), (Slot * (len(fetches) + 1))(*fetches)
        return int(self.so.cf_run(model, inputs, counts[0], outputs, counts[1]))


def status_name(status: int) -> str:
    return STATUS.get(status, f"the unknown status {status}")


def answer(
    library: Library, model: ctypes.c_void_p | None, case: str, feeds: list[Bytes], poison: int, offset: int
) -> tuple[list[Bytes], list[str]]:
    """One inference from buffers ``offset`` bytes off alignment: the fetches' bytes, and what went wrong.

    ``model`` None calls the flat run(). Raises Refused when the library says it failed.
    """
    inputs = [Buffer.of(data, offset) for data in feeds]
    outputs = [Buffer.of(np.full(f["bytes"], poison, np.uint8), offset) for f in library.fetches]
    if model is None:
        arguments: list[Any] = []
        for buffer in (*inputs, *outputs):
            arguments += [ctypes.c_void_p(buffer.slot().data), ctypes.c_size_t(buffer.size)]
        status = int(library.so.run(*arguments))
    else:
        slots = [b.slot() for b in inputs], [b.slot() for b in outputs]
        status = library.run(model, *slots, (len(inputs), len(outputs)))
    if status != CF_OK:
        name = "run" if model is None else "cf_run"
        why = library.error(model) if model is not None else ""
        raise Refused(f"{name} failed on case {case} with {status_name(status)}: {why or 'no reason given'}")
    problems = []
    for port, buffer, before in zip(library.feeds, inputs, feeds, strict=True):
        if not buffer.intact or not np.array_equal(buffer.data, before):
            problems.append(f"case {case}: it writes to the feed {port['name']}")
    for port, buffer in zip(library.fetches, outputs, strict=True):
        if not buffer.intact:
            problems.append(f"case {case}: it writes outside the buffer of the fetch {port['name']}")
    return [buffer.data.copy() for buffer in outputs], problems


def differences(library: Library, case: str, how: str, first: list[Bytes], second: list[Bytes]) -> Iterator[str]:
    for port, a, b in zip(library.fetches, first, second, strict=True):
        changed = a != b
        if not changed.any():
            continue
        if np.all(a[changed] == POISONS[0]) and np.all(b[changed] == POISONS[1]):
            yield f"case {case}: {int(changed.sum())} bytes of the fetch {port['name']} are never written"
        else:
            yield (
                f"case {case}: the fetch {port['name']} changes when the same feeds are run {how}: "
                f"state leaks between runs, memory is read before it is written, or the model draws random numbers"
            )


@dataclass(frozen=True)
class BadCall:
    """A call that must be refused: ``field`` of slot ``number`` (feeds first) or a count, off by ``change``."""

    text: str
    field: str
    number: int = 0
    change: int = 0


def bad_calls(library: Library) -> Iterator[BadCall]:
    """Every size off by one both ways, every pointer null, both counts off by one both ways."""
    ports = [*(("feed", p) for p in library.feeds), *(("fetch", p) for p in library.fetches)]
    for number, (kind, port) in enumerate(ports):
        if port["bytes"]:
            yield BadCall(f"one byte too few for the {kind} {port['name']}", "size", number, -1)
            yield BadCall(f"a null pointer for the {kind} {port['name']}", "data", number)
        yield BadCall(f"one byte too many for the {kind} {port['name']}", "size", number, 1)
    for kind, count in (("feed", len(library.feeds)), ("fetch", len(library.fetches))):
        if count:
            yield BadCall(f"one {kind} too few", kind, change=-1)
        yield BadCall(f"one {kind} too many", kind, change=1)


def refusal(library: Library, model: ctypes.c_void_p, feeds: list[Bytes], call: BadCall) -> str:
    """What is wrong with the library's reaction to ``call``; empty if nothing is."""
    # One byte is spare inside the guard, so a library that does not check writes where it does no harm.
    inputs = [Buffer.of(data, 0) for data in feeds]
    outputs = [Buffer.of(np.full(f["bytes"], POISONS[0], np.uint8), 0) for f in library.fetches]
    slots = [b.slot() for b in (*inputs, *outputs)]
    if call.field == "size":
        slots[call.number].size += call.change
    elif call.field == "data":
        slots[call.number].data = None
    counts = (
        len(inputs) + call.change * (call.field == "feed"),
        len(outputs) + call.change * (call.field == "fetch"),
    )
    status = library.run(model, slots[: len(inputs)], slots[len(inputs) :], counts)
    if status != CF_ERR_ARGUMENT:
        return "is accepted" if status == CF_OK else f"is answered with {status_name(status)}, not CF_ERR_ARGUMENT"
    if not library.error(model):
        return "is refused without a text in cf_last_error"
    if any(not b.intact or bool((b.data != POISONS[0]).any()) for b in outputs):
        return "is refused, but a fetch was written"
    return ""


def examine(request: dict[str, Any]) -> dict[str, Any]:
    """Load, describe, run every case three times, misuse; returns the findings."""
    step_file = Path(request["step"])

    def step(text: str) -> None:
        step_file.write_text(text, encoding="utf-8")

    step("loading it")
    library = Library(request)
    version = int(library.so.cf_abi_version())
    if version != request["abi"]:
        raise Refused(f"its ABI version is {version}, not {request['abi']}")
    description = (library.so.cf_describe() or b"").decode("utf-8", "replace")
    step("opening it")
    model = library.open()
    golden = np.load(request["golden"], allow_pickle=False)
    cases: list[str] = request["cases"]

    def feeds_of(case: str) -> list[Bytes]:
        arrays = (np.ascontiguousarray(golden[f"feed/{case}/{port['name']}"]) for port in library.feeds)
        return [array.reshape(-1).view(np.uint8) for array in arrays]

    failures: list[str] = []
    answers: dict[str, list[Bytes]] = {}

    def check(case: str, how: str, poison: int, offset: int, opened: ctypes.c_void_p | None) -> None:
        step(f"running case {case} {how}")
        outputs, problems = answer(library, opened, case, feeds_of(case), poison, offset)
        failures.extend(problems)
        if case in answers:
            failures.extend(differences(library, case, how, answers[case], outputs))
        else:
            answers[case] = outputs

    for case in cases:
        check(case, "once", POISONS[0], 0, model)
        check(case, "twice", POISONS[1], 0, model)
    for case in reversed(cases):
        check(case, "in reverse order from unaligned buffers", POISONS[0], 1, model)
    if hasattr(library.so, "run"):
        check(cases[0], "through the flat run()", POISONS[0], 0, None)
    for call in bad_calls(library):
        step(f"being called with {call.text}")
        wrong = refusal(library, model, feeds_of(cases[0]), call)
        if wrong:
            failures.append(f"a call with {call.text} {wrong}")
    step("running a case after bad calls")
    check(cases[0], "after bad calls", POISONS[0], 0, model)
    step("closing it")
    library.so.cf_close(model)
    library.so.cf_close(None)
    named = {f"{c}/{f}": data for c, case in enumerate(cases) for f, data in enumerate(answers[case])}
    np.savez(request["answers"], **named)  # type: ignore[arg-type]
    return {"describe": description, "failures": list(dict.fromkeys(failures))}


def main() -> None:
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        findings = examine(request)
    except Refused as error:
        findings = {"refused": str(error)}
    Path(request["findings"]).write_text(json.dumps(findings), encoding="utf-8")


if __name__ == "__main__":
    main()
