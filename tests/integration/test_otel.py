"""Spans by OpenTelemetry, as a Lambda layer starts it: its packages on the path, its sitecustomize, its handler around
ours, and a collector that takes OTLP over HTTP.
"""

from __future__ import annotations

import base64
import gzip
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support import abi_library, local_server, needs
from tests.support.function import Served, served

pytestmark = pytest.mark.integration

FACE_TEXT = base64.b64encode((ROOT / "tests/data/face.jpg").read_bytes()).decode()
LAYER = ROOT / ".venv-otel" / "python"
TRACE, PARENT = "6740b3c0aaaaaaaaaaaaaaaaaaaaaaaa", "53995c3f42cd8ad8"


@dataclass
class Collector:
    """What was sent to ``endpoint``, as spans of OTLP's protobuf."""

    endpoint: str = ""
    bodies: list[bytes] = field(default_factory=list)

    def spans(self) -> dict[str, Any]:
        sys.path.append(str(LAYER))
        try:
            from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
        finally:
            sys.path.remove(str(LAYER))
        sent = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        groups = [group for one in sent for resource in one.resource_spans for group in resource.scope_spans]
        return {span.name: span for group in groups for span in group.spans}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(local_server.Handler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                found.bodies.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()

    with local_server.serve(Handler) as port:
        found.endpoint = f"http://127.0.0.1:{port}"
        yield found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return abi_library.build(tmp_path_factory.mktemp("library"), abi_library.picture_description())


def instrumented(library: Path, collector: Collector, *events: object) -> Served:
    """``events`` answered by a function that /opt/otel-instrument would have started."""
    if not LAYER.is_dir():
        needs.missing("there is no .venv-otel (make test-all makes it)")
    start = LAYER / "opentelemetry" / "instrumentation" / "auto_instrumentation"
    return served(
        library,
        *events,
        PYTHONPATH=f"{start}:{LAYER}:{ROOT}",
        COLDFORGE_OTEL="on",
        _HANDLER="handler.app.lambda_handler",
        _X_AMZN_TRACE_ID=f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={PARENT};Sampled=1",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_LOGS_EXPORTER="none",
        OTEL_METRICS_EXPORTER="none",
        OTEL_PROPAGATORS="xray-lambda",
        OTEL_TRACES_EXPORTER="otlp",
    )


def test_spans_of_the_model_arrive_below_that_of_the_invocation(library: Path, collector: Collector) -> None:
    seen = instrumented(library, collector, {"image": FACE_TEXT}, {"image": "@"})
    assert "predictions" in seen.answers[0]
    spans = collector.spans()
    assert {"predict", "refused"} < spans.keys()
    told = {one.key: one.value for one in spans["predict"].attributes}
    assert told["coldforge.model_name"].string_value == "brightness"
    assert told["coldforge.items"].int_value == 1
    assert told["coldforge.cold_start"].bool_value is True
    assert {one.key for one in spans["refused"].attributes} == {"coldforge.code"}
    (outer,) = spans.keys() - {"predict", "refused"}
    for span in spans.values():
        assert span.trace_id.hex() == TRACE
        assert 0 <= span.end_time_unix_nano - span.start_time_unix_nano < 60e9
    assert spans[outer].parent_span_id.hex() == PARENT
    assert spans["refused"].parent_span_id == spans[outer].span_id  # by name, the last of each is kept


def test_without_a_layer_the_function_says_so_and_answers(library: Path) -> None:
    seen = served(library, {"image": FACE_TEXT}, COLDFORGE_OTEL="on")
    assert "predictions" in seen.answers[0]
    (line,) = (line for line in seen.lines if line.get("level") == "WARNING")
    assert line["message"] == "there are no spans, because no layer brings OpenTelemetry"
