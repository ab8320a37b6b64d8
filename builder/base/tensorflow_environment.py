"""Environment variables of a process that loads TensorFlow, which must be set before the first import."""

from __future__ import annotations

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
