"""Run libmodel.so on the golden feeds, in a process of its own: a crash here is a finding, not a dead build.

``builder.verify.probe_client`` starts it with one argument, a request file (JSON), and reads three files it
writes: the step it is at, the answers (bytes) and the findings (JSON). Before it loads the library, it confines itself
as the sandbox's jobs are confined.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from builder.base.sandbox import KernelFeatures, ProcessLimits
from builder.base.sandbox.confinement import confine_process
from builder.base.sandbox.libc import die_with_parent
from builder.compiler.abi import CF_ERR_ARGUMENT, CF_ERR_RANGE, CF_OK, status_name
from builder.compiler.weights_file import FILE as WEIGHTS
from builder.verify.golden import GoldenFile
from builder.verify.library.loaded_library import POISONS, BufferSlot, Bytes, GuardedBuffer, LoadedLibrary, Refused
from builder.verify.library.remote_library import RemoteLibrary

Library = LoadedLibrary | RemoteLibrary

LOADERS = ("/lib", "/lib64", "/usr/lib")
"""Folders that hold the programs that load an emulator."""


class _Runner(Protocol):
    """A library that runs inferences, as LoadedLibrary does."""

    def run(
        self, model: int, feeds: Sequence[BufferSlot], fetches: Sequence[BufferSlot], counts: tuple[int, int]
    ) -> tuple[int, str]: ...

    def run_flat(self, feeds: Sequence[BufferSlot], fetches: Sequence[BufferSlot]) -> int: ...


@dataclass(frozen=True)
class ModelUnderTest:
    """An opened model, and the names and sizes (bytes) of its tensors."""

    library: _Runner
    opened: int
    feeds: list[dict[str, Any]]
    fetches: list[dict[str, Any]]


def run_case(
    model: ModelUnderTest, flat: bool, case: str, feeds: list[Bytes], poison: int, offset: int
) -> tuple[list[Bytes], list[str]]:
    """Run one inference from buffers ``offset`` bytes off alignment; return the fetches' bytes and the problems.

    ``flat`` calls run(). Raises Refused when the library reports a failure.
    """
    inputs = [GuardedBuffer.from_data(data, offset) for data in feeds]
    outputs = [GuardedBuffer.from_data(np.full(f["bytes"], poison, np.uint8), offset) for f in model.fetches]
    slots = [BufferSlot(b, b.size) for b in inputs], [BufferSlot(b, b.size) for b in outputs]
    if flat:
        status, why = model.library.run_flat(*slots), ""
    else:
        status, why = model.library.run(model.opened, *slots, (len(inputs), len(outputs)))
    if status != CF_OK:
        name = "run" if flat else "cf_run"
        raise Refused(f"{name} failed on case {case} with {status_name(status)}: {why or 'no reason given'}")
    problems = []
    for port, buffer, before in zip(model.feeds, inputs, feeds, strict=True):
        if not buffer.intact or not np.array_equal(buffer.data, before):
            problems.append(f"case {case}: it writes to the feed {port['name']}")
    for port, buffer in zip(model.fetches, outputs, strict=True):
        if not buffer.intact:
            problems.append(f"case {case}: it writes outside the buffer of the fetch {port['name']}")
    return [buffer.data.copy() for buffer in outputs], problems


def find_differences(
    model: ModelUnderTest, case: str, how: str, first: list[Bytes], second: list[Bytes]
) -> Iterator[str]:
    """Yield the differences between two runs of ``case``, whose fetches had other bytes before."""
    for port, a, b in zip(model.fetches, first, second, strict=True):
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
    """A call that the library must refuse.

    It changes ``field`` of slot ``number`` (feeds first), or a count, by ``change``; or it puts ``index`` into
    ``element`` of the feed ``number``.
    """

    text: str
    field: str
    number: int = 0
    change: int = 0
    element: int = 0
    index: int = 0


def make_bad_calls(model: ModelUnderTest) -> Iterator[BadCall]:
    """Yield calls with each size and count off by one, each pointer null, and indices beyond each end of each range."""
    ports = [*(("feed", p) for p in model.feeds), *(("fetch", p) for p in model.fetches)]
    for number, (kind, port) in enumerate(ports):
        if port["bytes"]:
            yield BadCall(f"one byte too few for the {kind} {port['name']}", "size", number, -1)
            yield BadCall(f"a null pointer for the {kind} {port['name']}", "data", number)
        yield BadCall(f"one byte too many for the {kind} {port['name']}", "size", number, 1)
    for kind, count in (("feed", len(model.feeds)), ("fetch", len(model.fetches))):
        if count:
            yield BadCall(f"one {kind} too few", kind, change=-1)
        yield BadCall(f"one {kind} too many", kind, change=1)
    for number, feed in enumerate(model.feeds):
        for element, index in feed["beyond"]:
            text = f"{index} as element {element} of the feed {feed['name']}"
            yield BadCall(text, "index", number, element=element, index=index)


def check_refusal(model: ModelUnderTest, feeds: list[Bytes], call: BadCall) -> str:
    """Describe the error in the library's reaction to ``call``; the text is empty if there is none."""
    # The guard leaves one byte spare, so a library that does not check sizes does no harm when it writes there.
    if call.field == "index":
        feeds = [data.copy() for data in feeds]
        feeds[call.number].view(model.feeds[call.number]["dtype"])[call.element] = call.index
    inputs = [GuardedBuffer.from_data(data, 0) for data in feeds]
    outputs = [GuardedBuffer.from_data(np.full(f["bytes"], POISONS[0], np.uint8), 0) for f in model.fetches]
    slots = [BufferSlot(b, b.size) for b in (*inputs, *outputs)]
    wrong = slots[call.number]
    if call.field == "size":
        slots[call.number] = BufferSlot(wrong.buffer, wrong.size + call.change)
    elif call.field == "data":
        slots[call.number] = BufferSlot(wrong.buffer, wrong.size, null=True)
    counts = (len(inputs) + call.change * (call.field == "feed"), len(outputs) + call.change * (call.field == "fetch"))
    status, why = model.library.run(model.opened, slots[: len(inputs)], slots[len(inputs) :], counts)
    if status == CF_OK:
        return "is accepted"
    expected = CF_ERR_RANGE if call.field == "index" else CF_ERR_ARGUMENT
    if status != expected:
        return f"is answered with {status_name(status)}, not {status_name(expected)}"
    if not why:
        return "is refused without a text in cf_last_error"
    if any(not b.intact or bool((b.data != POISONS[0]).any()) for b in outputs):
        return "is refused, but a fetch was written"
    return ""


def load_library(request: dict[str, Any]) -> Library:
    """Confine this process, or that of the request's runner, and load the library in it. Raises Refused."""
    runner: list[str] = request["runner"]
    path, parent = Path(request["library"]), os.getpid()
    limits = ProcessLimits(ProcessLimits.from_machine().memory)  # the parent process enforces the time limit
    reads = [path, path.with_name(WEIGHTS), Path(request["golden"])]
    if runner:
        programs = [Path(word) for word in (*LOADERS, *runner) if Path(word).is_absolute()]

        def become_runner() -> None:
            die_with_parent(parent)
            confine_process(limits, KernelFeatures.from_machine(), reads, [], programs)

        library: Library = RemoteLibrary(runner, str(path), become_runner)
    else:
        confine_process(limits, KernelFeatures.from_machine(), reads, [Path(request["findings"]).parent])
        library = LoadedLibrary(str(path))
    version = library.get_abi_version()
    if version != request["abi"]:
        raise Refused(f"its ABI version is {version}, not {request['abi']}")
    return library


def _open_model(library: Library) -> int:
    status, opened, why = library.open()
    if status != CF_OK or not opened:
        raise Refused(f"cf_open failed with {status_name(status)}: {why}")
    return opened


def run_examination(request: dict[str, Any], golden: GoldenFile) -> dict[str, Any]:
    """Load the library, run every case three times, call it wrongly, and return the findings.

    An emulated processor is a hundred times slower: only the first case is run again there, and after
    ``request["seconds"]`` only what a verification needs: two cases, and one of them again.
    """
    step_file, started = Path(request["step"]), time.monotonic()

    answers: dict[str, list[Bytes]] = {}

    def step(text: str) -> None:
        fresh = step_file.with_suffix(".new")
        fresh.write_text(f"{len(answers)} {text}", encoding="utf-8")
        fresh.replace(step_file)  # a reader never sees a partly written file

    step("loading it")
    library = load_library(request)
    step("opening it")
    model = ModelUnderTest(library, _open_model(library), request["feeds"], request["fetches"])
    if request["signature"]:
        library.set_signature(model.opened, request["signature"])
    thorough = not request["runner"]
    cases: list[str] = request["cases"]

    def feeds_of(case: str) -> list[Bytes]:
        arrays = (np.ascontiguousarray(golden.read_feed(case, port["name"])) for port in model.feeds)
        return [array.reshape(-1).view(np.uint8) for array in arrays]

    failures: list[str] = []

    def check(
        case: str, how: str, poison: int, offset: int = 0, flat: bool = False, opened: int = model.opened
    ) -> None:
        step(f"running case {case} {how}")
        used = replace(model, opened=opened)
        outputs, problems = run_case(used, flat, case, feeds_of(case), poison, offset)
        failures.extend(problems)
        if case in answers:
            failures.extend(find_differences(model, case, how, answers[case], outputs))
        else:
            answers[case] = outputs

    def late() -> bool:
        return time.monotonic() - started > float(request["seconds"])

    state = int(request["state"])
    for case in cases:
        if len(answers) >= 2 and late():
            break
        check(case, "once", POISONS[0])
        if thorough and not state:
            check(case, "twice", POISONS[1])
    if state:
        ordered_cases = list(answers)
        library.reset_state(model.opened)
        for case in ordered_cases:
            check(case, "after cf_reset from unaligned buffers", POISONS[1], offset=1)
        if isinstance(library, LoadedLibrary):
            failures += _keeps_state(library, model.opened, state, ordered_cases, check)
    for case in reversed(cases if thorough else cases[:1]):
        if not state:
            check(case, "in reverse order from unaligned buffers", POISONS[1], offset=1)
    if library.has_flat and not request["signature"] and not late():  # run() calls the first signature
        check(cases[0], "through the flat run()", POISONS[0], flat=True)
    if state:
        library.reset_state(model.opened)
        check(cases[0], "before bad calls", POISONS[0])
    for call in make_bad_calls(model):
        step(f"being called with {call.text}")
        problem = check_refusal(model, feeds_of(cases[0]), call)
        if problem:
            failures.append(f"a call with {call.text} {problem}")
    if state or not late():  # a refused call leaves the state as it was
        check(list(answers)[1] if state and len(answers) > 1 else cases[0], "after bad calls", POISONS[0])
    step("closing it")
    library.close(model.opened)
    library.close(0)
    with Path(request["answers"]).open("wb") as file:
        for data in itertools.chain.from_iterable(answers.values()):
            file.write(data.tobytes())
    return {"describe": library.get_description(), "failures": list(dict.fromkeys(failures)), "cases": list(answers)}


def _keeps_state(
    library: LoadedLibrary, opened: int, size: int, cases: list[str], check: Callable[..., None]
) -> Iterator[str]:
    """Check that two opened models have separate states, and that cf_set_state restores what cf_get_state returns."""
    library.reset_state(opened)
    other = _open_model(library)
    for case in cases:
        before = library.get_state(other, size)
        check(case, "beside another opened model", POISONS[0])
        if library.get_state(other, size) != before:
            yield f"case {case}: the state of another opened model changes"
        check(case, "in another opened model", POISONS[0], opened=other)
        if library.get_state(other, size) != library.get_state(opened, size):
            yield f"case {case}: the same calls leave another state"
        library.set_state(other, before)
        check(case, "after cf_set_state", POISONS[1], opened=other)
    library.close(other)


def main() -> None:
    """Examine a library as the request in the file ``sys.argv[1]`` says."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    die_with_parent(os.getppid())
    try:
        with GoldenFile.open(Path(request["golden"])) as golden:
            findings = run_examination(request, golden)
    except Refused as error:
        findings = {"refused": str(error)}
    Path(request["findings"]).write_text(json.dumps(findings), encoding="utf-8")


if __name__ == "__main__":
    main()
