"""The number of processes of the function that share one execution environment, its memory and its /tmp.

Lambda Managed Instances start one for each request that an environment takes at once, and each opens the model.
https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-python-runtime.html
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def count_processes(environment: Mapping[str, str] = os.environ) -> int:
    """Return 1 except on Managed Instances, where Lambda's runtime reads the same variable to start processes."""
    return max(1, int(environment.get("AWS_LAMBDA_MAX_CONCURRENCY") or 1))


def choose_thread_count(environment: Mapping[str, str] = os.environ) -> int:
    """Return the count for ``cf_open``: 0, by the processors, or 1 if other processes keep those busy."""
    return 0 if count_processes(environment) == 1 else 1
