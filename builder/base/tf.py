"""The only access to TensorFlow, whose environment must be set before the first import."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from builder.base.errors import ImportModelError

XLA_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false --xla_cpu_experimental_ynn_fusion_type= --xla_cpu_enable_fast_min_max=false"
)
"""XLA's flags for every model, which the bundle's manifest records.

The first two keep XLA from emitting calls into thread pools and libraries that a libmodel.so does not have. With the
third, the maximum and minimum of numbers are NaN if one of them is.
"""

ENVIRONMENT = {
    "XLA_FLAGS": XLA_FLAGS,
    "TF_ENABLE_ONEDNN_OPTS": "0",  # With oneDNN, the order of sums depends on the CPU.
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
}

LOGS = {False: {"TF_CPP_MIN_LOG_LEVEL": "2"}, True: {"TF_CPP_MIN_LOG_LEVEL": "0"}}
"""The variables that make TensorFlow log errors alone, or (True) everything."""

IR_FLAGS = f"{XLA_FLAGS} --xla_dump_to=ir"
"""XLA_FLAGS with dumps of every compilation, LLVM IR included, in the folder ``ir`` of the current folder."""


def import_tensorflow(*, leave_ir: bool = False) -> Any:
    """Return the ``tensorflow`` module, which the first call imports (2 to 3 s), the only way to import it.

    ``leave_ir``: whether to use IR_FLAGS, which only a process's first call can decide.
    """
    verbose = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == LOGS[True]["TF_CPP_MIN_LOG_LEVEL"]
    os.environ.update(ENVIRONMENT | LOGS[verbose] | ({"XLA_FLAGS": IR_FLAGS} if leave_ir else {}))
    import tensorflow

    if not verbose:
        tensorflow.get_logger().setLevel("ERROR")  # Deprecations inside TensorFlow concern no user.
    return tensorflow


class _LazyTensorFlow:
    """TensorFlow, which is imported at the first use of one of its names."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_tensorflow(), name)
        setattr(self, name, value)
        return value


tf: Any = _LazyTensorFlow()
"""TensorFlow, for every module.

``import_tensorflow()`` has to be called before a module of TensorFlow's own is imported.
"""


def dtype_of(enum: int) -> Any:
    """Return the DType of a DataType value in a model. Raises ImportModelError if there is none."""
    try:
        return tf.dtypes.as_dtype(enum)
    except TypeError as error:
        raise ImportModelError(
            f"The model has a tensor of type number {enum}, which TensorFlow does not know: its file is damaged, or "
            "was written by a newer TensorFlow."
        ) from error


def dtype_name(enum: int) -> str:
    """Return NumPy's name of a DataType value, or TensorFlow's (``string``, ``bfloat16``) if NumPy has none.

    Raises ImportModelError.
    """
    return str(dtype_of(enum).name)


def load_graph(graph_def: Any) -> Any:
    """Return ``graph_def`` as a tf.Graph. Its ops must have been admitted."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    return graph


_LARGE = 1 << 16
"""The bytes from which a constant is worth being taken out of a graph."""


def is_large_weight(node: Any) -> bool:
    """Return whether ``node`` is a constant of many floating-point numbers."""
    large = node.op == "Const" and node.ByteSize() >= _LARGE
    return large and bool(tf.dtypes.as_dtype(node.attr["dtype"].type).is_floating)


def take_constants(graph_def: Any, is_taken: Callable[[Any], bool]) -> tuple[Any, dict[str, Any]]:
    """Copy ``graph_def`` with placeholders for the constants that ``is_taken`` accepts; return those by name, too."""
    small, constants = type(graph_def)(versions=graph_def.versions, library=graph_def.library), {}
    for node in graph_def.node:
        if not is_taken(node):
            small.node.append(node)
            continue
        constants[node.name] = node
        placeholder = small.node.add(name=node.name, op="Placeholder")
        placeholder.attr["dtype"].CopyFrom(node.attr["dtype"])
        placeholder.attr["shape"].shape.CopyFrom(node.attr["value"].tensor.tensor_shape)
    return small, constants


def put_constants(graph_def: Any, constants: Mapping[str, Any]) -> Any:
    """Put ``constants`` in the place of their placeholders, by name, in ``graph_def``, which is returned."""
    for node in graph_def.node:
        if node.op == "Placeholder" and node.name in constants:
            node.op = "Const"
            del node.attr["shape"]
            node.attr["value"].CopyFrom(constants[node.name].attr["value"])
    return graph_def


def reference_session(graph: Any) -> Any:
    """Return a session that runs ``graph`` without rewriting: op by op, in one order, on one thread.

    Grappler's rewrites are off: its fused convolutions refuse groups, and the reference must not be rewritten.
    """
    v1 = tf.compat.v1
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return v1.Session(graph=graph, config=config)
