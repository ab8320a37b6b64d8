"""What a process has in its environment that loads TensorFlow: it has to be there before the first import."""

from __future__ import annotations

XLA_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false --xla_cpu_experimental_ynn_fusion_type= --xla_cpu_enable_fast_min_max=false"
)
"""What XLA compiles with, for every model; the bundle's manifest records it.

The first two keep XLA from emitting calls into thread pools and libraries that a libmodel.so does not have. With the
third, the largest and the least of numbers is NaN where one of them is.
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
