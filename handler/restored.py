"""What a snapshot (SnapStart) must not hold: connections, credentials, random numbers and what was decided by them.

Every instance is made of one snapshot, hours or days after it. Imported only where the function starts for one.
https://docs.aws.amazon.com/lambda/latest/dg/snapstart-runtime-hooks-python.html
"""

from __future__ import annotations

import os
import random
import sys

from .telemetry import logger
from .typed import Any


def register_hooks() -> None:
    """Have Lambda's runtime call ``forget_start_state`` before the snapshot, which may be kept, and in each instance
    after it.

    What a hook raises ends the instance, and an instance has 10 seconds for all of them.
    """
    try:
        from snapshot_restore_py import register_after_restore, register_before_snapshot
    except ImportError:  # not Lambda's own runtime, which alone has snapshots
        return
    register_before_snapshot(forget_start_state)
    register_after_restore(forget_start_state)


def forget_start_state() -> None:
    """Give up connections and credentials, and draw new random numbers. May be called again, and at any time.

    Only modules that were imported have anything to forget.
    """
    random.seed()  # from the kernel, which Lambda seeds anew
    if (ssl := sys.modules.get("ssl")) is not None:
        ssl.RAND_add(os.urandom(32), 32.0)
    for name in ("storage", "remote", "tracing"):
        if (module := sys.modules.get(f"{__package__}.{name}")) is not None:
            module.forget_state()
    boto3: Any = sys.modules.get("boto3")
    if boto3 is not None:
        boto3.DEFAULT_SESSION = None  # has the credentials of the start
    if logger.sampling_rate:  # decided for all instances alike
        logger.refresh_sample_rate_calculation()
