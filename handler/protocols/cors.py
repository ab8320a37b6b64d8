"""Cross-origin requests, for the origins of ``COLDFORGE_CORS_ORIGINS``: a list with commas, or ``*`` for any.

Not behind a Function URL. That has a setting of its own, since it answers preflights before anyone is authorised;
were the function to add its word, the header would stand there twice, which browsers refuse.
"""

from __future__ import annotations

import os

from ..http import HttpRequest, HttpResponse

PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    # What our protocols need, and what signed requests (AWS_IAM) carry.
    "access-control-allow-headers": "content-type, inference-header-content-length, authorization, x-api-key, "
    "x-amz-content-sha256, x-amz-date, x-amz-security-token",
    "access-control-max-age": "3600",
}


def make_headers(request: HttpRequest) -> dict[str, str]:
    """What lets a browser hand this response to the page that asked for it; nothing for other origins."""
    if ".lambda-url." in request.headers.get("host", ""):
        return {}
    allowed = [origin.strip().rstrip("/") for origin in os.environ["COLDFORGE_CORS_ORIGINS"].split(",")]
    origin = request.headers.get("origin")
    if "*" in allowed:
        allow = {"access-control-allow-origin": "*"}
    elif origin in allowed:
        allow = {"access-control-allow-origin": origin or "", "vary": "origin"}
    else:
        return {"vary": "origin"}
    return {**allow, "access-control-expose-headers": "inference-header-content-length"}


def answer_preflight(request: HttpRequest) -> HttpResponse | None:
    """The answer to a browser's question before the request; None for any other request."""
    if request.method != "OPTIONS" or "access-control-request-method" not in request.headers:
        return None
    allowed = "access-control-allow-origin" in make_headers(request)
    return HttpResponse(204, dict(PREFLIGHT) if allowed else {})
