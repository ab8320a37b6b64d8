"""Subsegments for AWS X-Ray, sent to the daemon that Lambda runs beside a traced function.

This module is imported only with ``COLDFORGE_TRACING=on``. Powertools' Tracer would import the X-Ray SDK and botocore,
which takes longer than the function's whole start; a subsegment is one datagram.
https://docs.aws.amazon.com/xray/latest/devguide/xray-api-segmentdocuments.html
"""

from __future__ import annotations

import functools
import json
import os
import socket
import time
from contextlib import suppress

_HEADER = '{"format": "json", "version": 1}\n'


@functools.cache
def _open_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def forget_state() -> None:
    """Close the socket; the next subsegment opens another."""
    if _open_socket.cache_info().currsize:
        _open_socket().close()
        _open_socket.cache_clear()


def send_subsegment(
    name: str, milliseconds: float, annotations: dict[str, str | int | bool], status: int = 200
) -> None:
    """Send a subsegment that ends now, without waiting, unless this invocation is not sampled."""
    trace = dict(part.partition("=")[::2] for part in os.environ.get("_X_AMZN_TRACE_ID", "").split(";"))
    host, _, port = os.environ.get("AWS_XRAY_DAEMON_ADDRESS", "").partition(":")
    if trace.get("Sampled") != "1" or "Root" not in trace or "Parent" not in trace or not port.isdigit():
        return
    end = time.time()
    segment = {
        "name": name,
        "id": os.urandom(8).hex(),
        "trace_id": trace["Root"],
        "parent_id": trace["Parent"],
        "type": "subsegment",
        "start_time": end - milliseconds / 1000,
        "end_time": end,
        "error": 400 <= status < 500,
        "fault": status >= 500,
        "annotations": annotations,
    }
    with suppress(OSError):
        _open_socket().sendto((_HEADER + json.dumps(segment)).encode(), (host, int(port)))
