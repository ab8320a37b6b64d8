"""A model as one StableHLO program and its weights, as the processes of other frameworks write it to a folder.

In the graph, the program is one op, ``XlaCallModule``, whose arguments are the feeds, the states and then the weights.
A state is a variable, which the graph reads before the program runs and writes after it.
"""

from __future__ import annotations

import functools
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.arrays import Array, save_arrays
from builder.base.errors import ImportModelError
from builder.base.records import read_part
from builder.base.tf import import_tensorflow, tf
from builder.config.tensor import IndexRange
from builder.importers.graph import MODEL_SCOPE
from builder.importers.loaded import LoadedModel, RawGraph, Shape
from builder.importers.lookup_tables import LookupTable
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.rewrite import copy_message
from builder.importers.strings.counted_terms import TermSteps
from builder.importers.variables_state import Variable

NODE = "program"
"""The graph's node with the program."""

_MODULE, _WEIGHTS, _STATES, _PORTS = "program.mlir", "weights.npz", "states.npz", "ports.json"
_RUNTIME_MODULE, _RUNTIME_WEIGHTS, _SAMPLES = "runtime.mlir", "runtime.npz", "samples.npz"


@dataclass(frozen=True)
class RuntimeProgram:
    """A StableHLO program as StableHloProgram has it, in which custom calls are steps of coldforge's runtime.

    TensorFlow cannot run it: it is for the compiler alone.
    """

    module: bytes
    weights: Mapping[str, Array]


@dataclass(frozen=True)
class StableHloProgram:
    """A StableHLO program in portable bytecode, ``module``, whose ``main`` takes the feeds, ``states`` and ``weights``.

    It gives the fetches and then the new states; ``states`` has the values at first. ``version``: the version of the
    calling convention of ``XlaCallModule``. ``ports``: the model's ports, with open dimensions. ``feeds`` and
    ``fetches``: the program's inputs and outputs in the same order, all shapes static.
    ``symbols``: of a feed that the program encodes as one-hot, how many numbers from 0 on it has codes for.
    ``runtime``: the program for the compiler, if it is another one. ``samples``,
    ``vocabularies`` and ``terms``: see FrameworkModel.
    """

    module: bytes
    version: int
    weights: Mapping[str, Array]
    ports: ModelPorts
    feeds: tuple[PortInfo, ...]
    fetches: tuple[PortInfo, ...]
    symbols: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, Array] = field(default_factory=dict)
    runtime: RuntimeProgram | None = None
    samples: Mapping[str, Array] = field(default_factory=dict)
    vocabularies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    terms: TermSteps | None = None

    def save(self, folder: Path) -> None:
        """Write the program to ``folder``, from which ``load`` reads it."""
        (folder / _MODULE).write_bytes(self.module)
        save_arrays(folder / _WEIGHTS, self.weights)
        save_arrays(folder / _STATES, self.states)
        save_arrays(folder / _SAMPLES, self.samples)
        if self.runtime:
            (folder / _RUNTIME_MODULE).write_bytes(self.runtime.module)
            save_arrays(folder / _RUNTIME_WEIGHTS, self.runtime.weights)
        static = asdict(ModelPorts(self.feeds, self.fetches))
        says = {
            "version": self.version,
            "ports": asdict(self.ports),
            "static": static,
            "symbols": self.symbols,
            "vocabularies": self.vocabularies,
            "terms": self.terms and asdict(self.terms),
        }
        (folder / _PORTS).write_text(json.dumps(says))

    @classmethod
    def load(cls, folder: Path) -> StableHloProgram:
        """Read a program that ``save`` wrote in another process, or raise ImportModelError if it is invalid."""
        try:
            weights, states, samples = (_load_arrays(folder / name) for name in (_WEIGHTS, _STATES, _SAMPLES))
            says = json.loads((folder / _PORTS).read_text())
            static = ModelPorts.from_json(says["static"])
            ports, version = ModelPorts.from_json(says["ports"]), int(says["version"])
            symbols = {str(name): int(count) for name, count in says.get("symbols", {}).items()}
            words = {str(name): tuple(map(str, texts)) for name, texts in says.get("vocabularies", {}).items()}
            terms = read_part(TermSteps, says["terms"]) if says["terms"] else None
            module = (folder / _MODULE).read_bytes()
            runtime = None
            if (folder / _RUNTIME_MODULE).exists():
                runtime = RuntimeProgram(
                    (folder / _RUNTIME_MODULE).read_bytes(), _load_arrays(folder / _RUNTIME_WEIGHTS)
                )
            static_ports = static.feeds, static.fetches
            return cls(module, version, weights, ports, *static_ports, symbols, states, runtime, samples, words, terms)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
            raise ImportModelError("The process that read the model left no program that can be read.") from error


def _load_arrays(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def open_program(folder: Path) -> LoadedModel:
    """Read the model whose program is in ``folder``, or raise ImportModelError."""
    program = StableHloProgram.load(folder)
    return LoadedModel(program.ports, lambda shapes: _freeze_program(program, shapes), program.terms)


def _freeze_program(program: StableHloProgram, shapes: Mapping[str, Shape]) -> RawGraph:
    import_tensorflow()
    from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_call_module

    if {port.name: port.shape for port in program.feeds} != dict(shapes):
        raise ImportModelError("The model's program was made for other shapes.")
    with tf.Graph().as_default() as graph:
        weights = [tf.constant(value, name=f"weight_{i}") for i, value in enumerate(program.weights.values())]
        kinds = ["string" if port.name in program.vocabularies else port.dtype for port in program.feeds]
        feeds = [
            tf.compat.v1.placeholder(kind, port.shape, f"feed_{i}")
            for i, (kind, port) in enumerate(zip(kinds, program.feeds, strict=True))
        ]
        tables = {name: _make_vocabulary(texts) for name, texts in program.vocabularies.items()}
        handles = {name: tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64) for name in tables}
        numbers = [
            tf.raw_ops.LookupTableFindV2(table_handle=handles[p.name], keys=feed, default_value=np.int64(-1))
            if p.name in handles
            else feed
            for p, feed in zip(program.feeds, feeds, strict=True)
        ]
        first = list(program.states.values())
        states = [tf.raw_ops.VarHandleOp(dtype=v.dtype, shape=v.shape, name=f"state_{i}") for i, v in enumerate(first)]
        values = [tf.raw_ops.ReadVariableOp(resource=h, dtype=v.dtype) for h, v in zip(states, first, strict=True)]
        results = xla_call_module(
            args=[*numbers, *values, *weights],
            version=program.version,
            module=program.module,
            Sout=[*(port.shape for port in program.fetches), *(value.shape for value in first)],
            Tout=[*(port.dtype for port in program.fetches), *(value.dtype for value in first)],
            platforms=["CPU"],
            name=NODE,
        )
        new = results[len(program.fetches) :]
        writes = [tf.raw_ops.AssignVariableOp(resource=h, value=v) for h, v in zip(states, new, strict=True)]
        with tf.control_dependencies(writes):
            fetches = [tf.identity(value) for value in results[: len(program.fetches)]]
    return RawGraph(
        graph.as_graph_def(),
        {port.name: tensor.name for port, tensor in zip(program.feeds, feeds, strict=True)},
        {port.name: tensor.name for port, tensor in zip(program.fetches, fetches, strict=True)},
        {tensor.op.name: name for tensor, name in zip(weights, program.weights, strict=True)},
        {h.op.name: Variable(*state) for h, state in zip(states, program.states.items(), strict=True)},
        tables={handle.op.name: tables[name] for name, handle in handles.items()},
        ranges={
            port.name: (IndexRange(0, 1, 1, 0, max(port.rows, 1) - 1),) for port in program.ports.feeds if port.rows
        }
        | {name: (IndexRange(0, 1, 1, -1, len(table.keys) - 1),) for name, table in tables.items()}
        | (program.terms.ranges if program.terms else {}),
        symbols={name: count for name, count in program.symbols.items() if name not in tables},
        quantised={port.name: port.quantised for port in program.ports.fetches if port.quantised},
        samples=program.samples,
        replace_program=functools.partial(_replace_program, program) if program.runtime else None,
    )


def _make_vocabulary(texts: Sequence[str]) -> LookupTable:
    """Return the table of the numbers of strings, which has at least one key. Raises ImportModelError."""
    keys = np.array([text.encode() for text in texts or ("",)], object)
    table = LookupTable.from_arrays(keys, np.arange(len(keys), dtype=np.int64))
    if table is None:
        raise ImportModelError("The model's program has a list of strings with one of them twice.")
    return table


def _replace_program(program: StableHloProgram, graph_def: Any) -> Any:
    """Return ``graph_def`` with the program for the compiler in the place of the one that TensorFlow runs."""
    assert program.runtime
    result = copy_message(graph_def)
    (node,) = (node for node in result.node if node.name == MODEL_SCOPE + NODE)
    inputs, types = node.input, node.attr["Tin"].list.type
    kept = len(inputs) - len(program.weights)
    del inputs[kept:], types[kept:]
    for number, value in enumerate(program.runtime.weights.values()):
        weight = result.node.add(name=f"{MODEL_SCOPE}runtime_weight_{number}", op="Const")
        weight.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        weight.attr["dtype"].type = weight.attr["value"].tensor.dtype
        inputs.append(weight.name)
        types.append(weight.attr["dtype"].type)
    node.attr["module"].s = program.runtime.module
    return result
