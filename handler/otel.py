"""Spans for OpenTelemetry, made with the API of the layer that brings it, such as AWS's (ADOT).

This module is imported only with ``COLDFORGE_OTEL=on``. The layer starts the SDK, makes the span of the invocation and
sends all spans; one made here is a child of that one. https://opentelemetry.io/docs/specs/otel/trace/api/
"""

from __future__ import annotations

import time

from opentelemetry import trace

_TRACER = trace.get_tracer("coldforge")


def send_span(name: str, milliseconds: float, annotations: dict[str, str | int | bool], status: int = 200) -> None:
    """Send a span that ends now, with ``annotations`` as its attributes. ``status``: HTTP's; from 500 on a failure."""
    end = time.time_ns()
    attributes = {f"coldforge.{key}": value for key, value in annotations.items()}
    span = _TRACER.start_span(name, start_time=end - int(milliseconds * 1e6), attributes=attributes)
    if status >= 500:
        span.set_status(trace.StatusCode.ERROR)
    span.end(end)
