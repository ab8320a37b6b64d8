"""Lists of ops in ``docs/ops.md``, each op with its translation: ``python -m builder.cli.ops_page`` writes them."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from builder.base.documentation import fill_blocks, link_pages
from builder.base.escape import escape_markdown
from builder.base.files import write_file
from builder.base.project import HOME
from builder.base.tf import import_tensorflow, tf
from builder.importers.rewrites import REWRITES
from builder.importers.strings.frontier import IMAGE_OPS
from builder.importers.strings.string_ops import STEPS
from builder.importers.xla_ops import BEYOND_RUNTIME, HINTS, TAKEN, find_kernels

PAGE = HOME / "docs" / "ops.md"
SPECIAL_VALUES = PAGE.with_name("special-values.json")
"""Results of calling ops with special values; ``make conformance GROUPS=special`` writes them."""

_REASONS: Mapping[str, str] = {
    "They train, or make a gradient.": r"Grad|Apply|Sdca|Backprop|CandidateSampler|Accumulator|KMC2|Kmeans|NegTrain|"
    r"Skipgram|ComputeAccidentalHits|DistortedBoundingBox|BoostedTrees",
    "They run on several machines, on TPUs, or outside the model.": r"Collective|Nccl|Rpc|Send|Recv|TPU|Infeed|Outfeed|"
    r"DTensor|AllReduce|ReduceScatter|Xla|CrossReplica|SymbolicGradient|RemoteCall|Session|SparseCore",
    "They read or write files, or a stream of data.": r"Dataset|Iterator|Reader|File|Save|Restore|Queue|Stage|Barrier|"
    r"RecordInput|Checkpoint|Optional|Batch$|BatchFunction|MapIncompleteSize|^(Ordered)?Map(Clear|Peek|Size|Stage)|"
    r"MemoryCache|ImmutableConst|WeightedFlatMap|Expand?Files|LoadAndRemap|GenerateVocab",
    "They are Python code.": r"PyFunc",
    "They work on strings, or look words up.": r"String|Regex|Unicode|Base64|Substr|ReduceJoin|SegmentJoin|Lookup|"
    r"HashTable|InitializeTable|ToNumber|EditDistance|Fingerprint|Sharded|SparseCross|RaggedCross",
    "They decode or encode something that is no image to be classified.": r"^(Decode|Encode|Parse|Serialize|"
    r"Deserialize|Extract)(?!Glimpse|Volume|Image)|Compress|DrawBounding",
    "They tell a person something while a model is developed.": r"Summary|Debug|Print|Dump|Timestamp|Statistics|"
    r"ImportEvent|Calibration|CustomAggregator",
    "They draw random numbers, so no two answers are alike.": r"Random|Sobol|Seed|NonDeterministic|Shuffle|Binomial|"
    r"StatefulStandardNormal|Multinomial",
    "They calculate with bytes as a converter arranged it: convert from the float model, and give `[weights] type`.": (
        r"Quantize|Requantiz|Mkl"
    ),
    "They change variables of TensorFlow 1 in place.": r"^(Assign|Scatter(?!Nd$)|Ref[A-Z]|Variable|TemporaryVariable|"
    r"DestroyTemporary|CountUpTo|ResourceCountUpTo|ResourceScatterNdM|ResourceGatherNd|IsVariableInit|Inplace|"
    r"StridedSliceAssign|Mutex|ConsumeMutex|Stack|TensorArray)",
    "They take sparse or ragged tensors.": r"Sparse|Ragged|CSR|SetOperation|SetSize",
}

_HEADER = "| op | |\n|---|---|\n"
_OTHERS = "XLA has no kernel for them, and nobody has written a rewrite."


def format_ops_page() -> str:
    """Return the page's text, for the installed TensorFlow (about 5 s)."""
    names = list_op_names()
    runnable = [name for name in names if _is_runnable(name)]
    rewritten = [name for name in runnable if name in REWRITES]
    rest = [name for name in runnable if name not in REWRITES]
    compiled = [n for n in rest if n in TAKEN or (n not in BEYOND_RUNTIME and find_kernels(n))]
    images = [n for n in rest if n in IMAGE_OPS]
    strings = [n for n in rest if n in STEPS | {"HashTableV2", "LookupTableSizeV2"} and n not in compiled]
    refused = [n for n in rest if n not in {*compiled, *images, *strings}]
    return fill_blocks(
        PAGE,
        ops=f"TensorFlow {tf.__version__} has {len(names):,} ops that a model's file can name, "
        f"{len(names) - len(runnable)} of them without a kernel for a CPU. Of the others, a build compiles "
        f"{len(compiled)} as they are and rewrites {len(rewritten)}. It refuses {len(refused)}.",
        rewritten=_HEADER + "".join(_format_rewrites(rewritten)),
        compiled=_format_op_list(compiled),
        images=_format_op_list(images),
        strings=_format_op_list(strings),
        refused=link_pages("".join(_format_refusals(refused))),
        special=_HEADER + "".join(_format_differences()),
    )


def list_op_names() -> list[str]:
    """Return every op of TensorFlow's registry that a file may name, sorted."""
    import_tensorflow()
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    registry = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return sorted(op.name for op in registry.op if not op.name.startswith("_"))


def _is_runnable(name: str) -> bool:
    """Return whether TensorFlow has a kernel for a CPU, or XLA has."""
    from tensorflow.python.framework.kernels import get_registered_kernels_for_op

    on = {kernel.device_type for kernel in get_registered_kernels_for_op(name).kernel}
    return bool(find_kernels(name)) or "CPU" in on or name in REWRITES


def _format_rewrites(names: list[str]) -> Iterator[str]:
    """Yield a row for each rewrite, with its own description."""
    for rewrite in dict.fromkeys(REWRITES[name] for name in names):
        ops = ", ".join(f"`{name}`" for name in names if REWRITES[name] is rewrite)
        says = " ".join((inspect.getdoc(rewrite) or "").split()).replace("``", "`").replace("|", "\\|")
        yield f"| {ops} | {says} |\n"


def _format_op_list(names: Iterable[str]) -> str:
    return "\n" + textwrap.fill(", ".join(f"`{name}`" for name in names), 119, break_long_words=False) + "\n"


def _format_refusals(names: list[str]) -> Iterator[str]:
    left = list(names)
    for reason, pattern in _REASONS.items():
        matching = [name for name in left if re.search(pattern, name)]
        left = [name for name in left if name not in matching]
        if matching:
            yield f"\n### {len(matching)}: {reason.rstrip('.')}\n{_format_op_list(matching)}"
    yield f"\n### {len(left)}: {_OTHERS.rstrip('.')}\n{_format_op_list(left)}"
    if hints := [name for name in names if name in HINTS]:
        yield f"\n### What to do instead\n\n{_HEADER}"
        yield from (f"| `{name}` | {HINTS[name]} |\n" for name in hints)


def _format_differences() -> Iterator[str]:
    """Yield a row for each op that treats special values differently from TensorFlow."""
    differences: dict[str, list[str]] = {}
    for row in json.loads(SPECIAL_VALUES.read_text(encoding="utf-8")):
        if row["outcome"] == "differs":
            differences.setdefault(row["op"], []).append(escape_markdown(row["how"]))
    for op, texts in differences.items():
        yield f"| {escape_markdown(op)} | {'<br>'.join(dict.fromkeys(texts))} |\n"


if __name__ == "__main__":
    write_file(PAGE, format_ops_page())
