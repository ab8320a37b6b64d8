"""The one door to TensorFlow: its environment has to be set before the first import."""

from __future__ import annotations

import os
from typing import Any

from builder.base.errors import ImportModelError
from builder.base.tensorflow_environment import ENVIRONMENT, IR_FLAGS, LOGS


def import_tensorflow(*, leave_ir: bool = False) -> Any:
    """The ``import_tensorflow`` module (2 to 3 s at the first call). Nothing may import it another way.

    ``leave_ir``: with IR_FLAGS; only a process's first call can say so.
    """
    verbose = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == LOGS[True]["TF_CPP_MIN_LOG_LEVEL"]
    os.environ.update(ENVIRONMENT | LOGS[verbose] | ({"XLA_FLAGS": IR_FLAGS} if leave_ir else {}))
    import tensorflow

    if not verbose:
        tensorflow.get_logger().setLevel("ERROR")  # deprecations inside TensorFlow are nobody's news here
    return tensorflow


class _LazyTensorFlow:
    """TensorFlow, which is imported where one of its names is first asked for."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_tensorflow(), name)
        setattr(self, name, value)
        return value


tf: Any = _LazyTensorFlow()
"""TensorFlow, for every module.

``import_tensorflow()`` has to be called before a module of TensorFlow's own is imported.
"""


def dtype_of(enum: int) -> Any:
    """The DType of a DataType value in a model. Raises ImportModelError where there is none."""
    try:
        return tf.dtypes.as_dtype(enum)
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


def load_graph(graph_def: Any) -> Any:
    """``graph_def`` as a tf.Graph. Its ops have to be admitted."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    return graph


def reference_session(graph: Any) -> Any:
    """A session that runs ``graph`` as it is written: op by op, in one order, on one thread.

    Grappler's rewrites are off: its fused convolutions refuse groups, and the reference must not be rewritten.
    """
    v1 = tf.compat.v1
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return v1.Session(graph=graph, config=config)
