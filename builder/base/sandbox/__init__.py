"""Run what touches a model's file or graph in a child process that can harm nothing.

A job goes to a fork server, which has TensorFlow loaded (``server``). The server's child gives up what it does not
need before it looks at the model (``child``, ``confinement``): files by Landlock (``landlock``), system calls by
seccomp (``seccomp``), root's powers (``privileges``), memory and time (``limits``). What the kernel lacks is said on
the screen (``kernel``). ``client`` is the builder's side, which reads the answer as text and files, and never as code.
"""

from builder.base.sandbox.job_limits import ProcessLimits
from builder.base.sandbox.kernel import KernelFeatures
from builder.base.sandbox.sandbox_client import Sandbox

__all__ = ["KernelFeatures", "ProcessLimits", "Sandbox"]
