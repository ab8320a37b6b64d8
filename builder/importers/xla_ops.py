"""The ops that XLA compiles for a CPU, by each node's types, from TensorFlow's own kernel registry.

The answer is thus that of the installed version. Ops that have a kernel but cannot be built are in a table here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from builder.base.commands import docs_command
from builder.base.escape import escape_invisible
from builder.base.tf import dtype_name, dtype_of, import_tensorflow, tf
from builder.importers.graph import MODEL_SCOPE
from builder.importers.rewrite import walk_nodes
from builder.importers.rewrites import REWRITES, rewrite_of
from builder.importers.rewrites.apply_rewrites import Refused
from builder.importers.rewrites.custom_steps import is_step
from builder.importers.stablehlo import constants_size

_DEVICE = "XLA_CPU_JIT"
_PORTS = {"Placeholder", "VarHandleOp"}  # These are feeds and state, and the importer leaves no others.
_V1_CONTROL_FLOW = {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"}  # XLA makes While and If of them.
TAKEN = frozenset(_PORTS | _V1_CONTROL_FLOW)
"""Ops without a kernel that are compiled or that the importer replaces."""

BEYOND_RUNTIME = frozenset({
    "CollectiveAssignGroupV2", "CollectiveReduceV2", "SymbolicGradient", "XlaAllReduce", "XlaCustomCall",
    "XlaCustomCallV2", "XlaRecv", "XlaReduceScatter", "XlaSend",
})  # fmt: skip
"""Ops with an XLA kernel whose result cannot be built into a library."""

_OPS_OF_HINTS = {
    "Python code cannot be compiled: write it with TensorFlow ops, or do it in the caller": (
        "PyFunc", "PyFuncStateless", "EagerPyFunc",
    ),
    f"give it a SavedModel's input of strings ({docs_command('strings')}), or fetch and feed past this node": (
        "ParseExample", "ParseExampleV2",
    ),
    "it keeps a tree of beams of any size: fetch its input and decode in the caller, or take "
    "tf.nn.ctc_greedy_decoder": ("CTCBeamSearchDecoder",),
    "give the TensorArray its size, and no dynamic_size": ("TensorListResize",),
    f"let a SavedModel's signature take the encoded images ({docs_command('strings')}), or feed pixels ([image])": (
        "DecodeJpeg", "DecodePng", "DecodeImage", "DecodeBmp", "DecodeGif", "DecodeAndCropJpeg", "DecodeWebP",
    ),
    "only tables that constants or assets fill, of numbers or of a model's inputs of strings: look others up in the "
    "caller": ("HashTableV2", "LookupTableFindV2", "LookupTableSizeV2", "InitializeTableV2", "MutableHashTableV2"),
    "it works on strings that are no input of the model: feed numbers there": (
        "StringToNumber", "AsString", "StringSplitV2", "StringToHashBucketFast", "RegexReplace", "DecodeRaw",
    ),
}  # fmt: skip
HINTS: Mapping[str, str] = {op: hint for hint, ops in _OPS_OF_HINTS.items() for op in ops}
"""What to do instead of an op that is refused."""


@dataclass(frozen=True)
class Unsupported:
    """All nodes of one op that cannot be compiled for one reason. ``nodes`` are named as in the model."""

    op: str
    reason: str
    hint: str | None
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class OpReport:
    """The ops of a graph: the number of nodes, those that cannot be compiled, and the bytes of its constants.

    ``convolutions``: true if any node is one, or may be.
    """

    nodes: int
    unsupported: tuple[Unsupported, ...]
    weights: int
    convolutions: bool = True

    def format_lines(self) -> list[str]:
        """Format the ops that cannot be compiled as lines for a person."""
        total = sum(len(item.nodes) for item in self.unsupported)
        lines = [f"XLA cannot compile {total} of the graph's {self.nodes} nodes:"]
        for item in self.unsupported:
            count, shown = len(item.nodes), ", ".join(map(escape_invisible, item.nodes[:3]))
            lines.append(f"  {escape_invisible(item.op)} x{count}: {item.reason}")
            lines.append(f"    at {shown}" + (f" and {count - 3} more" if count > 3 else ""))
            if item.hint:
                lines.append(f"    {item.hint}")
        return lines


def inspect_ops(definition: Any, *, rewritten: bool = False, refused: Iterable[Refused] = ()) -> OpReport:
    """Report on all nodes of a GraphDef, also inside loops, branches and called functions, without running any.

    Ops that have a rewrite count as compiled, unless the graph is already ``rewritten``. ``refused``: nodes that could
    not be rewritten.
    """
    paths_of: dict[tuple[str, str], list[str]] = {}
    for path, op, reason in refused:
        paths_of.setdefault((op, reason), []).append(path.removeprefix(MODEL_SCOPE))
    nodes = weights = 0
    convolutions = False
    for path, node in walk_nodes(definition):
        nodes += 1
        convolutions |= "Conv" in node.op
        weights += constant_size(node)
        known = is_step(node) if rewritten else rewrite_of(node) is not None
        if not known and (missing := explain_gap(node, find_kernels)):
            paths_of.setdefault((node.op, missing), []).append(path)
    unsupported = tuple(
        Unsupported(op, reason, HINTS.get(op), tuple(paths)) for (op, reason), paths in sorted(paths_of.items())
    )
    return OpReport(nodes, unsupported, weights, convolutions)


def is_compiled(op: str) -> bool:
    """Return whether XLA compiles the op for some types or the importer replaces it; a build runs no others."""
    return op in TAKEN or op in REWRITES or (op not in BEYOND_RUNTIME and bool(find_kernels(op)))


Constraints = tuple[tuple[str, frozenset[int]], ...]
"""The requirements of a kernel, all of which must hold: (attribute, DataTypes that it may have)."""


def explain_gap(node: Any, kernels: Callable[[str], tuple[Constraints, ...]]) -> str | None:
    """Return the reason why ``node`` cannot be compiled, or None, by the constraints of its op's ``kernels``."""
    if node.op in BEYOND_RUNTIME:
        return "it would reach outside the model"
    if node.op in TAKEN:
        return None
    candidates = kernels(node.op)
    if not candidates:
        return "XLA has no kernel for it"
    misses = [
        [(attribute, wrong) for attribute, allowed in constraints if (wrong := _read_types(node, attribute) - allowed)]
        for constraints in candidates
    ]
    if not all(misses):
        return None
    attribute, types = min(misses, key=len)[0]
    allowed = {t for constraints in candidates for name, values in constraints if name == attribute for t in values}
    given = ", ".join(sorted({dtype_name(t) for t in types}))
    right = ", ".join(sorted({dtype_name(t) for t in allowed if t < 100}))  # Types from 100 on are reference types.
    return f"XLA has no kernel for {attribute} = {given}, only for {right}"


def _read_types(node: Any, attribute: str) -> set[int]:
    if attribute not in node.attr:  # It has a default, or is a function's type parameter.
        return set()
    value = node.attr[attribute]
    return set(value.list.type) if value.HasField("list") else {value.type} if value.HasField("type") else set()


@cache
def find_kernels(op: str) -> tuple[Constraints, ...]:
    """Return the constraints of each kernel that XLA has for the op on a CPU."""
    from tensorflow.python.framework.kernels import get_registered_kernels_for_op

    _register_xla()
    return tuple(
        tuple((c.name, frozenset(c.allowed_values.list.type)) for c in kernel.constraint)
        for kernel in get_registered_kernels_for_op(op).kernel
        if kernel.device_type == _DEVICE
    )


@cache
def _register_xla() -> None:
    """Compile a small function, as XLA's kernels only enter the registry with the first compilation."""
    from tensorflow.python.eager.context import eager_mode

    import_tensorflow()
    with eager_mode():  # A graph may be under construction.
        tf.function(lambda x: x + x, jit_compile=True)(tf.zeros([]))


def constant_size(node: Any) -> int:
    """Return the bytes of the constants in ``node``, or raise ImportModelError."""
    if node.op == "XlaCallModule":  # It is a whole program, as JAX saves it.
        return constants_size(node.attr["module"].s)
    if node.op != "Const":
        return 0
    tensor = node.attr["value"].tensor
    return int(math.prod(d.size for d in tensor.tensor_shape.dim) * (dtype_of(tensor.dtype).size or 0))
