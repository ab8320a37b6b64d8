"""The function's entry point, ``handler.app.lambda_handler``: opens the model once and keeps it warm.

    {"image": "<base64, or a data: URL>"}      one picture
    {"images": ["<base64>", …]}                several; answered in the same order
    {"inputs": {"<feed>": [[…], …]}}           tensors, for models that take no picture

answers

    {"model": {"name": …, "version": …},
     "predictions": [{"<output>": [{"label": …, "probability": …}, …] or numbers}, …],
     "cold_start": true, "timings_ms": {"decode": …, "infer": …, "total": …}}

or ``{"error": {"code": …, "message": …}}``. A Function URL takes and answers the same as JSON.

An error is returned, not raised: what a function raises reaches the caller with its stack and paths.
The metric ``Errors`` counts them, so that alarms need not look at answers. If the model cannot be opened,
the log has one line that says what to do, and the process ends: callers see only that it did.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger, Metrics

from .answer import predictions
from .errors import HandlerError, StartupError
from .http import body, is_http, response
from .image import Limits, load_decoders
from .model import open_model
from .request import parse, runs

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = Logger(service="coldforge")
metrics = Metrics(namespace="coldforge", service="coldforge")
LIMITS = Limits.for_memory(int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE") or 10_240))

try:
    model = open_model()
    # In Lambda the processor is faster and nobody waits while the function starts.
    if model.description.image:
        load_decoders()
    # A snapshot (SnapStart) holds what is in memory: one run brings in every page of the weights, so that a
    # restored instance waits for none. Nothing else is frozen that matters: no time, no connection, no secret.
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
        model.warm_up()
except StartupError as error:
    logger.critical(str(error))
    sys.exit(1)
except Exception:
    logger.critical("the model cannot be opened", exc_info=True)
    sys.exit(1)

_cold_start = True


def _predict(event: Any, cold_start: bool) -> dict[str, Any]:
    began = time.perf_counter()
    description = model.description
    request = parse(body(event) if is_http(event) else event, description, LIMITS)
    decoded = time.perf_counter()
    answers: list[dict[str, Any]] = []
    inferring = 0.0
    for feeds, count in runs(request, description):
        start = time.perf_counter()
        fetches = model.run(feeds)
        inferring += time.perf_counter() - start
        answers += predictions(description, fetches, count)
    timings = {"decode": decoded - began, "infer": inferring, "total": time.perf_counter() - began}
    milliseconds = {name: round(seconds * 1000, 3) for name, seconds in timings.items()}
    for name, value in milliseconds.items():
        metrics.add_metric(name.capitalize(), "Milliseconds", value)
    metrics.add_metric("Predictions", "Count", len(answers))
    return {
        "model": {"name": description.name, "version": description.version},
        "predictions": answers,
        "cold_start": cold_start,
        "timings_ms": milliseconds,
    }


# log_event stays off whatever POWERTOOLS_LOGGER_LOG_EVENT says: events hold people's pictures.
@logger.inject_lambda_context(log_event=False)
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: object, context: LambdaContext) -> dict[str, Any]:
    """One request; never raises for one that is wrong, and leaves the next one undisturbed."""
    global _cold_start
    cold_start, _cold_start = _cold_start, False
    refused: Exception | None = None
    try:
        answer = _predict(event, cold_start)
    except HandlerError as error:
        refused = error
        logger.warning("request refused", extra={"code": error.code, "reason": error.message})
        answer = _refusal(error.code, error.message)
    except Exception as error:
        refused = error
        logger.exception("request failed")
        answer = _refusal("internal", f"the function failed; its log has more under request {context.aws_request_id}")
    return response(answer, refused) if is_http(event) else answer


def _refusal(code: str, message: str) -> dict[str, Any]:
    metrics.add_metric("Errors", "Count", 1)
    return {"error": {"code": code, "message": message}}
