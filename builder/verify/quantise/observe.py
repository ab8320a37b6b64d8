"""Observation of a running model: a build of its program that shows its memory before every step.

The library is loaded into this process. An observer gets NumPy's view of its arena, so that no statistic is in C.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.link.shared_library import build_library
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import View
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.xla.tfcompile import CompiledGraph
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph
from builder.verify.library.loaded_library import OpenedModel
from builder.verify.quantise.answer_accuracy import run_once

Look = Callable[[int, NDArray[np.uint8]], None]
"""A function of the number of the step that begins (``walk_steps``; their count after the last) and the arena."""

_Observer = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p)


def build_observable(program: Program, spec: ModelSpec, compiled: CompiledGraph, folder: Path, cache: Path) -> Path:
    """Build a library of ``program`` in ``folder`` that can be observed. Raises LinkError.

    No two may have the same path in one process: the second would be the first.
    """
    return build_library(program, spec, compiled, folder, cache / "zig", probe="observe")


def observe_steps(
    library: Path, program: Program, graph: FrozenGraph, runs: Iterable[Mapping[str, NDArray[Any]]], look: Look
) -> None:
    """Run ``library`` on each of ``runs``, in order and on one opened model, and call ``look`` at every step.

    Raises VerifyError if this machine can't run it, and errors of ``look``.
    """
    failures: list[BaseException] = []

    def called(step: int, address: int) -> None:
        if failures:
            return
        try:
            arena = (ctypes.c_uint8 * program.arena_size).from_address(address)
            look(step, np.ctypeslib.as_array(arena))
        except BaseException as error:  # ctypes would print it and go on
            failures.append(error)

    observer = _Observer(called)  # must live as long as it may be called
    with OpenedModel(library) as model:
        model.so.cf_observe.restype = None
        model.so.cf_observe(observer)
        try:
            for feeds in runs:
                run_once(model, graph, feeds)
                if failures:
                    raise failures[0]
        finally:
            model.so.cf_observe(None)  # the library stays loaded after ``observer`` is gone


def view_image(view: View, shape: tuple[int, int, int, int], arena: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the float32 [batch, height, width, channels] that ``view`` has in ``arena``, without a copy."""
    whole = arena[view.buffer.offset :]
    floats = whole[: whole.size // 4 * 4].view(np.float32)[view.first :]
    strides = tuple(4 * n for n in (view.image, view.row, view.pixel, 1))
    return np.lib.stride_tricks.as_strided(floats, shape, strides, writeable=False)


def view_input(step: LayerStep, arena: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the input of ``step``, without its padding: [batch, height, width, channels]."""
    return view_image(step.input, (step.geometry.batch, *step.in_size, step.geometry.in_channels), arena)
