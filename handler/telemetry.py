"""Log lines of an invocation under its ids, and its metrics in CloudWatch's embedded format.

Invocations share nothing here but the logger, so a host may run several at once in one process. No line ever holds an
event, an image or an environment variable.

Metrics are in the namespace ``coldforge``, with the dimensions FunctionName, ModelName and ModelVersion: ColdStart,
LoadMs (both only of the first invocation), BatchSize, DecodeMs, InferMs, TotalMs. Error also has Code, and is counted a
second time by FunctionName and Code alone, for alarms.
"""

from __future__ import annotations

import os
from functools import partial

from .description import Description
from .errors import HandlerError, Refusal, make_refusal
from .powertools import EphemeralMetrics, Logger
from .server import Invocation, Result
from .typed import TYPE_CHECKING

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

NAMESPACE = "coldforge"
logger = Logger(service="coldforge")


def _skip_span(name: str, milliseconds: float, annotations: dict[str, str | int | bool], status: int = 200) -> None:
    """Do nothing, because tracing is off."""


trace = _skip_span
if os.environ.get("COLDFORGE_OTEL") == "on":
    try:
        from .otel import send_span as trace
    except ImportError as error:  # the function still answers without spans
        logger.warning("there are no spans, because no layer brings OpenTelemetry", extra={"reason": str(error)})
elif os.environ.get("COLDFORGE_TRACING") == "on":
    from .tracing import send_subsegment as trace

logger.append_keys(
    function_name=os.environ.get("AWS_LAMBDA_FUNCTION_NAME"),
    function_version=os.environ.get("AWS_LAMBDA_FUNCTION_VERSION"),
)


class Telemetry:
    """The logs and metrics of one invocation. ``model``: the model named beside errors and by the start."""

    def __init__(self, context: LambdaContext, model: Description, *, cold_start: bool) -> None:
        self._context = context
        self._cold_start = cold_start
        self._model = model
        self._metrics: dict[tuple[str, ...], EphemeralMetrics] = {}
        if logger.sampling_rate and not cold_start:
            logger.refresh_sample_rate_calculation()

    def make_invocation(self, correlation_id: str | None = None) -> Invocation:
        """Return the view of this invocation that the server and the protocols have."""
        return Invocation(
            self._context.aws_request_id,
            self._cold_start,
            self._context.get_remaining_time_in_millis,
            partial(self._record_result, correlation_id),
            partial(self._record_refusal, correlation_id),
            partial(self._log_report, correlation_id),
            self.make_invocation,
        )

    def record_start(self, load_ms: float | None) -> None:
        """Record the start in the first invocation. ``load_ms``: None where the model was restored, not opened."""
        metrics = self._get_model_metrics(self._model)
        if self._cold_start:
            metrics.add_metric("ColdStart", "Count", 1)
        if load_ms is not None:
            metrics.add_metric("LoadMs", "Milliseconds", load_ms)

    def write_metrics(self) -> None:
        """Write the metrics, one line for each set of dimensions."""
        metrics, self._metrics = self._metrics, {}
        handler = logger.registered_handler
        for metric_set in metrics.values():
            handler.acquire()  # keeps another thread's log line from cutting into this one
            try:
                metric_set.flush_metrics()
            finally:
                handler.release()

    def _record_result(self, correlation_id: str | None, result: Result) -> None:
        metrics = self._get_model_metrics(result.description)
        metrics.add_metric("BatchSize", "Count", result.items)
        for name, value in result.timings_ms.items():
            metrics.add_metric(f"{name.capitalize()}Ms", "Milliseconds", value)
        model = {"model_name": result.description.name, "model_version": result.description.version}
        trace("predict", result.timings_ms["total"], {**model, "items": result.items, "cold_start": self._cold_start})
        logger.debug(
            "request answered",
            extra=self._list_ids(correlation_id)
            | model
            | {"items": result.items, "left": result.left, "timings_ms": result.timings_ms},
        )

    def _record_refusal(self, correlation_id: str | None, error: Exception) -> Refusal:
        refusal = make_refusal(error, self._context.aws_request_id)
        fields = self._list_ids(correlation_id) | {"code": refusal.code, "status": refusal.status}
        if isinstance(error, HandlerError):
            logger.warning("request refused", extra=fields | {"reason": error.message})
        else:
            logger.error("request failed", extra=fields, exc_info=error)
        trace("refused", 0, {"code": refusal.code}, refusal.status)
        name, version = self._model.name, self._model.version
        for dimensions in ({"ModelName": name, "ModelVersion": version, "Code": refusal.code}, {"Code": refusal.code}):
            self._get_metrics(dimensions).add_metric("Error", "Count", 1)
        return refusal

    def _log_report(self, correlation_id: str | None, message: str, fields: dict[str, object]) -> None:
        logger.info(message, extra=self._list_ids(correlation_id) | fields)

    def _list_ids(self, correlation_id: str | None) -> dict[str, object]:
        return {
            "function_request_id": self._context.aws_request_id,
            "correlation_id": correlation_id,
            "cold_start": self._cold_start,
        }

    def _get_model_metrics(self, model: Description) -> EphemeralMetrics:
        return self._get_metrics({"ModelName": model.name, "ModelVersion": model.version})

    def _get_metrics(self, dimensions: dict[str, str]) -> EphemeralMetrics:
        key = tuple(dimensions.values())
        if key not in self._metrics:
            # With no service given, POWERTOOLS_SERVICE_NAME would become one more dimension.
            metrics = self._metrics[key] = EphemeralMetrics(namespace=NAMESPACE, service="")
            for name, value in ({"FunctionName": self._context.function_name} | dimensions).items():
                metrics.add_dimension(name, value)
        return self._metrics[key]
