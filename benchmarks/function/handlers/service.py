"""What every peer's function shares, so that nothing but the engine is compared.

The same Powertools set-up as ours, the metrics and the log line of ours, and our own picture code: exactly the same
pixels reach every engine. It has one event, one model and no protocols, which is less than ours has to do.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from handler.budget import Limits
from handler.description import ImageInput
from handler.image import load_decoders, pixels

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  pathlib would be imported for this alone

logger = Logger(service="coldforge")
logger.append_keys(
    function_name=os.environ.get("AWS_LAMBDA_FUNCTION_NAME"),
    function_version=os.environ.get("AWS_LAMBDA_FUNCTION_VERSION"),
)


def serve(infer: Callable[[bytes], Sequence[float]]) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """The function's entry point. ``infer``: raw pixels, uint8 row-major, to one probability for each label."""
    with open(f"{FOLDER}/service.json") as file:  # noqa: PTH123
        settings = json.load(file)
    labels, image = settings["labels"], ImageInput(**settings["image"])
    load_decoders()
    limits, cold = Limits.for_memory(int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])), True

    def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        nonlocal cold
        first, cold = cold, False
        began = time.perf_counter()
        data = pixels(base64.b64decode(event["image"], validate=True), "image", image, limits)
        decoded = time.perf_counter()
        probabilities = infer(data)
        done = time.perf_counter()
        timings = {"decode": decoded - began, "infer": done - decoded, "total": done - began}
        timings = {name: round(value * 1000, 3) for name, value in timings.items()}
        metrics = EphemeralMetrics(namespace="coldforge", service="")
        dimensions = {"FunctionName": context.function_name, "ModelName": settings["name"], "ModelVersion": "1"}
        for name, value in dimensions.items():
            metrics.add_dimension(name, value)
        metrics.add_metric("BatchSize", "Count", 1)
        if first:
            metrics.add_metric("ColdStart", "Count", 1)
        for name, value in timings.items():
            metrics.add_metric(f"{name.capitalize()}Ms", "Milliseconds", value)
        logger.debug("request answered", extra={"function_request_id": context.aws_request_id, "cold_start": first})
        metrics.flush_metrics()
        ranked = sorted(zip(labels, probabilities, strict=True), key=lambda pair: -pair[1])
        classes = [{"label": label, "probability": float(value)} for label, value in ranked]
        return {"predictions": [{settings["output"]: classes}], "timings_ms": timings, "cold_start": first}

    return lambda_handler
