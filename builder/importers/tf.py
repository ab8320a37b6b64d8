"""The one door to TensorFlow: its environment has to be set before the first import."""

from __future__ import annotations

import os
from typing import Any

from builder.errors import ImportModelError

XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false --xla_cpu_experimental_ynn_fusion_type="
"""What XLA compiles with, for every model; the bundle's manifest records it.

Both flags keep XLA from emitting calls into thread pools and libraries that a libmodel.so does not have.
"""

ENVIRONMENT = {
    "XLA_FLAGS": XLA_FLAGS,
    "TF_ENABLE_ONEDNN_OPTS": "0",  # oneDNN sums in another order: golden answers must not depend on the CPU
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
}

LOGS = {False: {"TF_CPP_MIN_LOG_LEVEL": "2"}, True: {"TF_CPP_MIN_LOG_LEVEL": "0"}}
"""What a process that loads TensorFlow is told to log: errors alone, or (True) all there is."""

IR_FLAGS = f"{XLA_FLAGS} --xla_dump_to=ir"
"""XLA_FLAGS, and every compilation also writes what it knows, LLVM IR included, to ``ir`` of the current folder."""


def tensorflow(*, leave_ir: bool = False) -> Any:
    """The ``tensorflow`` module (about 3 s at the first call). Nothing may import it another way.

    ``leave_ir``: with IR_FLAGS; only a process's first call can say so.
    """
    verbose = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == LOGS[True]["TF_CPP_MIN_LOG_LEVEL"]
    os.environ.update(ENVIRONMENT | LOGS[verbose] | ({"XLA_FLAGS": IR_FLAGS} if leave_ir else {}))
    import tensorflow

    if not verbose:
        tensorflow.get_logger().setLevel("ERROR")  # deprecations inside TensorFlow are nobody's news here
    return tensorflow


def dtype_of(enum: int) -> Any:
    """The DType of a DataType value in a model. Raises ImportModelError where there is none."""
    try:
        return tensorflow().dtypes.as_dtype(enum)
    except TypeError as error:
        raise ImportModelError(
            f"The model has a tensor of type number {enum}, which TensorFlow does not know: its file is damaged, or "
            "was written by a newer TensorFlow."
        ) from error


def dtype_name(enum: int) -> str:
    """NumPy's name of a DataType value, or TensorFlow's (``string``, ``bfloat16``) where NumPy has none.

    Raises ImportModelError.
    """
    return str(dtype_of(enum).name)


def reference_session(graph: Any) -> Any:
    """A session that runs ``graph`` as it is written: op by op, in one order, on one thread.

    Grappler's rewrites are off: its fused convolutions refuse groups, and the reference must not be rewritten.
    """
    v1 = tensorflow().compat.v1
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return v1.Session(graph=graph, config=config)
