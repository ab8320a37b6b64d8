"""Every event the function takes. An event is a module: ``matches`` knows it by its shape, ``handle`` answers it."""

from __future__ import annotations

from typing import Any

from ..server import Call, Server
from . import direct, http_api


def answer(event: object, server: Server, call: Call) -> Any:
    """What the function returns for ``event``; raises nothing that is the caller's fault."""
    for kind in (http_api,):
        if kind.matches(event):
            return kind.handle(event, server, call)
    return direct.handle(event, server, call)
