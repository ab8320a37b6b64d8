"""The function's entry point, ``handler.app.lambda_handler``: opens the model once and keeps it warm.

event (``events/``) → request → inference (``server``) → answer; over HTTP a protocol (``protocols/``) is between.

An error is returned, not raised: what a function raises reaches the caller with its stack and paths.
The metric ``Errors`` counts them, so that alarms need not look at answers. If the model cannot be opened,
the log has one line that says what to do, and the process ends: callers see only that it did.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger, Metrics

from .errors import HandlerError, Refusal, StartupError, refusal
from .events import answer
from .image import Limits, load_decoders
from .model import open_models
from .server import Call, Result, Server
from .sources import Sources

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = Logger(service="coldforge")
metrics = Metrics(namespace="coldforge", service="coldforge")

try:
    models = open_models()
    # In Lambda the processor is faster and nobody waits while the function starts.
    if models.first.description.image:
        load_decoders()
    limits = Limits.for_memory(
        int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE") or 10_240), os.environ.get("COLDFORGE_FORMATS", "")
    )
    sources = Sources.configured(os.environ)
    # A snapshot (SnapStart) holds what is in memory: a run of each brings in every page of the weights, so that a
    # restored instance waits for none. Nothing else is frozen that matters: no time, no connection, no secret.
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
        for model in models.values():
            model.warm_up()
except StartupError as error:
    logger.critical(str(error))
    sys.exit(1)
except Exception:
    logger.critical("the model cannot be opened", exc_info=True)
    sys.exit(1)

server = Server(models, limits, sources)
_cold_start = True


# log_event stays off whatever POWERTOOLS_LOGGER_LOG_EVENT says: events hold people's pictures.
@logger.inject_lambda_context(log_event=False)
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: object, context: LambdaContext) -> Any:
    """One event; never raises for one that is wrong, and leaves the next one undisturbed."""
    global _cold_start
    cold_start, _cold_start = _cold_start, False

    def observe(result: Result) -> None:
        for name, value in result.timings_ms.items():
            metrics.add_metric(name.capitalize(), "Milliseconds", value)
        metrics.add_metric("Predictions", "Count", result.items)

    def refuse(error: Exception) -> Refusal:
        metrics.add_metric("Errors", "Count", 1)
        if isinstance(error, HandlerError):
            logger.warning("request refused", extra={"code": error.code, "reason": error.message})
        else:
            logger.exception("request failed", exc_info=error)
        return refusal(error, context.aws_request_id)

    call = Call(context.aws_request_id, cold_start, context.get_remaining_time_in_millis, observe, refuse)
    return answer(event, server, call)
