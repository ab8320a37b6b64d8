"""Hooks that clear the state that a snapshot (SnapStart) must not hold: connections, credentials and random choices.

Every instance is restored from one snapshot, hours or days after it. The module is imported only with SnapStart.
https://docs.aws.amazon.com/lambda/latest/dg/snapstart-runtime-hooks-python.html
"""

from __future__ import annotations

import os
import random
import sys

from .telemetry import logger
from .typed import Any


def register_hooks() -> None:
    """Have Lambda call ``forget_start_state`` before the snapshot, which may be kept, and in each instance after it.

    An exception in a hook ends the instance, and an instance has 10 seconds for all of its hooks.
    """
    try:
        from snapshot_restore_py import register_after_restore, register_before_snapshot
    except ImportError:  # only Lambda's own runtime has snapshots
        return
    register_before_snapshot(forget_start_state)
    register_after_restore(forget_start_state)


def forget_start_state() -> None:
    """Drop connections and credentials, and seed the random numbers anew. It may be called at any time, repeatedly.

    Only modules that were imported have any state to drop.
    """
    random.seed()  # from the kernel, which Lambda seeds anew
    if (ssl := sys.modules.get("ssl")) is not None:
        ssl.RAND_add(os.urandom(32), 32.0)
    for name in ("storage", "remote", "tracing"):
        if (module := sys.modules.get(f"{__package__}.{name}")) is not None:
            module.forget_state()
    boto3: Any = sys.modules.get("boto3")
    if boto3 is not None:
        boto3.DEFAULT_SESSION = None  # it holds the credentials of the start
    if logger.sampling_rate:  # the snapshot made one decision for all instances
        logger.refresh_sample_rate_calculation()
