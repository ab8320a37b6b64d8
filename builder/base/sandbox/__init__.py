"""Execution of all work on a model's file or graph in a child process that can do no harm.

A job goes to a fork server, which has TensorFlow loaded (``fork_server``). The server's child gives up everything that
it does not need before it reads the model (``confinement``): files by Landlock (``landlock``), system calls by seccomp
(``seccomp``), root's capabilities (``libc``), memory and time.
``sandbox_client`` reads the answer as text and files, and never as code.
"""

from builder.base.sandbox.confinement import KernelFeatures, ProcessLimits
from builder.base.sandbox.sandbox_client import Sandbox

__all__ = ["KernelFeatures", "ProcessLimits", "Sandbox"]
