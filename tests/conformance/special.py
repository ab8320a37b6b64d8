"""Ask ops for their answers to special values, and compare them with TensorFlow's: ``make conformance GROUPS=special``.

Each kind of op is one graph with a feed and an output for each op, and one library, called through its C ABI.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from builder.base.errors import ColdforgeError
from builder.compiler.abi import CF_OK
from builder.verify.library.loaded_library import BufferSlot, GuardedBuffer, LoadedLibrary
from tests.conformance.special_ops import KINDS, Array, Kind, Probe, probes
from tests.support.build import build_library, freeze_function, spec_of

GROUP = "special"

Outcome = Literal["as the framework", "refused", "differs", "not built"]
"""``refused``: by the library, as by TensorFlow. ``not built``: the build refuses the op by name."""

OUT_OF_RANGE, ENDS = "out of range", "ends of the type"
FLOATS: Mapping[str, Sequence[float]] = {"NaN": [np.nan], "+inf": [np.inf], "-inf": [-np.inf], "-0.0": [-0.0]}
BEYOND_CASTS = (300.7, -300.7, 70000.5, -70000.5, 3e9, -3e9, 1e19, -1e19)
COLUMNS = (*FLOATS, OUT_OF_RANGE, ENDS)


@dataclass(frozen=True)
class Row:
    """What came of an op and one kind of special value. ``how``: the first element that differs."""

    op: str
    value: str
    outcome: Outcome
    how: str = ""


def rows(folder: Path, kinds: Sequence[Kind] = KINDS) -> Iterator[Row]:
    """Yield every op of ``kinds`` with every value that it can meet; ``folder`` is left empty."""
    for kind in kinds:
        try:
            yield from _kind_rows([probe for probe in probes() if probe.kind == kind], folder / kind)
        finally:
            shutil.rmtree(folder / kind, ignore_errors=True)


def _kind_rows(group: Sequence[Probe], folder: Path) -> Iterator[Row]:
    refusals = {probe.name: why for probe in group if (why := _refusal(probe, folder / "alone"))}
    built = [probe for probe in group if probe.name not in refusals]
    library = _Library(built, folder)
    for probe in group:
        for value, inputs in specials(probe).items():
            if probe.name in refusals:
                yield Row(probe.name, value, "not built", refusals[probe.name])
            else:
                outcomes = [(library.run(probe, array), _eager(probe, array), where) for where, array in inputs]
                yield _judge(probe, value, outcomes)


def specials(probe: Probe) -> dict[str, list[tuple[str, Array]]]:
    """Inputs of ``probe`` by the special value that they hold, each with a word for where it is."""
    info = np.iinfo(probe.usual.dtype) if probe.kind in ("integers", "ids") else None
    values: Mapping[str, Sequence[float]] = FLOATS
    if info and probe.kind == "integers":
        # The third number's square is beyond the type, and is negative when it is cut off.
        values = {ENDS: [info.min, info.max, int(info.max**0.5 * 1.1)]}
    elif info:
        values = {OUT_OF_RANGE: [-1, probe.rows, 1000, info.min, info.max]}
    elif probe.kind == "casts":
        values = {**FLOATS, OUT_OF_RANGE: BEYOND_CASTS}
    return {name: [placed for one in ones for placed in _placed(probe.usual, one)] for name, ones in values.items()}


def _placed(usual: Array, value: float) -> Iterator[tuple[str, Array]]:
    """``usual`` with ``value`` at its first, a middle and the last place, and everywhere."""
    for where, place in (("first", 0), ("in the middle", usual.size // 2), ("last", usual.size - 1)):
        array = usual.copy()
        array.flat[place] = value
        yield f"{value} {where}", array
    yield f"{value} everywhere", np.full_like(usual, value)
    if value == 0:
        array = np.where(np.arange(usual.size) % 3 == 1, value, 0).reshape(usual.shape).astype(usual.dtype)
        yield "zeros of both signs", array


def _refusal(probe: Probe, folder: Path) -> str:
    """Why the build refuses ``probe``; empty where it does not."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        freeze_function(_concrete([probe]), ["x0"], folder)
    except ColdforgeError as error:
        return " ".join(str(error).split())[:200]
    return ""


def _concrete(group: Sequence[Probe]) -> Any:
    def call(*feeds: Any) -> list[Any]:
        return [tf.identity(probe.function(feed)) for probe, feed in zip(group, feeds, strict=True)]

    specs = [tf.TensorSpec(probe.usual.shape, probe.usual.dtype, f"x{at}") for at, probe in enumerate(group)]
    return tf.function(call, autograph=False).get_concrete_function(*specs)


class _Library:
    """The library of many ops, of which one at a time gets another input than its usual one."""

    def __init__(self, group: Sequence[Probe], folder: Path) -> None:
        graph_folder = folder / "special"
        graph_folder.mkdir(parents=True)
        (folder / "library").mkdir()
        here = Path.cwd()
        try:
            graph = freeze_function(_concrete(group), [f"x{at}" for at in range(len(group))], graph_folder)
            built = build_library(graph, spec_of("special"), folder / "library")
        finally:
            os.chdir(here)
        self.numbers = {probe.name: at for at, probe in enumerate(group)}
        self.usual = [probe.usual for probe in group]
        self.fetches = [port.spec for port in graph.fetches]
        self.library = LoadedLibrary(str(built.path))
        status, self.model, why = self.library.open()
        assert status == CF_OK, why

    def run(self, probe: Probe, array: Array) -> Array | str:
        """The answer of ``probe`` to ``array``; the reason where the library refuses."""
        number = self.numbers[probe.name]
        feeds = [array if at == number else usual for at, usual in enumerate(self.usual)]
        inputs = [GuardedBuffer.from_data(np.ascontiguousarray(feed).reshape(-1).view(np.uint8), 0) for feed in feeds]
        outputs = [
            GuardedBuffer.from_data(np.zeros(spec.elements, spec.dtype).view(np.uint8), 0) for spec in self.fetches
        ]
        slots = [[BufferSlot(buffer, buffer.size) for buffer in buffers] for buffers in (inputs, outputs)]
        status, why = self.library.run(self.model, *slots, (len(inputs), len(outputs)))
        if status != CF_OK:
            return why
        spec = self.fetches[number]
        return outputs[number].data.view(spec.dtype).reshape(spec.shape)


def _eager(probe: Probe, array: Array) -> Array | str:
    """TensorFlow's answer, op by op; the reason where it raises."""
    try:
        return np.asarray(probe.function(tf.constant(array)))
    except tf.errors.OpError as error:
        return str(error)


def _judge(probe: Probe, value: str, outcomes: Sequence[tuple[Array | str, Array | str, str]]) -> Row:
    refused = False
    for ours, theirs, where in outcomes:
        refused |= isinstance(ours, str) and isinstance(theirs, str)
        if how := _difference(ours, theirs):
            return Row(probe.name, value, "differs", f"{where}: {how}")
    return Row(probe.name, value, "refused" if refused else "as the framework")


def _difference(ours: Array | str, theirs: Array | str) -> str:
    """In words, the first element that differs; empty where none does. Zeros of both signs are equal."""
    if isinstance(ours, str) or isinstance(theirs, str):
        if isinstance(ours, str) and isinstance(theirs, str):
            return ""
        return "refused, where TensorFlow answers" if isinstance(ours, str) else "answered, where TensorFlow raises"
    floating = theirs.dtype.kind == "f"
    with np.errstate(all="ignore"):
        alike = np.isclose(ours, theirs, 1e-4, 1e-5, equal_nan=True) if floating else ours == theirs
    if np.all(alike):
        return ""
    at = tuple(int(i) for i in np.argwhere(~alike)[0])
    text = "ours {:.6g}, TensorFlow's {:.6g}" if floating else "ours {}, TensorFlow's {}"
    return f"{text.format(ours[at], theirs[at])} at {list(at)}"
