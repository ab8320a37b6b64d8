"""Cross-origin requests, for the origins of ``COLDFORGE_CORS_ORIGINS``: a list with commas, or ``*`` for any.

A Function URL has a setting of its own for them, since it answers preflights before it authorises anyone. The function
adds no headers behind one: browsers refuse a header that comes twice.
"""

from __future__ import annotations

import os

from ..http import HttpRequest, HttpResponse

PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    # Our protocols need the first two; signed requests (AWS_IAM) and API keys need the others.
    "access-control-allow-headers": "content-type, inference-header-content-length, authorization, x-api-key, "
    "x-amz-content-sha256, x-amz-date, x-amz-security-token",
    "access-control-max-age": "3600",
}


def make_headers(request: HttpRequest) -> dict[str, str]:
    """Return the headers that let a browser pass the response to the page that sent the request, if it is allowed."""
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
    """Answer a browser's preflight request. Returns None for any other request."""
    if request.method != "OPTIONS" or "access-control-request-method" not in request.headers:
        return None
    allowed = "access-control-allow-origin" in make_headers(request)
    return HttpResponse(204, dict(PREFLIGHT) if allowed else {})
