"""The only access to TensorFlow, whose environment must be set before the first import."""

from __future__ import annotations

import os
from typing import Any

from builder.base.errors import ImportModelError
from builder.base.tensorflow_environment import ENVIRONMENT, IR_FLAGS, LOGS


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


def reference_session(graph: Any) -> Any:
    """Return a session that runs ``graph`` without rewriting: op by op, in one order, on one thread.

    Grappler's rewrites are off: its fused convolutions refuse groups, and the reference must not be rewritten.
    """
    v1 = tf.compat.v1
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return v1.Session(graph=graph, config=config)
