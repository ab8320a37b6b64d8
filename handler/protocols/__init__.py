"""What is served over HTTP: a protocol is a module whose ``handle`` answers its paths, and whose ``refuse``
gives an error its shape.

A module is imported when its first request comes, so that a protocol nobody uses costs no cold start.
"""

from __future__ import annotations

from ..errors import NotFoundError
from ..http import HttpRequest, HttpResponse
from ..server import Call, Server


def respond(request: HttpRequest, server: Server, call: Call) -> HttpResponse:
    """Always a response, an error's too."""
    from . import predict

    try:
        if request.path not in ("/", "/predict"):
            raise NotFoundError(f"nothing is served at {request.method[:8]} {request.path[:100]}")
        return predict.handle(request, server, call)
    except Exception as error:
        return predict.refuse(call.refuse(error))
