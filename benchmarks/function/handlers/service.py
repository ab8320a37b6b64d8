"""The parts that all peers' functions share, so that the engines alone are compared.

They have the Powertools set-up, the metrics and the log line of our function. They have one event, one model and no
protocols, which is less work than ours has.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from handler.powertools import EphemeralMetrics, Logger

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  pathlib would be imported for this alone

logger = Logger(service="coldforge")
logger.append_keys(
    function_name=os.environ.get("AWS_LAMBDA_FUNCTION_NAME"),
    function_version=os.environ.get("AWS_LAMBDA_FUNCTION_VERSION"),
)

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


def settings() -> dict[str, Any]:
    with open(f"{FOLDER}/service.json") as file:  # noqa: PTH123
        values: dict[str, Any] = json.load(file)
    return values


def answering(
    names: dict[str, Any],
    decode: Callable[[dict[str, Any]], Any],
    infer: Callable[[Any], Any],
    show: Callable[[Any], Any],
) -> Handler:
    """Return the function's entry point: it decodes an event, infers, and shows the output in ``names``."""
    cold = True

    def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        nonlocal cold
        first, cold = cold, False
        began = time.perf_counter()
        data = decode(event)
        decoded = time.perf_counter()
        answer = infer(data)
        done = time.perf_counter()
        timings = {"decode": decoded - began, "infer": done - decoded, "total": done - began}
        timings = {name: round(value * 1000, 3) for name, value in timings.items()}
        metrics = EphemeralMetrics(namespace="coldforge", service="")
        dimensions = {"FunctionName": context.function_name, "ModelName": names["name"], "ModelVersion": "1"}
        for name, value in dimensions.items():
            metrics.add_dimension(name, value)
        metrics.add_metric("BatchSize", "Count", 1)
        if first:
            metrics.add_metric("ColdStart", "Count", 1)
        for name, value in timings.items():
            metrics.add_metric(f"{name.capitalize()}Ms", "Milliseconds", value)
        logger.debug("request answered", extra={"function_request_id": context.aws_request_id, "cold_start": first})
        metrics.flush_metrics()
        return {"predictions": [{names["output"]: show(answer)}], "timings_ms": timings, "cold_start": first}

    return lambda_handler
